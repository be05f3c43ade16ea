"""A real subprocess, the demo repository, and a clean and a broken file."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from modelcheck.cli import cli

ROOT = Path(__file__).resolve().parents[2]
BAD = ROOT / "fixtures" / "rules" / "no_base_model" / "modeling_bad.py"
GOOD = ROOT / "fixtures" / "rules" / "no_base_model" / "modeling_good.py"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bad(project):
    """One file with one finding, MC307, of severity error, that no fix mends."""
    return Path(shutil.copy(BAD, project / "modeling_bad.py"))


@pytest.fixture
def demo(project):
    """The repository with many findings."""
    return Path(shutil.copytree(ROOT / "fixtures" / "demo", project / "demo"))


@pytest.fixture
def scan():
    """``modelcheck scan`` in this process: the result, its exit status in ``status``."""

    def run(*arguments, input=None):
        result = CliRunner().invoke(
            cli, ["scan", *map(str, arguments)], input=input, standalone_mode=False
        )
        result.status = result.return_value
        return result

    return run


@pytest.fixture
def command():
    """``modelcheck`` in a process of its own."""

    def run(*arguments, cwd=None, stdin=None):
        return subprocess.run(
            [sys.executable, "-m", "modelcheck", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            input=stdin,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )

    return run
