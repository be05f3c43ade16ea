"""Findings as SARIF 2.1.0, with the rules' own words and the changes that ``--fix`` would make."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from modelcheck import __version__
from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Severity
from modelcheck.report.model import (
    Report,
    by_file,
    fingerprints,
    from_here,
    is_fixable,
    sentence,
)
from modelcheck.report.sources import text_of
from modelcheck.rules.base import HEADINGS, Rule, all_rules

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"  # the name that consumers know for the folder of the checkout
_LEVELS = {
    Severity.WRONG: "error",
    Severity.ERROR: "error",
    Severity.SLOW: "warning",
    Severity.INFO: "note",
}

Json = dict[str, Any]


def render(report: Report) -> str:
    """`document` as text."""
    return json.dumps(document(report), indent=2)


def document(report: Report) -> Json:
    """A log of one run. Reads the files that have a safe fix, and runs the fixers on them."""
    broken = {finding.code for finding in report.findings}
    rules = [rule for rule in all_rules() if rule.code in broken]
    numbers = {rule.code: number for number, rule in enumerate(rules)}
    texts = {path: _text_to_fix(report, path, f) for path, f in by_file(report.findings).items()}
    results = [
        _result(finding, name, numbers, texts[finding.path])
        for finding, name in zip(report.findings, fingerprints(report.findings), strict=True)
    ]
    properties = {"vllm": report.vllm}
    if report.verdict_line:
        properties["verdict"] = report.verdict_line
    run: Json = {
        "tool": {
            "driver": {
                "name": "modelcheck",
                "version": __version__,
                "rules": [_descriptor(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "where modelcheck was run"}}},
        "invocations": [
            {
                "executionSuccessful": not report.unreadable,
                "toolExecutionNotifications": [_notification(e) for e in report.unreadable],
            }
        ],
        "results": results,
        "properties": properties,
    }
    if report.sources:
        run["versionControlProvenance"] = [
            {"repositoryUri": url, "revisionId": commit} for _, url, commit in report.sources
        ]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _descriptor(rule: Rule) -> Json:
    headings = [heading for heading in HEADINGS if heading in rule.sections]
    plain = "\n\n".join(f"{heading}\n\n{rule.sections[heading]}" for heading in headings)
    marked = "\n\n".join(f"## {heading}\n\n{rule.sections[heading]}" for heading in headings)
    return {
        "id": rule.code,
        "name": rule.title.title().replace(" ", ""),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.sections.get("What it does", rule.summary)},
        "help": {"text": plain or rule.summary, "markdown": marked or rule.summary},
        "properties": {"tags": [rule.family], "alias": rule.name},
    }


def _result(finding: Finding, name: str, numbers: Mapping[str, int], text: str | None) -> Json:
    result: Json = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{sentence(finding)}\n{finding.advice}"},
        "locations": [_location(finding)],
        "partialFingerprints": {"modelcheck/v1": name},
        "properties": {"severity": str(finding.severity), "tpOnly": finding.tp_only},
    }
    if finding.code in numbers:
        result["ruleIndex"] = numbers[finding.code]
    if text is not None and is_fixable(finding) and (fix := _fix(finding, text)):
        result["fixes"] = [fix]
    return result


def _location(finding: Finding) -> Json:
    span = finding.span
    region = {"startLine": span.line, "startColumn": span.column}
    if span.end_line:
        region |= {"endLine": span.end_line, "endColumn": span.end_column}
    location: Json = {
        "physicalLocation": {"artifactLocation": _artifact(finding.path), "region": region}
    }
    if finding.class_name:
        location["logicalLocations"] = [{"name": finding.class_name, "kind": "type"}]
    return location


def _artifact(path: str) -> Json:
    here = from_here(path)
    if "://" in here:
        return {"uri": quote(here, safe=":/@%")}
    if Path(here).is_absolute():
        return {"uri": Path(here).as_uri()}
    return {"uri": quote(os.fsencode(here)), "uriBaseId": ROOT}


def _notification(error: UnreadableFile) -> Json:
    place: Json = {"artifactLocation": _artifact(error.path)}
    if error.line is not None:
        place["region"] = {"startLine": error.line}
    return {
        "level": "error",
        "message": {"text": error.cause},
        "locations": [{"physicalLocation": place}],
    }


def _text_to_fix(report: Report, path: str, findings: Sequence[Finding]) -> str | None:
    return text_of(report, path) if any(is_fixable(finding) for finding in findings) else None


def _fix(finding: Finding, text: str) -> Json | None:
    """What the fixer makes of this one finding; None when it refuses."""
    from modelcheck.report.changes import fixed_text, replacements  # imports the fix loop

    changes = [
        {
            "deletedRegion": {
                "startLine": change.line,
                "startColumn": 1,
                "endLine": change.end_line,
                "endColumn": change.end_column,
            },
            "insertedContent": {"text": change.text},
        }
        for change in replacements(text, fixed_text(finding, text))
    ]
    if not changes or finding.fix is None:
        return None
    return {
        "description": {"text": finding.fix.title},
        "artifactChanges": [{"artifactLocation": _artifact(finding.path), "replacements": changes}],
    }
