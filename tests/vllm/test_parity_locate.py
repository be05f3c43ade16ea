"""Which of vLLM's modules may be compared with transformers', and what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from modelcheck.vllm import parity_locate


def one(inputs: dict[str, Any], outputs: list[Any], name: str = "X") -> dict[str, Any]:
    return {"class": name, "inputs": inputs, "outputs": outputs}


ROWS = torch.arange(8.0).reshape(2, 4)
MINE = {
    "act": one({"0.0": ROWS}, [ROWS]),
    "mlp": one({"0.0": ROWS}, [ROWS]),
    "norm": one({"0.0": ROWS}, [ROWS]),
}


def located(
    monkeypatch: pytest.MonkeyPatch, folder: Path, theirs: dict[str, Any], prefill: bool = True
) -> dict[str, Any] | None:
    parity_locate.save(MINE, folder)
    monkeypatch.setattr(parity_locate, "_calls", lambda *_: ([(2, theirs)], [7]))
    return parity_locate.first(None, folder, [[1, 2, 7]], 0, 2, 1e-3, prefill)


def test_a_merged_input_is_no_difference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An activation of vLLM's takes gate and up side by side: another module is to blame."""
    merged = one({"0.0": torch.cat([ROWS, ROWS], 1)}, [ROWS + 1], "SiluAndMul")
    theirs = {"act": merged, "mlp": one({"0.0": ROWS}, [ROWS + 1], "MLP")}
    assert set(parity_locate.comparable(MINE, theirs)) == {"mlp"}
    found = located(monkeypatch, tmp_path, theirs)
    assert found == {"path": "mlp", "class_name": "MLP", "phase": "prefill", "largest": 1.0}


def test_what_agrees_everywhere_is_the_head(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = located(monkeypatch, tmp_path, MINE)
    assert found is not None and found["path"] == "head"


def test_nothing_is_claimed_without_knowledge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert located(monkeypatch, tmp_path, {"other": one({}, [ROWS])}) is None
    other_input = {"mlp": one({"0.0": ROWS + 1}, [ROWS + 1])}  # it came differing already
    assert located(monkeypatch, tmp_path, other_input) is None
    assert located(monkeypatch, tmp_path, MINE, prefill=False) is None
