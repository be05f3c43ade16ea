"""Findings as a Markdown table, for a comment on a pull request."""

from __future__ import annotations

import re

from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding
from modelcheck.report.model import Report, from_here, is_fixable, sentence, summary

LIMIT = 60_000  # characters; GitHub refuses a comment of more than 65,536
_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#~|])")


def render(report: Report) -> str:
    """A heading, the verdict, a table of the findings, and the files that could not be read."""
    parts = ["### modelcheck"]
    if report.verdict_line:
        parts.append(f"**{escaped(report.verdict_line)}**")
    if report.findings or report.unreadable:
        parts.append(f"{summary(report.findings, len(report.unreadable))}.")
    else:
        parts.append(f"Nothing to report (files checked: {report.files}).")
    if report.findings:
        parts.append(findings_table(report.findings, LIMIT - sum(map(len, parts)) - 100))
    if report.unreadable:
        lines = [f"- {_unreadable(error)}" for error in report.unreadable[:50]]
        if more := len(report.unreadable) - len(lines):
            lines.append(f"- and {more} more")
        parts.append("\n".join(["Not checked:", "", *lines]))
    return "\n\n".join(parts)


def findings_table(findings: tuple[Finding, ...], room: int) -> str:
    """One row for each finding, as many as ``room`` characters hold."""
    rows = ["| severity | rule | where | what |", "| --- | --- | --- | --- |"]
    shown = 0
    for finding in findings:
        row = _row(finding)
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
        shown += 1
    if more := len(findings) - shown:
        rows.append(f"\nand {more} more")
    return "\n".join(rows)


def _row(finding: Finding) -> str:
    place = _literal(f"{from_here(finding.path)}:{finding.span.line}")
    mark = " (fixable with `--fix`)" if is_fixable(finding) else ""
    what = f"{escaped(sentence(finding))}<br>{escaped(finding.advice)}{mark}"
    return f"| {finding.severity} | {finding.code} | {place} | {what} |"


def _unreadable(error: UnreadableFile) -> str:
    where = from_here(error.path) if error.line is None else f"{from_here(error.path)}:{error.line}"
    return f"{_literal(where)}: {escaped(error.cause)}"


def _literal(text: str) -> str:
    return f"`{' '.join(text.replace('`', chr(39)).split())}`".replace("|", r"\|")


def escaped(text: str) -> str:
    """Plain text as Markdown in a table; what stands in backticks stays code."""
    pieces = _CODE.split(" ".join(text.split()))
    return "".join(
        piece.replace("|", r"\|") if index % 2 else _SPECIAL.sub(r"\\\1", piece)
        for index, piece in enumerate(pieces)
    )
