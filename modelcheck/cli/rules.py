"""``modelcheck rules``: all rules in one table, for people and for tools."""

from __future__ import annotations

import json
from typing import Any

import click

from modelcheck.report.catalogue import facts, family
from modelcheck.rules.base import Rule, all_rules

SCHEMA = 1


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, with each rule's documentation.")
def rules(as_json: bool) -> None:
    """List all rules: code, name, family, severities, and whether --fix mends them."""
    if as_json:
        data = {"schema": SCHEMA, "rules": [rule_data(rule) for rule in all_rules()]}
        click.echo(json.dumps(data, indent=2))
    else:
        click.echo("\n".join(table([rule_data(rule) for rule in all_rules()])))


def rule_data(rule: Rule) -> dict[str, Any]:
    """A rule as plain data; ``fixes`` holds "safe", "unsafe" or both, nothing without a fix."""
    known = facts(rule)
    return {
        "code": rule.code,
        "name": rule.name,
        "family": family(rule),
        "summary": rule.summary,
        "severities": [str(severity) for severity in known.severities],
        "fixes": [str(safety) for safety in known.fixes],
        "sections": rule.sections,
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Aligned lines, the rules of a family together below its name."""
    cells = [
        (row["code"], row["name"], ", ".join(row["severities"]), ", ".join(row["fixes"]))
        for row in rows
    ]
    head = ("code", "name", "severities", "fix")
    wide = [max(len(cell[i]) for cell in [head, *cells]) for i in range(len(head))]
    lines = []
    previous = ""
    for row, cell in zip(rows, cells, strict=True):
        if row["family"] != previous:
            previous = row["family"]
            lines += ["", previous]
        lines.append("  " + "  ".join(f"{c:{w}}" for c, w in zip(cell, wide, strict=True)).rstrip())
    title = "  " + "  ".join(f"{c:{w}}" for c, w in zip(head, wide, strict=True)).rstrip()
    return [title, *lines]
