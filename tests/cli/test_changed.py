"""--changed-only, with real git repositories."""

import json
import shutil
import subprocess

import pytest


def git(*arguments):
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(project, bad):
    """Two broken files, committed on main."""
    for name in ("modeling_one.py", "modeling_t wo.py"):
        shutil.copy(bad, project / name)
    bad.unlink()
    git("init", "--quiet", "--initial-branch", "main")
    git("add", "--all")
    git("commit", "--quiet", "--message", "first")
    return project


@pytest.fixture
def changed(scan):
    """The files with findings, of those that changed."""

    def run(*arguments):
        result = scan(".", "--changed-only", "--output-format", "json", *arguments)
        return sorted({finding["path"] for finding in json.loads(result.stdout)["findings"]})

    return run


def append(path):
    path.write_text(path.read_text() + "\n# changed\n")


def test_nothing_changed(repository, scan, changed):
    assert changed() == []
    assert scan(".", "--changed-only").status == 0


def test_changed_staged_untracked_and_renamed(repository, changed):
    append(repository / "modeling_t wo.py")
    assert changed() == ["modeling_t wo.py"]
    git("add", "--all")
    assert changed() == ["modeling_t wo.py"]
    shutil.copy("modeling_one.py", "modeling_new.py")
    assert changed() == ["modeling_new.py", "modeling_t wo.py"]
    (repository / ".gitignore").write_text("modeling_new.py\n")
    assert changed() == ["modeling_t wo.py"]
    git("mv", "modeling_one.py", "modeling_renamed.py")
    assert changed() == ["modeling_renamed.py", "modeling_t wo.py"]


def test_against_a_branch_what_main_did_since_does_not_count(repository, changed):
    git("checkout", "--quiet", "-b", "work")
    append(repository / "modeling_one.py")
    git("commit", "--quiet", "--all", "--message", "work")
    git("checkout", "--quiet", "main")
    append(repository / "modeling_t wo.py")
    git("commit", "--quiet", "--all", "--message", "main")
    git("checkout", "--quiet", "work")
    assert changed() == []
    assert changed("--base-ref", "main") == ["modeling_one.py"]


def test_a_model_repository_changes_as_a_whole(repository, demo, changed):
    git("add", "--all")
    git("commit", "--quiet", "--message", "demo")
    assert changed() == []
    append(demo / "configuration_fen.py")
    assert set(changed()) == {"demo/config.json", "demo/modeling_fen.py"}


def test_from_a_folder_below(repository, scan, monkeypatch):
    (repository / "below").mkdir()
    shutil.move("modeling_one.py", "below")
    monkeypatch.chdir(repository / "below")
    assert scan("modeling_one.py", "--changed-only").status == 1


@pytest.mark.parametrize("ref", ["gone", "--help", "main:modeling_one.py", ""])
def test_an_unknown_revision_is_one_line(repository, command, ref):
    result = command("scan", ".", "--changed-only", f"--base-ref={ref}", cwd=repository)
    if ref == "":
        assert result.returncode == 0  # as without the option
        return
    assert result.returncode == 2
    assert result.stderr == f"modelcheck: error: --base-ref: git knows no commit {ref!r} here\n"


def test_no_repository_and_no_commit_are_one_line(project, bad, command):
    result = command("scan", ".", "--changed-only", cwd=project)
    assert result.returncode == 2
    assert "is not in a git repository" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    git("init", "--quiet")
    result = command("scan", ".", "--changed-only", cwd=project)
    assert "git knows no commit 'HEAD' here" in result.stderr
