"""Before and after pairs: `fixtures/fixers/<fixer>/<name>_before.py` and its companions.

The first comments of a file say what the rule found: ``# finding: {"class": ..., "at": ...}``,
where ``at`` is text that begins the blamed node and ``data`` what the rule knows; ``# refused:``
gives the beginning of the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fixers
from modelcheck.findings import Finding, Fix, Severity, Span

FIXTURES = Path(__file__).parents[2] / "fixtures" / "fixers"


@dataclass(frozen=True)
class Case:
    """One fixture file and the finding that its header describes."""

    path: Path

    @property
    def stem(self) -> str:
        return self.path.parent.name

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def expected(self) -> str:
        return self.path.with_name(self.path.name.replace("_before", "_after")).read_text()

    @property
    def reason(self) -> str:
        match = re.match(r"# refused: (.*)", self.text)
        assert match, f"{self.path} gives no reason"
        return match[1]

    def finding(self, text: str | None = None) -> Finding:
        """The finding of the header, placed in ``text``."""
        match = re.search(r"^# finding: (.*?)\r?$", self.text, re.MULTILINE)
        assert match, f"{self.path} has no finding"
        return make_finding(self.stem, self.text if text is None else text, json.loads(match[1]))


def make_finding(stem: str, text: str, header: dict[str, Any]) -> Finding:
    """A finding at the first place after the header comments that reads ``header["at"]``."""
    body = len(re.match(r"(#.*\n)*", text.replace("\r\n", "\n"))[0])  # type: ignore[index]
    plain = text.replace("\r\n", "\n")
    at = max(plain.find(header["at"], body), body)
    line = plain.count("\n", 0, at) + 1
    column = at - (plain.rfind("\n", 0, at) + 1) + 1
    return Finding(
        code="MC999",
        severity=Severity.SLOW,
        path="modeling_tiny.py",
        span=Span(line, column, line, column + len(header["at"])),
        class_name=header["class"],
        message="something is spelled in another way",
        advice="Spell it the other way.",
        fix=Fix(stem, "Fix it", data=header.get("data", {})),
    )


def cases(suffix: str) -> list[Any]:
    """All fixture files with a suffix, as pytest parameters."""
    paths = sorted(FIXTURES.glob(f"*/*_{suffix}.py"))
    return [pytest.param(Case(p), id=f"{p.parent.name}-{p.stem}") for p in paths]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for suffix in ("before", "refused"):
        if suffix in metafunc.fixturenames:
            metafunc.parametrize(suffix, cases(suffix))


@pytest.fixture
def run_fix() -> Callable[[str, str, dict[str, Any]], str]:
    """Run a fixer on a text, with a header as in the fixture files."""

    def run(stem: str, text: str, header: dict[str, Any]) -> str:
        return fixers.load(stem).fix(text, make_finding(stem, text, header))

    return run
