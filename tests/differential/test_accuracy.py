"""Both evidences against vLLM's own fusers on a sample of model types: never worse than before.

accuracy.json holds the sample and what was measured on it; `python benchmarks/accuracy.py
--types ...` measures it again, and without ``--types`` everything.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMMITTED = json.loads((HERE / "accuracy.json").read_text())
TOLERANCE = 1e-9  # of shares that were rounded to nine digits


@pytest.fixture(scope="module")
def measured(python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The benchmark's figures on the sample."""
    out = tmp_path_factory.mktemp("accuracy") / "figures.json"
    command = [python, str(ROOT / "benchmarks" / "accuracy.py"), "--json", str(out)]
    command += ["--types", ",".join(COMMITTED["sample"])]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(out.read_text())


@pytest.mark.slow
def test_every_type_of_the_sample_is_judged(measured: Any) -> None:
    assert measured["not judged"] == {}
    assert len(COMMITTED["sample"]) >= 25


@pytest.mark.slow
@pytest.mark.parametrize("evidence", ["predicted", "traced"])
@pytest.mark.parametrize("on", ["types", "probes"])
def test_not_worse_than_committed(measured: Any, on: str, evidence: str) -> None:
    now, before = measured[on][evidence], COMMITTED[on][evidence]
    assert now["shares"]["right"] >= before["right"] - TOLERANCE, now["unknown"]
    assert now["shares"]["wrong"] <= before["wrong"] + TOLERANCE, now["wrong"]
    yes = now["table"]["all"]["right yes"]
    assert yes >= before["least yes"], "too few fusions were judged to mean anything"


@pytest.mark.slow
@pytest.mark.parametrize("on", ["types", "probes"])
def test_traced_is_always_right(measured: Any, on: str) -> None:
    assert measured[on]["traced"]["wrong"] == []
