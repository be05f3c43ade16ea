"""text, concise, grouped, statistics: what people read."""

import dataclasses
import json
import re
from collections import Counter

import pytest

from modelcheck.findings import Span
from modelcheck.report import FORMATS, Report, render
from modelcheck.report import statistics as statistics_report
from modelcheck.report.frame import frame
from modelcheck.report.text import concise_line

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def blocks(text):
    """The blocks of text output by their place."""
    found = {}
    for block in text.split("\n\n"):
        place, _, _ = block.partition(": MC")
        found.setdefault(place, []).append(block)
    return found


def test_every_finding_has_its_source_underlined_and_its_advice(report):
    by_place = blocks(render("text", report))
    for finding in report.findings:
        span = finding.span
        with open(finding.path, encoding="utf-8") as stream:
            line = stream.read().split("\n")[span.line - 1]
        end = span.end_column - 1 if span.end_line == span.line else len(line)
        candidates = by_place[f"{finding.path}:{span.line}:{span.column}"]
        block = next(b for b in candidates if finding.message in b)
        *_, code, carets, _, advice = block.splitlines()
        assert code == f"{span.line} | {line}"
        margin = len(str(span.line)) + 3
        assert carets.index("^") == margin + span.column - 1
        assert carets.count("^") == len(line[span.column - 1 : end].rstrip())
        assert f"= help: {finding.advice}" in advice
        assert ("[*]" in block) == (finding.fix is not None and finding.fix.safety == "safe")


def test_the_verdict_is_the_first_line_and_the_count_the_last(report):
    for name in ("text", "concise", "grouped"):
        lines = render(name, report).splitlines()
        assert lines[0] == report.verdict.line
        assert lines[-1].startswith(f"{len(report.findings)} findings in 3 files: ")
        assert lines[-1].endswith("; 1 file could not be checked")
        clean = render(name, Report(files=3))
        assert clean == "3 files checked: nothing to report"


def test_concise_and_grouped_say_the_same(report):
    concise = render("concise", report).splitlines()
    assert concise[2:-2] == [concise_line(finding) for finding in report.findings]
    files = render("grouped", report).split("\n\n")[1:-1]
    ungrouped = [
        f"{block.splitlines()[0]}{' '.join(row.split())}"
        for block in files
        for row in block.splitlines()[1:]
    ]
    assert ungrouped == [re.sub(r"(:\d+:\d+): ", r"\1 ", line) for line in concise[2:-2]]


@pytest.mark.parametrize("name", ["text", "concise", "grouped"])
def test_colour_changes_nothing_but_colour(name, report):
    for width in (0, 80):
        plain = dataclasses.replace(report, width=width)
        coloured = render(name, dataclasses.replace(plain, colour=True))
        assert ANSI.sub("", coloured) == render(name, plain)
        assert coloured.count("\x1b[1;31mMC110 wrong") == 1


@pytest.mark.parametrize("width", [40, 80, 200])
def test_nothing_is_wider_than_the_terminal_and_no_word_is_lost(width, report):
    text = render("text", dataclasses.replace(report, width=width))
    words = set(text.split())
    blocks = text.rpartition("\n\n")[0].splitlines()
    assert not [line for line in blocks if len(line) > width and " " in line.strip()]
    for finding in report.findings:
        assert set(finding.message.split()) <= words
        assert set(finding.advice.split()) <= words


def test_frames():
    assert frame(["", "\tx = '\x1b[0m漢字' + yy"], Span(2, 17, 2, 19)) == [
        "  |",
        "2 |     x = '�[0m漢字' + yy",
        "  |                      ^^",
    ]
    lines = ["# the line above", f"value = {'f(x) + ' * 20}bad_call(x) + {'g(x) ' * 20}"]
    start = lines[1].index("bad_call") + 1
    assert frame(lines, Span(2, start, 2, start + 11), 40) == [
        "  |",
        "1 | …",
        "2 | …+ f(x) + f(x) + f(x) + bad_call(x)…",
        "  |                         ^^^^^^^^^^^",
    ]
    assert frame(lines, Span(7, 1, 7, 2)) == []
    assert len(frame(["x" * 1_000_000], Span(1, 900_000, 1, 900_009))[1]) < 600


def test_a_file_that_is_not_there_has_no_frame_and_given_text_has(report):
    finding = dataclasses.replace(report.findings[0], path="-", span=Span(1, 1, 1, 3))
    assert " | " not in render("text", Report((finding,)))
    assert "1 | ab" in render("text", Report((finding,), texts={"-": "ab\r\n"}))


def test_nothing_that_a_terminal_would_obey(trapped):
    for name in ("text", "concise", "grouped"):
        text = render(name, trapped)
        assert "\x1b" not in text
        assert "\x00" not in text
        assert "(with tensor parallelism only)" in text


def test_statistics(report):
    rows = [line.split() for line in statistics_report.render(report).splitlines()]
    counts = Counter(finding.code for finding in report.findings)
    assert [(code, int(count)) for count, code, *_ in rows] == sorted(
        counts.items(), key=lambda item: (-item[1], item[0])
    )
    kwargs = next(row for row in rows if row[1] == "MC201")
    assert kwargs[2:] == ["[*]", "kwargs-not-threaded"]
    data = json.loads(statistics_report.render_json(report))
    assert [row["count"] for row in data] == [int(row[0]) for row in rows]
    assert statistics_report.render(Report()) == ""


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_say_nothing_and_name_a_file_that_is_no_text(name, report):
    assert isinstance(render(name, Report()), str)
    odd = dataclasses.replace(
        report.findings[0], path=b"modeling_\xff.py".decode("utf-8", "surrogateescape")
    )
    assert "modeling_" in render(name, Report((odd,))).encode().decode()
