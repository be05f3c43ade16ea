"""The probes: small modules, and what each vLLM release really made of them."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROBES = Path(__file__).resolve().parents[2] / "fixtures" / "probes"


def _expected(name: str) -> Any:
    return json.loads((PROBES / name).read_text())


@pytest.fixture(scope="session")
def expected() -> Mapping[str, Any]:
    """{probe: {release: {"tp1": [fusers], "tp2": [fusers]}}}; a crash is a text "EXC ..."."""
    return _expected("expected.json")  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def expected_moe_mla() -> Mapping[str, Any]:
    """{probe: {release: text}}."""
    return _expected("expected_moe_mla.json")  # type: ignore[no-any-return]


def _load(name: str) -> Iterator[ModuleType]:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    spec = importlib.util.spec_from_file_location(name, PROBES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]


@pytest.fixture(scope="session")
def probe_cases() -> Iterator[ModuleType]:
    """GLU, QKV, RMSNorm, attention and merged-column probes."""
    yield from _load("probe_cases")


@pytest.fixture(scope="session")
def probe_moe_mla() -> Iterator[ModuleType]:
    """MoE and MLA probes."""
    yield from _load("probe_moe_mla")
