"""README.md says what the tool has: rules, commands, options, hooks, targets."""

import re
from pathlib import Path

import click
import pytest
import yaml

from modelcheck.cli import cli
from modelcheck.cli.ab import ab
from modelcheck.cli.gate import gate
from modelcheck.cli.log import log
from modelcheck.cli.publish_check import publish_check
from modelcheck.cli.scan import scan
from modelcheck.cli.survey import survey
from modelcheck.errors import ExitCode
from modelcheck.findings import Severity

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.mark.parametrize("option", [name for p in scan.params for name in p.opts])
def test_every_option_of_scan(option):
    assert option == "paths" or f"`{option}" in README


def section(heading):
    """The text below a heading, up to the next."""
    return README.partition(f"### {heading}\n")[2].partition("\n### ")[0]


@pytest.mark.parametrize(
    "heading, param",
    [
        pytest.param(heading, param, id=f"{command.name} {param.name}")
        for heading, command in (
            ("gate and log", gate),
            ("gate and log", log),
            ("ab", ab),
            ("publish-check", publish_check),
            ("survey", survey),
        )
        for param in command.params
        if isinstance(param, click.Option)
    ],
)
def test_every_option_of_a_command_with_a_table(heading, param):
    names = (*param.opts, *param.secondary_opts)
    assert any(re.search(rf"`{name}[` ]", section(heading)) for name in names)


@pytest.mark.parametrize("name", list(ACTION["inputs"]))
def test_every_input_of_the_action(name):
    assert f"| `{name}` |" in (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


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
