"""A real scan of a repository with findings of every kind, and one file that is no Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from modelcheck.findings import Finding, Fix, Severity, Span
from modelcheck.report import Report
from modelcheck.scan import Scanner

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
TRAP = "a, b|c:\n%0Ad::`x`\x1b[31m<b>_é_\x00"  # what some format would take for its own


class Said:
    """A verdict."""

    line = "serves, these classes unfused: FenMLP"


def _repository(folder: Path) -> Path:
    """A broken model repository, one file of it with CRLF and one unreadable."""
    shutil.copytree(FIXTURES / "demo", folder, dirs_exist_ok=True)
    bad = (FIXTURES / "rules" / "mask_carries_bias" / "bad.py").read_text()
    (folder / "modeling_ünder.py").write_bytes(bad.replace("\n", "\r\n").encode())
    (folder / "modeling_broken.py").write_text("x = 1\ndef\n")
    return folder


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of the test's own, as the working folder."""
    monkeypatch.chdir(tmp_path)
    return _repository(tmp_path)


@pytest.fixture(scope="session")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """A repository and what a scan of it finds, all paths from its folder."""
    folder = _repository(tmp_path_factory.mktemp("scanned"))
    scanner = Scanner()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = scanner.scan(["."])
    made = Report(
        result.findings, result.unreadable, result.files, scanner.contract.version, Said()
    )
    assert {f.severity for f in made.findings} == set(Severity)
    assert len(made.unreadable) == 1
    return folder, made


@pytest.fixture
def report(scanned: tuple[Path, Report], monkeypatch: pytest.MonkeyPatch) -> Report:
    """The report, with the repository as the working folder; not to be changed."""
    monkeypatch.chdir(scanned[0])
    return scanned[1]


@pytest.fixture
def trapped() -> Report:
    """A finding whose words are full of what formats give a meaning to."""
    fix = Fix("auto_map", TRAP)
    finding = Finding("MC101", Severity.ERROR, TRAP, Span(3, 7, 5, 2), "", TRAP, TRAP, fix, True)
    return Report((finding, finding))
