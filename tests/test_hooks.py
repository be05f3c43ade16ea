"""The pre-commit hooks, with pre-commit itself, on a repository of a user's."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
IGNORED = shutil.ignore_patterns(
    ".git", ".venv*", "build", "*.egg-info", "__pycache__", ".*_cache", "tests"
)


@pytest.mark.parametrize("name", ["modelcheck", "modelcheck-fix"])
def test_files(name):
    hook = HOOKS[name]
    assert hook["require_serial"] is True
    for path in ("modeling_x.py", "a/b/modular_x.py", "config.json", "a/config.json"):
        assert re.search(hook["files"], path)
    for path in ("my_modeling_x.py", "modeling_x.pyi", "tokenizer_config.json", "configxjson"):
        assert not re.search(hook["files"], path)


def git(folder, *arguments):
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def commit_all(folder):
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--no-verify", "--message", "all")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """This working tree as a repository with one commit."""
    folder = tmp_path_factory.mktemp("modelcheck") / "repo"
    shutil.copytree(ROOT, folder, ignore=IGNORED)
    commit_all(folder)
    return folder


@pytest.fixture
def user(tmp_path):
    folder = tmp_path / "user"
    shutil.copytree(ROOT / "fixtures" / "demo", folder)
    commit_all(folder)
    return folder


def try_repo(checkout, user, hook):
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", "try-repo", str(checkout), hook, "--all-files"],
        cwd=user,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_hook_reports(checkout, user):
    before = (user / "modeling_fen.py").read_bytes()
    result = try_repo(checkout, user, "modelcheck")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "modeling_fen.py" in result.stdout
    assert "MC306" in result.stdout
    assert (user / "modeling_fen.py").read_bytes() == before


@pytest.mark.slow
def test_the_fixing_hook_fixes_and_then_passes(checkout, user):
    first = try_repo(checkout, user, "modelcheck-fix")
    assert first.returncode == 1, first.stdout + first.stderr
    assert "files were modified by this hook" in first.stdout
    second = try_repo(checkout, user, "modelcheck-fix")
    assert second.returncode == 0, second.stdout
    assert "Passed" in second.stdout
