"""Findings as a GitLab code quality report (the Code Climate format)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Severity
from modelcheck.report.model import Report, fingerprints, from_here, sentence

_SEVERITIES = {  # GitLab's, and the category of Code Climate
    Severity.WRONG: ("critical", "Bug Risk"),
    Severity.ERROR: ("major", "Compatibility"),
    Severity.SLOW: ("minor", "Performance"),
    Severity.INFO: ("info", "Style"),
}


def render(report: Report) -> str:
    """A JSON list with an issue for each finding and file that could not be read."""
    issues = [
        _issue(finding, name)
        for finding, name in zip(report.findings, fingerprints(report.findings), strict=True)
    ]
    return json.dumps([*issues, *map(_unreadable, report.unreadable)], indent=2)


def _issue(finding: Finding, fingerprint: str) -> dict[str, Any]:
    span = finding.span
    severity, category = _SEVERITIES[finding.severity]
    return {
        "type": "issue",
        "check_name": finding.code,
        "description": f"{finding.code} {finding.severity}: {sentence(finding)}",
        "content": {"body": finding.advice},
        "categories": [category],
        "severity": severity,
        "fingerprint": fingerprint,
        "location": {
            "path": from_here(finding.path),
            "lines": {"begin": span.line, "end": max(span.end_line, span.line)},
        },
    }


def _unreadable(error: UnreadableFile) -> dict[str, Any]:
    path = from_here(error.path)
    line = error.line or 1
    return {
        "type": "issue",
        "check_name": "unreadable",
        "description": f"This file could not be checked: {error.cause}",
        "categories": ["Bug Risk"],
        "severity": "blocker",
        "fingerprint": sha256(f"unreadable\0{path}".encode(errors="replace")).hexdigest(),
        "location": {"path": path, "lines": {"begin": line, "end": line}},
    }
