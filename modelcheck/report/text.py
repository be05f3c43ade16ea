"""Findings as plain text, one block or one line each."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TextIO

from modelcheck.findings import Finding, Safety, Severity

_COLOURS = {
    Severity.WRONG: "1;31",
    Severity.ERROR: "31",
    Severity.SLOW: "33",
    Severity.INFO: "36",
}


def use_colour(stream: TextIO | None = None) -> bool:
    """Only on a terminal, and never with NO_COLOR set."""
    out = stream or sys.stdout
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render(findings: Sequence[Finding], *, concise: bool = False, colour: bool = False) -> str:
    """The findings, then a summary; "" without findings."""
    if not findings:
        return ""
    parts = [concise_line(f, colour) if concise else block(f, colour) for f in findings]
    return "\n".join([*parts, "", summary(findings)])


def block(finding: Finding, colour: bool = False) -> str:
    """Two lines: what is wrong, and what to do."""
    return f"{concise_line(finding, colour)}\n    {finding.advice}{fix_mark(finding)}"


def concise_line(finding: Finding, colour: bool = False) -> str:
    """``path:line:col: CODE severity message``."""
    span = finding.span
    head = f"{finding.code} {finding.severity}"
    if colour:
        head = f"\x1b[{_COLOURS[finding.severity]}m{head}\x1b[0m"
    named = not finding.class_name or finding.class_name in finding.message
    owner = "" if named else f"{finding.class_name}: "
    return f"{finding.path}:{span.line}:{span.column}: {head} {owner}{finding.message}"


def fix_mark(finding: Finding) -> str:
    """``[fixable]`` where ``--fix`` mends it."""
    if finding.fix is None or finding.fix.safety is Safety.DISPLAY:
        return ""
    return " [fixable]" if finding.fix.safety is Safety.SAFE else " [fixable with --unsafe-fixes]"


def summary(findings: Iterable[Finding]) -> str:
    """As in "7 findings in 2 files: 3 error, 4 slow; 5 fixable with --fix"."""
    found = list(findings)
    by_severity = Counter(f.severity for f in found)
    counts = ", ".join(f"{by_severity[s]} {s}" for s in Severity if by_severity[s])
    files = len({f.path for f in found})
    text = f"{plural(len(found), 'finding')} in {plural(files, 'file')}: {counts}"
    safe = sum(1 for f in found if f.fix is not None and f.fix.safety is Safety.SAFE)
    unsafe = sum(1 for f in found if f.fix is not None and f.fix.safety is Safety.UNSAFE)
    if safe:
        text += f"; {safe} fixable with --fix"
    if unsafe:
        text += f"; {unsafe} fixable with --unsafe-fixes"
    return text


def plural(count: int, noun: str) -> str:
    """As in "1 file", "2 files"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
