"""The gate and the log check against a real vLLM: what is expected is what it logs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from modelcheck.errors import BuildError
from modelcheck.fusers.results import Evidence
from modelcheck.gate.lock import Lock, read
from modelcheck.gate.logcheck import LogCheck
from modelcheck.gate.measure import seen_in
from modelcheck.vllm.load import LoadReport

ROOT = Path(__file__).resolve().parents[2]
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"


def test_a_lock_expects_what_vllm_logs(outcomes: Mapping[str, LoadReport | BuildError]) -> None:
    """No line too few and none too many, for every model that vLLM takes."""
    checked = 0
    for name, report in outcomes.items():
        if isinstance(report, BuildError) or not report.agree:
            continue
        release = str(report.versions["vllm"])
        seen = seen_in(release, report.dryrun)
        assert seen.fused.keys() == seen_in(release, report.vllm).fused.keys(), name
        lock = Lock(
            release, None, name, None, Evidence.TRACED, "", tuple(seen.fused.values()), name
        )
        check = LogCheck(lock)
        for line in report.log:
            list(check.feed(f"(Worker pid=1) INFO 11-30 08:16:29 [base.py:575] {line}\n"))
        assert check.missing == (), name
        assert check.more == (), name
        assert len(check.texts) == len(set(report.log)), name
        checked += 1
    assert checked > 5


def test_vllm_itself_records_and_checks(tmp_path: Path, python: str) -> None:
    """`--load` counts the modules of the whole model; a changed one fails with the line."""
    folder = Path(shutil.copytree(REMOTE, tmp_path / "tarn"))

    def gate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "modelcheck", "gate", str(folder), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        asked = ["--load", "--trust-remote-code", "--python", python]
        return subprocess.run(
            [*command, *asked], capture_output=True, text=True, env=environment, check=False
        )

    done = gate("--update")
    assert done.returncode == 0, done
    lock = read(folder / "modelcheck.lock")
    counts = {e.key: e.count for e in lock.expectations}
    assert lock.evidence is Evidence.LOADED
    assert counts["TarnMLP", "GLU"] == 4
    assert counts["TarnRMSNorm", "RMSNorm"] == 17

    file = folder / "modeling_tarn.py"
    text = file.read_text()
    before = "self.act_fn(self.gate_proj(hidden_states))"
    assert before in text
    file.write_text(text.replace(before, "nn.functional.silu(self.gate_proj(hidden_states))"))
    line = next(i for i, t in enumerate(file.read_text().splitlines(), 1) if "functional.silu" in t)
    done = gate("--json")
    assert done.returncode == 1, done
    data = json.loads(done.stdout)
    assert data["evidence"] == "loaded"
    (lost,) = data["releases"][0]["lost"]
    assert (lost["class_name"], lost["fuser"]) == ("TarnMLP", "GLU")
    assert (lost["was"], lost["now"], lost["line"]) == (4, 0, line)
