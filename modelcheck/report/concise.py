"""Findings one a line."""

from __future__ import annotations

from modelcheck.report.model import Report
from modelcheck.report.text import clean, closing, concise_line


def render(report: Report) -> str:
    """The verdict, ``path:line:column: CODE severity message`` for each finding, and the count."""
    lines = "\n".join(concise_line(finding, report.colour) for finding in report.findings)
    return "\n\n".join(filter(None, [clean(report.verdict_line), lines, closing(report)]))
