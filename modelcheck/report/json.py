"""Findings as JSON, with a schema version."""

from __future__ import annotations

import json
from typing import Any

from modelcheck.findings import Finding
from modelcheck.report.model import Report

SCHEMA = 1


def render(report: Report) -> str:
    """`document` as text."""
    return json.dumps(document(report), indent=2)


def document(report: Report) -> dict[str, Any]:
    """The whole report; columns and lines are 1-based, ``end_column`` is exclusive.

    ``verdict`` is the line of a single model in a single release, ``releases`` of a finding the
    vLLM releases that have it, ``sources`` the repositories of the Hub that were read.
    """
    single = report.verdicts[0].full if len(report.verdicts) == 1 else report.verdict_line
    releases_of = report.releases_of or (lambda _: [report.vllm] if report.vllm else [])
    return {
        "schema": SCHEMA,
        "vllm": report.vllm,
        "sources": [{"name": n, "url": u, "commit": c} for n, u, c in report.sources],
        "verdict": single or None,
        "verdicts": [verdict.to_json() for verdict in report.verdicts],
        "findings": [
            finding_data(finding) | {"releases": list(releases_of(finding))}
            for finding in report.findings
        ],
        "unreadable": [
            {"path": error.path, "line": error.line, "cause": error.cause}
            for error in report.unreadable
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
        "tp_only": finding.tp_only,
        "fix": None
        if fix is None
        else {"fixer": fix.fixer, "title": fix.title, "safety": str(fix.safety)},
    }
