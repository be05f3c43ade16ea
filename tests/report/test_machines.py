"""json, github, gitlab, junit, markdown: read back, everything is there."""

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from modelcheck.findings import Severity
from modelcheck.report import Report, render
from modelcheck.report.model import sentence
from modelcheck.scan import Scanner

MACHINES = ("json", "sarif", "github", "gitlab", "junit", "markdown")


@pytest.mark.parametrize("name", MACHINES)
def test_a_terminal_changes_nothing(name, report):
    terminal = dataclasses.replace(report, colour=True, width=40)
    assert render(name, terminal) == render(name, report)


def test_json_keeps_its_keys(report, trapped):
    data = json.loads(render("json", report))
    assert (data["schema"], data["vllm"]) == (1, report.vllm)
    assert data["verdict"] == report.verdict.line
    assert data["unreadable"][0]["path"].endswith("modeling_broken.py")
    assert data["unreadable"][0]["line"] == 2
    keys = "code severity path line column end_line end_column class message advice fix tp_only"
    keys += " releases"
    for shown, finding in zip(data["findings"], report.findings, strict=True):
        assert set(shown) == set(keys.split())
        assert (shown["path"], shown["message"]) == (finding.path, finding.message)
    assert json.loads(render("json", trapped))["findings"][0]["tp_only"] is True


def unescaped(text, *pairs):
    for code, character in (*pairs, ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def commands(text):
    """What GitHub's runner reads: level, properties, message."""
    for line in text.split("\n"):
        head, message = line.removeprefix("::").split("::", 1)
        level, _, properties = head.partition(" ")
        pairs = dict(pair.split("=", 1) for pair in properties.split(","))
        values = {k: unescaped(v, ("%3A", ":"), ("%2C", ",")) for k, v in pairs.items()}
        yield level, values, unescaped(message)


def test_github(report, trapped):
    verdict, *found, unreadable = commands(render("github", report))
    assert verdict == ("notice", {"title": "modelcheck"}, report.verdict.line)
    levels = {"wrong": "error", "error": "error", "slow": "warning", "info": "notice"}
    for (level, properties, message), finding in zip(found, report.findings, strict=True):
        assert level == levels[finding.severity]
        assert Path(properties["file"]) == Path(finding.path)
        assert properties["line"] == str(finding.span.line)
        assert ("col" in properties) == ("endLine" not in properties)
        assert message.endswith(f"{sentence(finding)}\n{finding.advice}")
    assert unreadable[0] == "error"
    assert unreadable[1]["file"] == "modeling_broken.py"
    assert unreadable[1]["line"] == "2"
    finding = trapped.findings[0]
    (_, properties, message), _ = commands(render("github", trapped))
    assert properties["file"] == finding.path
    assert message.endswith(f"\n{finding.advice}")


def test_gitlab(report, trapped):
    issues = json.loads(render("gitlab", report))
    assert len(issues) == len(report.findings) + 1
    assert {issue["severity"] for issue in issues} == {
        "info",
        "minor",
        "major",
        "critical",
        "blocker",
    }
    for issue, finding in zip(issues[:-1], report.findings, strict=True):
        assert issue["check_name"] == finding.code
        assert Path(issue["location"]["path"]) == Path(finding.path)
        assert not issue["location"]["path"].startswith((".", "/"))
        assert issue["location"]["lines"]["begin"] == finding.span.line
    both = json.loads(render("gitlab", trapped))
    assert len({issue["fingerprint"] for issue in (*issues, *both)}) == len(issues) + 2


@pytest.mark.parametrize("name", ["gitlab", "sarif"])
def test_fingerprints_survive_a_move_of_lines_and_another_way_to_name_the_file(name, report, repo):
    def names(report):
        data = json.loads(render(name, report))
        if name == "gitlab":
            return sorted(issue["fingerprint"] for issue in data)
        return sorted(str(result["partialFingerprints"]) for result in data["runs"][0]["results"])

    before = names(report)
    path = repo / "modeling_fen.py"
    path.write_text("# one\n# two\n" + path.read_text())
    result = Scanner().scan([str(repo)])
    assert names(Report(result.findings, result.unreadable)) == before


def test_junit(report, trapped):
    root = ElementTree.fromstring(render("junit", report))
    cases = root.findall("testsuite/testcase")
    failing = [f for f in report.findings if f.severity is not Severity.INFO]
    failures = root.findall("testsuite/testcase/failure")
    assert [failure.get("message") for failure in failures] == [sentence(f) for f in failing]
    assert root.attrib == {
        "name": "modelcheck",
        "tests": str(len(cases)),
        "failures": str(len(failing)),
        "errors": "1",
    }
    assert len(cases) == len(report.findings) + 1
    for suite in root:
        for tag in ("failure", "error"):
            assert int(suite.get(f"{tag}s")) == len(suite.findall(f"testcase/{tag}"))
    assert root.find("testsuite/properties/property").get("value") == report.verdict.line
    assert "modeling_broken.py:2" in root.find("testsuite/testcase/error").text
    assert len(ElementTree.fromstring(render("junit", trapped)).findall(".//failure")) == 2
    (case,) = ElementTree.fromstring(render("junit", Report(files=1))).iter("testcase")
    assert len(case) == 0


def cells(text):
    """The text of the table's cells, as a Markdown reader shows them, row by row."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    row = []
    for token in tokens:
        if token.type == "td_open":
            row.append("")
        elif token.type == "inline" and row and len(row) <= 4:
            assert {t.type for t in token.children} <= {"text", "code_inline", "html_inline"}
            assert {t.content for t in token.children if t.type == "html_inline"} <= {"<br>"}
            row[-1] = "".join(t.content for t in token.children)
        elif token.type == "tr_close" and row:
            yield row
            row = []


def test_markdown(report, trapped):
    text = render("markdown", report)
    assert report.verdict.line in text
    assert "- `modeling_broken.py:2`: syntax error" in text
    for row, finding in zip(cells(text), report.findings, strict=True):
        place = f"{Path(finding.path)}:{finding.span.line}"
        assert row[:3] == [finding.severity, finding.code, place]
        words = f"{sentence(finding)}<br>{finding.advice}".replace("`", "")
        assert row[3].removesuffix(" (fixable with --fix)") == words
    assert len(list(cells(render("markdown", trapped)))) == 2
    many = render("markdown", dataclasses.replace(report, findings=report.findings * 50))
    assert len(many) < 65_536
    assert f"and {50 * len(report.findings) - len(list(cells(many)))} more" in many
