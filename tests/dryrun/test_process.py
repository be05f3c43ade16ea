"""The process that jobs run in, with small jobs that need no torch."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from modelcheck.errors import BuildError, ExitCode, ModelcheckError, WorkerError
from modelcheck.worker import run_job

JOBS = """
import os, subprocess, sys, time
from modelcheck.errors import BuildError, ExitCode

def echo(payload):
    print("not part of the answer")
    return {"payload": payload, "path": sys.path, "modelcheck": sys.modules["modelcheck"].__file__}

def refuse(payload):
    error = BuildError("one cause")
    error.exit_code = ExitCode.INTERNAL
    raise error

def fault(payload):
    raise ValueError("two\\nlines")

def leave(payload):
    print("last words", flush=True)
    os._exit(7)

def orphan(payload):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return {"child": child.pid}

def allocate(payload):
    return {"size": len(bytearray(payload["mb"] * 1024**2))}

def reserve(payload):
    import mmap
    space = mmap.mmap(-1, 8 * 1024**3, prot=mmap.PROT_READ)  # address space, not memory
    return {"size": len(space)}
"""


@pytest.fixture
def jobs(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "some_jobs.py").write_text(JOBS)
    return {"PYTHONPATH": str(tmp_path)}


def run(name: str, jobs: dict[str, str], payload: Any = None, **limits: Any) -> dict[str, Any]:
    return run_job(f"some_jobs:{name}", payload or {}, env=jobs, timeout=60, **limits)


def test_the_answer_is_what_the_job_returns(jobs: dict[str, str]) -> None:
    answer = run("echo", jobs, {"a": [1, "ü"]})
    assert answer["payload"] == {"a": [1, "ü"]}


def test_only_modelcheck_is_shown_to_the_interpreter(
    jobs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the site-packages beside it, and not the folder that the user is in."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    answer = run("echo", jobs)
    root = str(Path(sys.modules["modelcheck"].__file__ or "").resolve().parent.parent)
    assert str(elsewhere) not in answer["path"] and "" not in answer["path"]
    assert answer["path"][0] != root
    assert Path(answer["modelcheck"]).parent.parent == Path(answer["path"][0])


def test_errors_keep_their_kind_and_exit_status(jobs: dict[str, str]) -> None:
    with pytest.raises(BuildError, match=r"^one cause$") as caught:
        run("refuse", jobs)
    assert caught.value.exit_code is ExitCode.INTERNAL
    assert BuildError.exit_code is ExitCode.USAGE


def test_a_fault_is_one_line_with_its_place(jobs: dict[str, str]) -> None:
    with pytest.raises(WorkerError, match=r"^ValueError: two lines \(some_jobs\.py:\d+\)$"):
        run("fault", jobs)


def test_a_death_names_status_and_last_words(jobs: dict[str, str]) -> None:
    with pytest.raises(WorkerError, match=r"\(exit status 7: last words\)"):
        run("leave", jobs)


def test_nothing_outlives_the_job(jobs: dict[str, str]) -> None:
    child = run("orphan", jobs)["child"]
    for _ in range(50):
        if not _alive(child):
            return
        time.sleep(0.1)
    pytest.fail(f"process {child} is still there")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_memory_is_limited_and_address_space_is_not(jobs: dict[str, str]) -> None:
    assert run("allocate", jobs, {"mb": 64}, memory_mb=512) == {"size": 64 * 1024**2}
    assert run("reserve", jobs, memory_mb=512) == {"size": 8 * 1024**3}
    with pytest.raises(ModelcheckError, match="more than 512 MB"):
        run("allocate", jobs, {"mb": 1024}, memory_mb=512)


def test_an_interpreter_that_is_not_there(jobs: dict[str, str]) -> None:
    missing = os.path.join(os.sep, "nonesuch", "python")
    with pytest.raises(WorkerError, match="no such program"):
        run("echo", jobs, python=missing)
