"""Where the report goes, in which form, and the options that must not be combined."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelcheck.report import FORMATS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_goes_to_stdout_or_a_file(demo, command, name):
    shown = command("scan", "demo", "--output-format", name, cwd=demo.parent)
    assert shown.returncode == 1
    assert "MC501" in shown.stdout
    written = command(
        "scan", "demo", "--output-format", name, "--output-file", "out", cwd=demo.parent
    )
    assert written.returncode == 1
    assert written.stdout == ""
    assert (demo.parent / "out").read_text() == shown.stdout


def test_concise_has_lines_of_findings_only(demo, scan):
    lines = scan(demo, "--output-format", "concise").stdout.split("\n\n")[0].splitlines()
    assert all(": MC" in line for line in lines)


def test_an_output_file_that_cannot_be_written_is_one_line(bad, command):
    result = command("scan", bad, "--output-file", "no/such", cwd=bad.parent)
    assert result.returncode == 2
    assert result.stderr == (
        "modelcheck: error: --output-file: no/such: No such file or directory\n"
    )


def test_statistics(demo, scan):
    rows = scan(demo, "--statistics").stdout.splitlines()
    assert [row.split() for row in rows if "MC201" in row] == [
        ["6", "MC201", "[*]", "kwargs-not-threaded"]
    ]
    data = json.loads(scan(demo, "--statistics", "--output-format", "json").stdout)
    found = json.loads(scan(demo, "--output-format", "json").stdout)["findings"]
    assert sum(row["count"] for row in data) == len(found)
    assert [row["count"] for row in data if row["code"] == "MC201"] == [6]


def test_transformers_reaches_the_rules(bad, monkeypatch):
    from modelcheck.releases import ReleaseScanner

    seen = []
    original = ReleaseScanner.check_context
    monkeypatch.setattr(
        ReleaseScanner,
        "check_context",
        lambda self, context: seen.append(context.transformers) or original(self, context),
    )
    from click.testing import CliRunner

    from modelcheck.cli import cli

    for arguments in ([], ["--transformers", "5.19"]):
        CliRunner().invoke(cli, ["scan", str(bad), *arguments], standalone_mode=False)
    assert seen == [None, "5.19"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--transformers", "five"], "--transformers: 'five' is not a version"),
        (["--vllm", "0.33,new"], "'new' is not a version"),
        (["--base-ref", "main"], "--base-ref needs --changed-only"),
        (["--stdin-filename", "x.py"], "--stdin-filename needs -"),
        (["-"], "- (standard input) excludes other paths"),
        (["--write-baseline", "a", "--baseline", "b"], "exclude each other"),
        (["--write-baseline", "a", "--fix"], "--write-baseline excludes"),
        (["--write-baseline", "no/such"], "no/such: No such file"),
        (["--config", "x.toml", "--isolated"], "exclude each other"),
        (["--per-file-ignores", "MC1"], "'MC1' is not GLOB:CODES"),
        (["--per-file-ignores", "*.py:MC999"], "no rule 'MC999'"),
        (["--statistics", "--output-format", "sarif"], "not sarif"),
    ],
)
def test_wrong_use_is_one_line(bad, command, arguments, words):
    result = command("scan", bad, *arguments, cwd=bad.parent)
    assert result.returncode == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("modelcheck sc", "plain,scan"),
        ("modelcheck scan --out", "plain,--output-format"),
        ("modelcheck scan --output-format sa", "plain,sarif"),
        ("modelcheck scan mod", "file,mod"),
    ],
)
def test_the_shell_completes(words, expected):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_MODELCHECK_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    result = subprocess.run(
        [sys.executable, "-m", "modelcheck"], capture_output=True, text=True, env=environment
    )
    assert expected in result.stdout.splitlines()
