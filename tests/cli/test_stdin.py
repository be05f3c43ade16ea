"""``-``: an editor's unsaved text."""

import json

from modelcheck.scan import Scanner


def test_stdin_is_checked_in_the_place_of_the_named_file(demo, scan):
    name = "demo/modeling_fen.py"
    text = (demo / "modeling_fen.py").read_text()
    result = scan("-", "--stdin-filename", name, "--output-format", "json", input=text)
    found = json.loads(result.stdout)["findings"]
    expected = [f for f in Scanner().scan([str(demo)]).findings if "modeling" in f.path]
    assert [(f["code"], f["line"]) for f in found] == [(f.code, f.span.line) for f in expected]
    assert {f["path"] for f in found} == {name}
    assert result.status == 1


def test_the_frame_shows_what_was_piped_not_what_is_on_disk(bad, scan):
    text = "# only here\n" + bad.read_text()
    bad.write_text("")
    result = scan("-", "--stdin-filename", "modeling_bad.py", input=text)
    assert "modeling_bad.py:186:1: MC307" in result.stdout
    assert "186 | class GinkgoForCausalLM" in result.stdout


def test_without_a_name_and_as_config(bad, demo, scan):
    assert "modeling_stdin.py:185:1: MC307" in scan("-", input=bad.read_text()).stdout
    config = (demo / "config.json").read_text()
    result = scan("-", "--stdin-filename", "demo/config.json", input="\n\n" + config)
    assert "demo/config.json:5:3: MC306" in result.stdout


def test_fixed_text_goes_to_stdout_and_the_report_to_stderr(demo, command):
    name = demo / "modeling_fen.py"
    text = name.read_text()
    fixed = command("scan", "-", "--fix", "--stdin-filename", name, stdin=text)
    assert name.read_text() == text
    assert fixed.returncode == 0
    assert "MC501" not in fixed.stderr
    assert "unknown: config.json was not checked" in fixed.stderr
    command("scan", name, "--fix")
    assert fixed.stdout == name.read_text()
    diff = command("scan", "-", "--diff", "--stdin-filename", name, stdin=text)
    assert diff.stdout.startswith("--- a/")


def test_what_cannot_be_parsed_comes_back_as_it_was(scan):
    result = scan("-", "--fix", input="def f(:\n")
    assert result.stdout == "def f(:\n"
    assert result.status == 2
    assert "syntax error" in result.stderr
