"""What the rule tests share: one rule over one source text."""

from collections.abc import Callable
from pathlib import Path

import pytest

from modelcheck.findings import Finding
from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import Context, rule_named
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.text import SourceFile, parse_text, read_source

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"

Lint = Callable[..., list[Finding]]


def findings_of(code: str, source: SourceFile, version: str | None = None) -> list[Finding]:
    """What one rule says of one file, for one vLLM release."""
    context = Context(ProjectIndex().add(source), None, contract_for(version))
    return sorted(rule_named(code).check(context), key=lambda f: f.sort_key)


@pytest.fixture
def lint() -> Lint:
    """``lint(code, text, version)``: the findings of a rule in a source text."""

    def run(code: str, text: str, version: str | None = None) -> list[Finding]:
        return findings_of(code, parse_text("modeling_toy.py", text), version)

    return run


@pytest.fixture
def lint_file() -> Lint:
    """``lint_file(code, path, version)``: the findings of a rule in a file."""

    def run(code: str, path: Path, version: str | None = None) -> list[Finding]:
        return findings_of(code, read_source(path), version)

    return run


@pytest.fixture
def fixture_text() -> Callable[[str], str]:
    """``fixture_text("unresolvable_scaling/good")``: one of the small models, as text."""

    def read(name: str) -> str:
        return (FIXTURES / f"{name}.py").read_text(encoding="utf-8")

    return read
