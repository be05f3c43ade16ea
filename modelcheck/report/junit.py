"""Findings as JUnit XML: one suite for each file, one case for each finding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Severity
from modelcheck.report.model import Report, by_file, sentence

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """A document in which all but ``info`` findings fail, and unreadable files are errors."""
    root = ElementTree.Element("testsuites", name="modelcheck")
    suites = [_suite(path, found) for path, found in by_file(report.findings).items()]
    suites += [_unreadable(error) for error in report.unreadable]
    if not suites:  # a report without a case counts as a test that did not run
        suites.append(_element("testsuite", name="modelcheck", tests="1", failures="0", errors="0"))
        suites[0].append(_element("testcase", name="nothing to report", classname="modelcheck"))
    root.extend(suites)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    if report.verdict_line:
        properties = ElementTree.Element("properties")
        properties.append(_element("property", name="verdict", value=report.verdict_line))
        suites[0].insert(0, properties)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}'


def _suite(path: str, findings: Sequence[Finding]) -> ElementTree.Element:
    failing = sum(1 for finding in findings if finding.severity is not Severity.INFO)
    counts = {"tests": str(len(findings)), "failures": str(failing), "errors": "0"}
    suite = _element("testsuite", name=path, **counts)
    suite.extend(_case(finding) for finding in findings)
    return suite


def _case(finding: Finding) -> ElementTree.Element:
    line, column = finding.span.line, finding.span.column
    case = _element(
        "testcase",
        name=f"{finding.code} {line}:{column}",
        classname=finding.class_name or finding.path,
        file=finding.path,
        line=str(line),
    )
    message = sentence(finding)
    detail = f"{finding.path}:{line}:{column}: {finding.code} {finding.severity} {message}"
    if finding.severity is Severity.INFO:
        said = _element("system-out")
    else:
        said = _element("failure", type=str(finding.severity), message=message)
    said.text = _clean(f"{detail}\n{finding.advice}")
    case.append(said)
    return case


def _unreadable(error: UnreadableFile) -> ElementTree.Element:
    suite = _element("testsuite", name=error.path, tests="1", failures="0", errors="1")
    case = _element("testcase", name="unreadable", classname=error.path, file=error.path)
    said = _element("error", type="unreadable", message=error.cause)
    said.text = _clean(str(error))
    case.append(said)
    suite.append(case)
    return suite


def _element(tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(tag, {name: _clean(value) for name, value in attributes.items()})


def _clean(text: str) -> str:
    """``text`` without the characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
