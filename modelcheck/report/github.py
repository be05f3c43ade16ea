"""Findings as workflow commands, which GitHub Actions turns into annotations."""

from __future__ import annotations

from collections.abc import Mapping

from modelcheck.findings import Finding, Severity
from modelcheck.report.model import Report, from_here, sentence

_LEVELS = {
    Severity.WRONG: "error",
    Severity.ERROR: "error",
    Severity.SLOW: "warning",
    Severity.INFO: "notice",
}


def render(report: Report) -> str:
    """One line for each finding and file that could not be read."""
    lines = [command("notice", {"title": "modelcheck"}, report.verdict_line)]
    lines = lines if report.verdict_line else []
    lines += [_annotation(finding) for finding in report.findings]
    for error in report.unreadable:
        properties = {"title": "modelcheck", "file": from_here(error.path)}
        if error.line is not None:
            properties["line"] = str(error.line)
        lines.append(command("error", properties, str(error)))
    return "\n".join(lines)


def _annotation(finding: Finding) -> str:
    span = finding.span
    properties = {
        "title": f"modelcheck {finding.code} ({finding.severity})",
        "file": from_here(finding.path),
        "line": str(span.line),
    }
    # GitHub takes columns for a range within one line only.
    if span.end_line in (0, span.line):
        properties["col"] = str(span.column)
        if span.end_column > span.column:
            properties["endColumn"] = str(span.end_column)
    else:
        properties["endLine"] = str(span.end_line)
    # The log shows the message alone, so it says the place once more.
    place = f"{finding.path}:{span.line}:{span.column}:"
    message = f"{place} {finding.code} {finding.severity} {sentence(finding)}\n{finding.advice}"
    return command(_LEVELS[finding.severity], properties, message)


def command(level: str, properties: Mapping[str, str], message: str) -> str:
    """``::level name=value,...::message``, escaped as the runner reads it back."""
    pairs = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {pairs}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
