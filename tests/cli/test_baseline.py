"""The baseline: accepts what was there, wherever it moves, and nothing else."""

import json

import pytest


@pytest.fixture
def known(demo, scan):
    result = scan(demo, "--write-baseline", "known.json")
    assert result.status == 0
    assert "findings written to known.json" in result.stderr
    return demo


def test_what_was_there_is_accepted(known, scan):
    result = scan(known, "--baseline", "known.json")
    assert result.status == 0
    assert "MC501 slow" not in result.stdout
    assert "unused" not in result.stderr
    assert "refused" in result.stdout.splitlines()[0]  # the verdict is of the whole model


def test_lines_that_come_and_go_change_nothing(known, scan):
    path = known / "modeling_fen.py"
    text = path.read_text()
    path.write_text("# one\n# two\n\n" + text.replace("\n\n\n", "\n\n\n\n# more\n\n"))
    assert scan(known, "--baseline", "known.json").status == 0


def test_a_new_finding_is_reported_alone(known, scan):
    path = known / "modeling_fen.py"
    text = path.read_text()
    norm = text[text.index("class FenRMSNorm") : text.index("class FenMLP")]
    path.write_text(f"{text}\n\n{norm.replace('FenRMSNorm', 'NewRMSNorm')}")
    result = scan(known, "--baseline", "known.json", "--output-format", "concise")
    assert result.status == 1
    assert [line for line in result.stdout.splitlines() if ": MC" in line] == [
        line for line in result.stdout.splitlines() if "NewRMSNorm" in line
    ]


def test_the_same_finding_a_second_time_is_new(bad, scan):
    scan(bad, "--write-baseline", "known.json")
    data = json.loads((bad.parent / "known.json").read_text())
    assert {entry["count"] for entry in data["findings"]} == {1}
    data["findings"][0]["count"] = 0
    (bad.parent / "known.json").write_text(json.dumps(data))
    assert scan(bad, "--baseline", "known.json").status == 1


def test_unused_entries_are_named(known, scan):
    scan(known, "--fix", "--select", "MC501")
    result = scan(known, "--baseline", "known.json")
    assert "known.json: unused: demo/modeling_fen.py: MC501 FenRMSNorm" in result.stderr
    assert "MC601" not in result.stderr
    # Of what was not checked nothing is known.
    assert "unused" not in scan(known, "--baseline", "known.json", "--select", "MC6").stderr
    assert "unused" not in scan(known / "config.json", "--baseline", "known.json").stderr
    (known / "modeling_fen.py").unlink()
    assert "MC104" in scan(known / "config.json", "--baseline", "known.json").stderr


def test_what_is_accepted_is_not_fixed(known, scan):
    before = (known / "modeling_fen.py").read_bytes()
    result = scan(known, "--fix", "--baseline", "known.json")
    assert result.status == 0
    assert (known / "modeling_fen.py").read_bytes() == before
    assert "0 fixed, 0 left" in result.stderr


def test_another_release_or_folder_does_not_matter(known, scan, project, monkeypatch):
    (project / "modelcheck.toml").write_text("baseline = 'known.json'\n")
    monkeypatch.chdir(known)
    assert scan(".").status == 0
    assert scan("modeling_fen.py", "--vllm", "0.32").status == 0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1, "findings": [{}]}'])
def test_what_is_no_baseline_is_said(bad, command, text):
    (bad.parent / "known.json").write_text(text)
    result = command("scan", bad, "--baseline", "known.json", cwd=bad.parent)
    assert result.returncode == 2
    assert result.stderr == ("modelcheck: error: known.json: not a baseline file: write it anew\n")
