"""Two versions of one model's code, and the command, through real processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from modelcheck.dryrun.target import BuildSpec
from modelcheck.emulate import EmulateSpec, compare_runs
from modelcheck.errors import BuildError, UsageError

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures" / "emulate"
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "modelcheck", "emulate", *arguments],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
    )


def trusted(folder: Path) -> EmulateSpec:
    return EmulateSpec(BuildSpec(path=str(folder), trust_remote_code=True), steps=3)


def edited(folder: Path, old: str, new: str) -> Path:
    shutil.copytree(REMOTE, folder)
    file = folder / "modeling_tarn.py"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    return folder


def test_a_fix_gives_what_the_old_version_gave() -> None:
    """The old version ignores positions: right in transformers, and there the fix is equal."""
    old, new = FIXTURES / "positions_counted", FIXTURES / "positions_honoured"
    report = compare_runs(trusted(old), trusted(new))
    assert report.same and report.same_keys and report.new.same
    assert [p.greedy for p in report.prompts] == [3, 3, 3]


def test_a_fix_that_changes_numbers_is_named(tmp_path: Path) -> None:
    new = edited(tmp_path / "new", "residual + hidden_states\n        residual =",
                 "residual + 1.01 * hidden_states\n        residual =")  # fmt: skip
    report = compare_runs(trusted(REMOTE), trusted(new))
    assert not report.same and report.same_keys
    assert report.new.first is None  # the new version agrees with itself
    assert report.first is not None
    assert (report.first.path, report.first.class_name) == ("layers.0", "TarnDecoderLayer")


def test_keys_that_differ_are_named(tmp_path: Path) -> None:
    new = edited(tmp_path / "new", "q_norm", "query_norm")
    report = compare_runs(trusted(REMOTE), trusted(new))
    assert not report.same and not report.same_keys
    assert "model.layers.0.self_attn.q_norm.weight" in report.missing
    assert "model.layers.0.self_attn.query_norm.weight" in report.unexpected


def test_what_is_wrong_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="old version has to be a folder"):
        compare_runs(BuildSpec(model_type="llama"), trusted(REMOTE))
    with pytest.raises(BuildError, match=r"no config\.json in this folder"):
        compare_runs(tmp_path, trusted(REMOTE))


def test_the_command_says_what_differs_and_why() -> None:
    result = command(str(FIXTURES / "positions_counted"), "--trust-remote-code")
    assert result.returncode == 1
    assert "First difference: the base model itself (AcaciaModel), in decode" in result.stdout
    assert "Likely cause: position_ids have no effect" in result.stdout
    assert "of 3 prompts differ" in result.stdout
    assert "Traceback" not in result.stderr


def test_the_command_in_json() -> None:
    result = command("--model-type", "llama", "--set", "num_attention_heads=8", "--json")
    assert result.returncode == 0
    data = json.loads(result.stdout)
    assert (data["evidence"], data["outcome"], data["same"]) == ("emulated", "same", True)
    assert len(data["prompts"]) == 3
    assert any(text.startswith("num_hidden_layers 32 to") for text in data["reduced"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give either a folder"),
        (("missing",), "no such folder"),
        (("--model-type", "llama", "--set", "hidden"), "'hidden' is not KEY=VALUE"),
        (("--model-type", "llama", "--python", "python3"), "--python needs --against"),
        (("--model-type", "lama"), "did you mean"),
        (("--model-type", "llama", "--weights", "checkpoint"), "no safetensors"),
        ((str(REMOTE),), "--trust-remote-code runs it"),
    ],
)
def test_errors_are_one_line_and_status_2(arguments: tuple[str, ...], says: str) -> None:
    result = command(*arguments)
    assert result.returncode == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
