"""README.md says what the tool has: rules, commands, options, hooks, targets."""

import re
from pathlib import Path

import pytest
import yaml

from modelcheck.cli import cli
from modelcheck.cli.scan import scan
from modelcheck.errors import ExitCode
from modelcheck.findings import Severity

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", [name for p in scan.params for name in p.opts])
def test_every_option_of_scan(option):
    assert option == "paths" or f"`{option}" in README


@pytest.mark.parametrize("name", cli.list_commands(None))
def test_every_command(name):
    assert f"modelcheck {name}" in README


@pytest.mark.parametrize("name", re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
def test_every_target_of_make(name):
    assert name in ("format", "clean") or f"`make {name}`" in README


def test_severities_exit_codes_and_hooks():
    assert all(f"`{severity}`" in README for severity in Severity)
    assert all(f"\n| {int(code)} |" in README for code in ExitCode)
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        assert f"- id: {hook['id']}" in README


def test_the_two_commands_are_on_the_first_screen():
    first = "\n".join(README.splitlines()[:20])
    assert "make demo" in first
    assert "make test" in first
