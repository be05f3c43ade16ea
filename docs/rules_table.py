"""The table of rules in README.md: `python docs/rules_table.py` writes it anew."""

from __future__ import annotations

from pathlib import Path

from modelcheck.rules.base import all_rules

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- rules: begin -->", "<!-- rules: end -->"


def table() -> str:
    """A Markdown table: code, name, first line of the rule's own documentation."""
    rows = [f"| {rule.code} | {rule.name} | {rule.summary} |" for rule in all_rules()]
    return "\n".join(["| code | rule | |", "| --- | --- | --- |", *rows])


def updated(text: str) -> str:
    """README's text with the table as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
