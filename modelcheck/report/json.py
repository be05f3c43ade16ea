"""Findings as JSON, with a schema version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding

SCHEMA = 1


def document(
    findings: Sequence[Finding], unreadable: Iterable[UnreadableFile], vllm: str
) -> dict[str, Any]:
    """The whole report; columns and lines are 1-based, ``end_column`` is exclusive."""
    return {
        "schema": SCHEMA,
        "vllm": vllm,
        "findings": [finding_data(finding) for finding in findings],
        "unreadable": [
            {"path": error.path, "line": error.line, "cause": error.cause} for error in unreadable
        ],
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """One finding as plain data."""
    fix = finding.fix
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "path": finding.path,
        "line": finding.span.line,
        "column": finding.span.column,
        "end_line": finding.span.end_line,
        "end_column": finding.span.end_column,
        "class": finding.class_name,
        "message": finding.message,
        "advice": finding.advice,
        "fix": None
        if fix is None
        else {"fixer": fix.fixer, "title": fix.title, "safety": str(fix.safety)},
    }


def render(findings: Sequence[Finding], unreadable: Iterable[UnreadableFile], vllm: str) -> str:
    """`document` as text."""
    return json.dumps(document(findings, unreadable, vllm), indent=2)
