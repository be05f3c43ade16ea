"""``modelcheck contract``: what it prints, and where."""

import json

import pytest
from click.testing import CliRunner

from modelcheck.cli import cli
from modelcheck.errors import UsageError
from modelcheck.fusers.contract import known_releases


def run(*arguments):
    return CliRunner().invoke(cli, ["contract", *arguments], catch_exceptions=False)


def test_lists_every_release():
    result = run()
    assert result.exit_code == 0
    lines = [line.split()[0] for line in result.output.splitlines() if line[:1].isdigit()]
    assert lines == [c.version for c in known_releases()]
    assert "\x1b" not in result.output


def test_json():
    data = json.loads(run("--output-format", "json").output)
    assert data["schema_version"] == 1
    newest = data["releases"][-1]
    assert newest["vllm"] == known_releases()[-1].version
    assert newest["fusers"] == list(known_releases()[-1].fusers)
    assert newest["transformers"] == ">=5.16.1,<5.21.0"
    assert newest["torch"] == "2.14.0"


def test_diff_is_one_line_per_behaviour():
    result = run("--diff", "0.29", "0.30")
    lines = result.output.splitlines()
    assert lines[0] == "From vLLM 0.29.0 to 0.30.0"
    assert "You may now write:" in lines
    assert "Now refused:" in lines
    assert "Now fused:" in lines
    told = json.loads(run("--diff", "0.29", "0.30", "--output-format", "json").output)
    indented = [line.strip() for line in lines if line.startswith("  ")]
    assert sorted(indented) == sorted(f"{d['area']}: {d['sentence']}" for d in told["differences"])


def test_nothing_changed():
    assert "Nothing that an author would notice." in run("--diff", "0.32.0", "0.32.1").output


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("0.29", "newer", "not a version"),
        ("0.20", "0.33", "oldest release known"),
        ("0.29", "0.99", "not known yet"),
    ],
)
def test_bad_releases(old, new, words):
    with pytest.raises(UsageError, match=words):
        run("--diff", old, new)
