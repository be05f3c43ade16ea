"""``modelcheck explain``: what a rule says of itself."""

from __future__ import annotations

import click

from modelcheck.rules.base import HEADINGS, Rule, all_rules, rule_named


@click.command()
@click.argument("rule", required=False)
def explain(rule: str | None) -> None:
    """Explain RULE (a code or a name); without one, list all rules."""
    if rule is None:
        for each in all_rules():
            click.echo(f"{each.code}  {each.name:<36} {each.summary}")
    else:
        click.echo(explanation(rule_named(rule)))


def explanation(rule: Rule) -> str:
    """The documentation of a rule as text."""
    parts = [f"{rule.code} {rule.name}", rule.summary]
    parts += [
        f"{heading}\n{'-' * len(heading)}\n{rule.sections[heading]}"
        for heading in HEADINGS
        if heading in rule.sections
    ]
    return "\n\n".join(parts)
