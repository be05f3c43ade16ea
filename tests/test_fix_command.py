"""``modelcheck fix``: a repository in one run, verified by running it, written last."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modelcheck import repair
from modelcheck.cli import fix as command
from modelcheck.cli.fix import Asker, fix
from modelcheck.errors import ModelcheckError, UnreadableFile, UsageError
from modelcheck.isolated import _requirements, environment
from modelcheck.repair import Repair, Workshop, prepare, verify, write

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
DEMO = FIXTURES / "demo"
needs_torch = pytest.mark.skipif(not command._has_torch(), reason="runs a model")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "fen"
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(fix, list(map(str, arguments)), standalone_mode=False)


def status(result: Result) -> int:
    if isinstance(result.exception, ModelcheckError):
        return int(result.exception.exit_code)
    assert result.exception is None, result.exception
    return int(result.return_value)


def texts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_everything_is_fixed_in_one_run_and_a_second_run_changes_nothing(repo: Path) -> None:
    old = texts(repo)
    result = run(repo, "--unsafe-fixes", "--no-verify")
    assert status(result) == 0, result.output
    assert "before: " in result.stdout and "refused" in result.stdout
    assert "serves fused" in result.stdout and "left: 0" in result.stdout
    new = texts(repo)
    assert {name for name in old if old[name] != new[name]} == {"modeling_fen.py", "config.json"}
    assert status(run(repo, "--unsafe-fixes", "--no-verify")) == 0
    assert texts(repo) == new


def test_diff_writes_nothing_and_reports_on_stderr(repo: Path) -> None:
    old = texts(repo)
    result = run(repo, "--unsafe-fixes", "--diff")
    assert status(result) == 1
    assert texts(repo) == old
    assert result.stdout.startswith("--- a/") and "would be fixed" in result.stderr


@pytest.fixture
def inline_attention(tmp_path: Path) -> Path:
    folder = tmp_path / "birch"
    folder.mkdir()
    shutil.copy(FIXTURES / "cases" / "02_inline_sdpa_attention" / "modeling_case.py", folder)
    return folder


def test_without_unsafe_fixes_what_is_left_is_named(inline_attention: Path) -> None:
    old = texts(inline_attention)
    result = run(inline_attention)
    assert status(result) == 1
    assert "fixable with --unsafe-fixes" in result.stdout
    assert "to be done by hand: 1 finding" in result.stdout
    assert texts(inline_attention) == old


def test_json_has_the_verdicts_and_what_is_left(inline_attention: Path, repo: Path) -> None:
    data = json.loads(run(inline_attention, "--output-format", "json").stdout)
    assert [f["code"] for f in data["left"]] == ["MC101", "MC301"]
    assert [f["code"] for f in data["by_hand"]] == ["MC301"]
    assert data["applied"] == {} and not data["written"]
    data = json.loads(run(repo, "--output-format", "json").stdout)
    assert data["before"][0]["outcome"] == "refused"
    assert data["written"] and data["applied"] and data["proof"] is None


@needs_torch
def test_a_proof_is_that_of_running_both(repo: Path) -> None:
    result = run(repo, "--unsafe-fixes", "--trust-remote-code")
    assert status(result) == 0, result.output
    assert "\nverified: " in result.stdout


@needs_torch
def test_fixes_that_change_the_numbers_are_not_written(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = texts(repo)
    monkeypatch.setattr(repair, "prepare", tampering("self.eps = eps", "self.eps = eps * 1e6"))
    result = run(repo, "--unsafe-fixes", "--trust-remote-code")
    assert status(result) == 1
    assert "nothing was written: the fixes change the outputs" in result.stdout
    assert "FenRMSNorm" in result.stdout.splitlines()[-1]
    assert texts(repo) == old


@needs_torch
def test_fixes_that_rename_weights_are_not_written(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = texts(repo)
    monkeypatch.setattr(repair, "prepare", tampering("down_proj", "wide_proj"))
    result = run(repo, "--unsafe-fixes", "--trust-remote-code")
    assert status(result) == 1
    assert "other names or shapes" in result.stdout
    assert texts(repo) == old


def tampering(old: str, new: str) -> Callable[..., Repair]:
    """``prepare`` with a fixer that is wrong."""

    def wrong(folder: str, copy: str, **options: object) -> Repair:
        made = prepare(folder, copy, unsafe=True)
        file = Path(copy, "modeling_fen.py")
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
        return made

    return wrong


@needs_torch
def test_old_code_that_does_not_run_leaves_a_doubt(repo: Path) -> None:
    file = repo / "modeling_fen.py"
    with Workshop(str(repo)) as copy:
        made = prepare(str(repo), copy, unsafe=True)
        file.write_text(file.read_text().replace("import torch\n", "import torch\n1 / 0\n", 1))
        proof = verify(made)
    assert "ZeroDivisionError" in proof.doubt and copy not in proof.doubt
    assert not proof.differs and not proof.proved
    assert proof.alone is not None and proof.alone.same


def test_what_was_edited_meanwhile_is_not_overwritten(repo: Path) -> None:
    with Workshop(str(repo)) as copy:
        made = prepare(str(repo), copy, unsafe=True)
    file = repo / "modeling_fen.py"
    file.write_text("# mine\n")
    old = texts(repo)
    with pytest.raises(UnreadableFile, match="edited while"):
        write(made)
    assert texts(repo) == old


def test_when_one_file_cannot_be_written_none_is(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workshop(str(repo)) as copy:
        made = prepare(str(repo), copy, unsafe=True)
    assert len(made.changes) == 2
    old, real, last = texts(repo), repair.write_atomic, made.changes[-1]

    def full(path: str, data: bytes) -> None:
        if data == last.new:
            raise UnreadableFile(path, "no space left")
        real(path, data)

    monkeypatch.setattr(repair, "write_atomic", full)
    with pytest.raises(UnreadableFile, match="no space"):
        write(made)
    assert texts(repo) == old


def test_declined_fixes_are_left(repo: Path) -> None:
    with Workshop(str(repo)) as copy:
        made = prepare(str(repo), copy, unsafe=True, accept=lambda f: f.class_name != "FenMLP")
    assert {f.class_name for f in made.left if f.code == "MC601"} == {"FenMLP"}
    assert made.applied["MC501"] == 1


def test_the_asker_asks_once_for_each_fix_of_a_class(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(text: str, **_: object) -> str:
        asked.append(text)
        return "y" if len(asked) < 2 else "q"

    monkeypatch.setattr(command.click, "prompt", answer)
    asker = Asker()
    with Workshop(str(repo)) as copy:
        made = prepare(str(repo), copy, unsafe=True, accept=asker)
    assert len(asked) == 2
    assert sum(made.applied.values()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--verify"], "needs --trust-remote-code"),
        (["--verify-with", "4.44.2", "--no-verify"], "need --verify"),
        (["--verify-with", "4.44.2", "--verify-python", "python"], "exclude each other"),
        (["--interactive"], "needs a terminal"),
        (["--verify-with", "old", "--trust-remote-code"], "is not a version"),
    ],
)
@needs_torch
def test_wrong_options_are_one_line(repo: Path, arguments: list[str], message: str) -> None:
    result = run(repo, *arguments)
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception) and "\n" not in str(result.exception)


def test_a_folder_that_is_missing_or_empty_is_an_error(tmp_path: Path) -> None:
    assert status(run(tmp_path / "nothing")) == 2
    assert status(run(tmp_path)) == 2


def test_only_what_belongs_to_the_release_is_installed_aside() -> None:
    names = ["transformers", "numpy", "tokenizers", "torch"]
    report = {"install": [{"metadata": {"name": n, "version": "1"}} for n in names]}
    assert _requirements(json.dumps(report)) == ["transformers==1", "tokenizers==1"]


def test_an_environment_that_is_there_is_used(tmp_path: Path) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    home = tmp_path / f"transformers-4.44.2-py{version}"
    (home / "bin").mkdir(parents=True)
    for name in ("bin/python", "complete"):
        (home / name).touch()
    assert environment("4.44.2", tmp_path) == str(home / "bin" / "python")
