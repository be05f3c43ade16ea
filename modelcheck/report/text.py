"""Findings for people: each with its source line and what to do."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TextIO

from modelcheck.findings import Finding, Safety, Severity
from modelcheck.report.frame import frame
from modelcheck.report.model import Report, by_file, is_fixable, plural, sentence, summary
from modelcheck.report.sources import lines_of

__all__ = ["clean", "closing", "concise_line", "mark", "paint", "plural", "render", "use_colour"]

FIXABLE = "[*] "
_COLOURS = {
    Severity.WRONG: "1;31",
    Severity.ERROR: "31",
    Severity.SLOW: "33",
    Severity.INFO: "36",
}


def render(report: Report) -> str:
    """The verdict, a block for each finding, and the count."""
    blocks = []
    for path, findings in by_file(report.findings).items():
        lines = lines_of(report, path)
        blocks += ["\n".join(_block(finding, lines, report)) for finding in findings]
    verdict = clean(report.verdict_line)
    return "\n\n".join(filter(None, [verdict, *blocks, closing(report)]))


def _block(finding: Finding, lines: tuple[str, ...], report: Report) -> list[str]:
    """Where and what, the source, what to do."""
    span = finding.span
    place = f"{finding.path}:{span.line}:{span.column}:"
    label = f"{finding.code}\N{NO-BREAK SPACE}{finding.severity}"  # never wrapped
    head = _wrapped(f"{place} {label} {mark(finding)}{sentence(finding)}", 4, report.width)
    plain = f"{finding.code} {finding.severity}"
    head = head.replace(label, paint(plain, finding.severity, report.colour), 1)
    source = frame(lines, span, report.width)
    gutter = len(str(span.line)) if source else 1
    if source:
        bare = source[-1].rstrip("^")
        carets = paint(source[-1][len(bare) :], finding.severity, report.colour)
        source = [*source[:-1], bare + carets, f"{'':{gutter}} |"]
    unsafe = " [fixable with --unsafe-fixes]" if is_fixable(finding, Safety.UNSAFE) else ""
    advice = _wrapped(
        f"= help: {finding.advice}{unsafe}", 2, report.width and report.width - gutter - 1
    )
    return [head, *source, textwrap.indent(advice, " " * (gutter + 1))]


def concise_line(finding: Finding, colour: bool = False) -> str:
    """``path:line:column: CODE severity message``."""
    span = finding.span
    head = paint(f"{finding.code} {finding.severity}", finding.severity, colour)
    place = clean(f"{finding.path}:{span.line}:{span.column}:")
    return f"{place} {head} {mark(finding)}{clean(sentence(finding))}"


def mark(finding: Finding) -> str:
    """``[*] `` where ``--fix`` mends it."""
    return FIXABLE if is_fixable(finding) else ""


def closing(report: Report) -> str:
    """The last line: how much was found, or that nothing was."""
    if report.findings:
        return summary(report.findings, len(report.unreadable), FIXABLE)
    if report.files:
        return f"{plural(report.files, 'file')} checked: nothing to report"
    return ""


def paint(text: str, severity: Severity, colour: bool) -> str:
    """``text`` in the colour of a severity."""
    return f"\x1b[{_COLOURS[severity]}m{text}\x1b[0m" if colour else text


def _wrapped(text: str, indent: int, width: int) -> str:
    text = clean(text)
    if not width or len(text) <= width:
        return text
    return textwrap.fill(
        text,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def clean(text: str) -> str:
    """``text`` on one line, without characters that a terminal would obey."""
    return "".join(
        c if c.isprintable() or c == "\N{NO-BREAK SPACE}" else " " if c.isspace() else "�"
        for c in text
    )


def use_colour(stream: TextIO | None = None) -> bool:
    """Only on a terminal, and never with NO_COLOR set."""
    out = stream or sys.stdout
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width(stream: TextIO | None = None) -> int:
    """The columns of the terminal, 0 when the output is none."""
    out = stream or sys.stdout
    if not out.isatty():
        return 0
    import shutil

    return shutil.get_terminal_size(fallback=(0, 0)).columns
