"""A dry run from outside: the process, its limits, the command and the report."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modelcheck.dryrun.results import DryrunReport
from modelcheck.dryrun.target import BuildSpec
from modelcheck.dryrun.worker import run_dryrun, show_graphs
from modelcheck.errors import BuildError, ModelcheckError, UsageError, WorkerError

pytest.importorskip("transformers")

ROOT = Path(__file__).resolve().parents[2]
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REMOTE, tmp_path / "tarn"))


def prepend(repo: Path, code: str) -> Path:
    file = repo / "modeling_tarn.py"
    file.write_text(f"{code}\n{file.read_text()}")
    return repo


def command(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            "from modelcheck.cli import main; main()",
            "dryrun",
            *arguments,
        ],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
    )


def test_remote_code_end_to_end(repo: Path) -> None:
    before = sorted(repo.rglob("*"))
    report = run_dryrun(repo, vllm="0.32", trust_remote_code=True)

    assert report.model_class == "TarnModel"
    assert report.vllm == "0.32.0"
    assert (report.built_depth, report.total_depth) == (2, 4)
    assert {c.class_name: (c.count, c.fired) for c in report.classes} == {
        "TarnAttention": (2, ("Attention", "QKV")),
        "TarnMLP": (2, ("GLU",)),
        "TarnRMSNorm": (9, ("RMSNorm",)),
    }
    assert report.missed == ()
    assert DryrunReport.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert sorted(repo.rglob("*")) == before  # no __pycache__, no copy


def test_a_report_of_another_schema_is_refused() -> None:
    with pytest.raises(UsageError, match="schema 99"):
        DryrunReport.from_json({"schema_version": 99})


def test_graphs_of_a_class() -> None:
    (graph,) = show_graphs(BuildSpec(model_type="llama"), "LlamaMLP")
    assert "gate_proj" in graph and "up_proj" in graph


def test_a_hanging_import_is_stopped(repo: Path) -> None:
    prepend(repo, "import time; time.sleep(600)")
    started = time.monotonic()
    with pytest.raises(WorkerError, match=r"tarn: no answer within 15 s"):
        run_dryrun(repo, trust_remote_code=True, timeout=15)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os; os._exit(0)", "exit status 0"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("x = bytearray(20 * 1024**3)", "MemoryError"),
    ],
)
def test_code_that_ends_the_process(repo: Path, code: str, says: str) -> None:
    prepend(repo, code)
    with pytest.raises(ModelcheckError, match=r"tarn: ") as caught:
        run_dryrun(repo, trust_remote_code=True)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_files_beside_the_user_are_not_imported(tmp_path: Path) -> None:
    """The worker starts in the user's folder, where a torch.py would shadow the real one."""
    (tmp_path / "torch.py").write_text("raise SystemExit('imported without consent')")
    (tmp_path / "json.py").write_text("raise SystemExit('imported without consent')")
    shutil.copy(REMOTE / "config.json", tmp_path)
    done = command(".", cwd=tmp_path)
    assert done.returncode == 2
    assert "--trust-remote-code" in done.stderr and "consent" not in done.stderr


def test_another_interpreter_must_exist() -> None:
    with pytest.raises(WorkerError, match=r"/nonesuch/python: no such program"):
        run_dryrun(REMOTE, trust_remote_code=True, python="/nonesuch/python")


def test_wrong_targets_cost_no_process(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(BuildError):
        run_dryrun(tmp_path)
    with pytest.raises(UsageError):
        run_dryrun(REMOTE, vllm="0.1")
    assert time.monotonic() - started < 0.5


def test_the_command_prints_a_table() -> None:
    done = command(str(REMOTE), "--trust-remote-code")
    assert done.returncode == 0, done.stderr
    assert "TarnModel, 2 of 4 layers built" in done.stdout
    assert "TarnMLP" in done.stdout and "MergedColumnParallelLinear" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines()[1:])) <= 80
    assert "Traceback" not in done.stderr


def test_the_command_counts_a_miss_only_when_asked() -> None:
    plain = command("--model-type", "jamba", "--output-format", "json")
    assert plain.returncode == 0, plain.stderr
    report = DryrunReport.from_json(json.loads(plain.stdout))
    assert [c.class_name for c in report.missed] == ["JambaMambaMixer"]
    assert command("--model-type", "jamba", "--fail-on-missed").returncode == 1


def test_the_command_prints_graphs() -> None:
    done = command("--model-type", "llama", "--show-graph", "LlamaMLP")
    assert done.returncode == 0, done.stderr
    assert "gate_proj" in done.stdout
    assert command("--model-type", "llama", "--show-graph", "Nonesuch").returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nowhere",),
        ("nowhere", "--model-type", "llama"),
        ("--model-type", "nonesuch"),
        ("--model-type", "llama", "--vllm", "x"),
        ("--model-type", "llama", "--tp", "0"),
        ("--model-type", "falcon"),
        (str(REMOTE),),
    ],
)
def test_errors_are_one_line_and_status_2(arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_the_command_imports_nothing_heavy() -> None:
    code = (
        "import sys, modelcheck.cli.dryrun, modelcheck.dryrun.worker, modelcheck.dryrun.target\n"
        "print({'torch', 'transformers', 'vllm', 'rich', 'libcst'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "set()", done.stderr
