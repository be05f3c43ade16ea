"""Shared by tests that build remote code in their own process."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def module_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remote code is copied into a folder of one test file, not into the user's cache."""
    dynamic_module_utils = pytest.importorskip("transformers.dynamic_module_utils")
    for name in [n for n in sys.modules if n.partition(".")[0] == "transformers_modules"]:
        del sys.modules[name]  # a package of another test's cache
    with pytest.MonkeyPatch.context() as patch:
        cache = str(tmp_path_factory.mktemp("modules"))
        patch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", cache)
        patch.setattr(sys, "path", list(sys.path))  # transformers appends the folder to it
        yield
