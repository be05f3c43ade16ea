"""Writes what the docs say of the rules, from the rules: `python docs/generate.py`.

The table of families in README.md, a page for each rule in docs/rules, and their index.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from modelcheck.report.catalogue import facts, family
from modelcheck.rules.base import HEADINGS, Rule, all_rules

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = ROOT / "docs" / "rules"
BEGIN, END = "<!-- rules: begin -->", "<!-- rules: end -->"


def table() -> str:
    """README's table: the families of rules, and how many each has."""
    rows = ["| codes | about | rules |", "| --- | --- | --- |"]
    for name, group in groupby(all_rules(), family):
        rules = list(group)
        anchor = re.sub(r"[^a-z0-9 -]", "", name.lower()).replace(" ", "-")
        rows.append(
            f"| {rules[0].code[:3]} | [{name}](docs/rules/README.md#{anchor}) | {len(rules)} |"
        )
    return "\n".join(rows)


def updated(text: str) -> str:
    """README's text with the table as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def page(rule: Rule) -> str:
    """The page of a rule: its docstring under Markdown headings."""
    known = facts(rule)
    severities = ", ".join(f"`{severity}`" for severity in known.severities)
    fixes = ", ".join(known.fixes) or "none"
    parts = [
        f"# {rule.code} {rule.name}",
        rule.summary,
        f"Family: {family(rule)}. Severity: {severities}. Fix: {fixes}.",
    ]
    parts += [
        f"## {heading}\n\n{rule.sections[heading]}"
        for heading in HEADINGS
        if heading in rule.sections
    ]
    return "\n\n".join([*parts, "[All rules](README.md)"]) + "\n"


def index() -> str:
    """The rules by family."""
    parts = ["# Rules", "`modelcheck rules` lists them, `modelcheck explain CODE` prints a page."]
    for name, rules in groupby(all_rules(), family):
        rows = ["| code | rule | severity | fix | |", "| --- | --- | --- | --- | --- |"]
        for rule in rules:
            known = facts(rule)
            severities, fixes = ", ".join(known.severities), ", ".join(known.fixes)
            rows.append(
                f"| [{rule.code}]({rule.code}.md) | {rule.name} | {severities} | {fixes} "
                f"| {rule.summary} |"
            )
        parts += [f"## {name}", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def wanted() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    pages = {PAGES / f"{rule.code}.md": page(rule) for rule in all_rules()}
    readme = updated(README.read_text(encoding="utf-8"))
    return {README: readme, PAGES / "README.md": index(), **pages}


def stale() -> list[Path]:
    """Files that are not as they should be, or should not be there."""
    files = wanted()
    changed = [
        path
        for path, text in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    return [*changed, *(path for path in PAGES.glob("*.md") if path not in files)]


def main() -> None:
    """Write what is not as it should be, and remove the pages of rules that are gone."""
    files = wanted()
    PAGES.mkdir(exist_ok=True)
    for path in stale():
        if path in files:
            path.write_text(files[path], encoding="utf-8")
        else:
            path.unlink()
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
