"""What is said of a comparison of numbers, and ``load --parity`` from outside."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from modelcheck.emulate.results import PromptResult
from modelcheck.report.parity import render_text
from modelcheck.vllm.load import PYTHON
from modelcheck.vllm.parity import Held, Numbers, ParityReport

ROOT = Path(__file__).resolve().parents[2]
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"

GOOD = PromptResult(11, 16, 6, 3e-6, 4e-6, 16, 6)
SAME = Numbers((GOOD, GOOD))
HELD = (
    Held("layers.0.qkv_proj", "QKVParallelLinear", (64, 16, 16), ((32, 16, 16),) * 2, 64, 2),
    Held("layers.1.qkv_proj", "QKVParallelLinear", (64, 16, 16), ((32, 16, 16),) * 2, 64, 2),
    Held("layers.0.o_proj", "RowParallelLinear", (64,), ((64,), (64,)), 32),
)


def text(report: ParityReport) -> str:
    out = io.StringIO()
    render_text(report, Console(file=out, width=140))
    return out.getvalue()


@pytest.mark.parametrize(
    "changes",
    [{"prefill": 0.01}, {"decode": 0.01}, {"decode": float("nan")}, {"greedy": 5}],
    ids=str,
)
def test_one_difference_is_enough(changes: dict[str, float]) -> None:
    other = dataclasses.replace(GOOD, **changes)  # type: ignore[arg-type]
    assert SAME.same
    assert not Numbers((GOOD, other)).same
    assert not ParityReport("m", SAME, Numbers((GOOD, other)), 2).same


def test_nothing_compared_is_not_the_same() -> None:
    assert not Numbers().same
    assert not Numbers((GOOD,), error="RuntimeError").same


def test_what_the_ranks_hold_is_shown_once_for_equal_layers() -> None:
    shown = text(ParityReport("m", SAME, SAME, 2, held=HELD))
    lines = [line for line in shown.splitlines() if "qkv_proj" in line]
    (line,) = lines
    cells = ["layers.*.qkv_proj", "QKVParallelLinear", "64 + 16 + 16"]
    cells += ["32 + 16 + 16 x 64"] * 2 + ["each KV head on 2 ranks"]
    assert line.split() == " ".join(cells).split()
    assert "64 x 32" in shown
    assert shown.splitlines()[-1].endswith("on one rank and on 2")


def test_causes_and_errors_are_lines() -> None:
    wrong = Numbers((dataclasses.replace(GOOD, prefill=0.5, top1=3),))
    shown = text(ParityReport("m", wrong, causes=("the mask",)))
    assert "cause: the mask" in shown.splitlines()
    assert shown.splitlines()[-1] == "vLLM serves other numbers than transformers"
    assert "3 of 16" in shown
    shown = text(ParityReport("m", SAME, Numbers(error="RuntimeError: split"), 2))
    assert "2 ranks: RuntimeError: split" in shown.splitlines()
    assert shown.splitlines()[-1] == "vLLM fails on 2 ranks"


def test_json_has_no_nan() -> None:
    report = ParityReport("m", Numbers(error="x"), held=HELD)
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (data["schema_version"], data["same"], data["parity"]["largest"]) == (1, False, None)
    assert data["shards"][0]["ranks"] == [[32, 16, 16], [32, 16, 16]]


def command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from modelcheck.cli import main; main()", "load", *arguments],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(Path.home())} | env,
    )


@pytest.mark.parametrize("options", [("--engine",), ("--device", "cpu")])
def test_options_that_exclude_each_other(options: tuple[str, ...]) -> None:
    done = command(str(REMOTE), "--parity", *options)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "--parity and --tp start an engine of their own" in line


@pytest.mark.vllm
@pytest.mark.skipif(PYTHON not in os.environ, reason=f"${PYTHON} names no interpreter with vLLM")
def test_a_refusal_is_told_before_an_engine_is_started(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(REMOTE, tmp_path / "no_config"))
    file = folder / "modeling_tarn.py"
    assert "self.config = config\n" in file.read_text()
    file.write_text(file.read_text().replace("self.config = config\n", "self.settings = config\n"))
    done = command(
        *(str(folder), "--trust-remote-code", "--parity"), **{PYTHON: os.environ[PYTHON]}
    )
    assert done.returncode == 1, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("vLLM would refuse: layer 0 ")
    assert "does not dispatch" in last
