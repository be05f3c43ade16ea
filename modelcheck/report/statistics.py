"""How often each rule was broken: ``--statistics``."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass

from modelcheck.report.model import Report, is_fixable
from modelcheck.rules.base import all_rules


@dataclass(frozen=True)
class Row:
    """One rule: how many findings, and how many of them ``--fix`` mends."""

    count: int
    code: str
    name: str
    fixable: int


def rows(report: Report) -> list[Row]:
    """The rules with findings, the most frequent first."""
    counts = Counter(finding.code for finding in report.findings)
    fixable = Counter(finding.code for finding in report.findings if is_fixable(finding))
    names = {rule.code: rule.name for rule in all_rules()}
    return [
        Row(count, code, names.get(code, ""), fixable[code])
        for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def render(report: Report) -> str:
    """``count  code  [*] name``; ``[*]`` where all can be fixed, ``[-]`` where some can."""
    found = rows(report)
    if not found:
        return ""
    wide = len(str(found[0].count))
    marks = any(row.fixable for row in found)
    return "\n".join(
        f"{row.count:>{wide}}  {row.code}  {f'[{_mark(row)}] ' if marks else ''}{row.name}"
        for row in found
    )


def _mark(row: Row) -> str:
    return " " if not row.fixable else "*" if row.fixable == row.count else "-"


def render_json(report: Report) -> str:
    """The same as a JSON list."""
    return json.dumps([asdict(row) for row in rows(report)], indent=2)
