"""The command line: exit codes, one clear line for bad input, where output goes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modelcheck.cli import cli

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "fixtures" / "demo"
GOOD = ROOT / "fixtures" / "rules" / "no_base_model" / "modeling_good.py"
BAD = ROOT / "fixtures" / "rules" / "no_base_model" / "modeling_bad.py"


def run(*arguments, cwd=None, env=None, stdin=None):
    command = [sys.executable, "-m", "modelcheck", *map(str, arguments)]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environ)


@pytest.fixture
def demo(tmp_path):
    return Path(shutil.copytree(DEMO, tmp_path / "demo"))


def test_exit_codes():
    assert run("scan", GOOD).returncode == 0
    assert run("scan", BAD).returncode == 1
    assert run("scan", BAD, "--exit-zero").returncode == 0
    assert run("scan", BAD, "--ignore", "MC3").returncode == 0
    assert run("scan", BAD, "--select", "no-base-model").returncode == 1


def test_info_findings_do_not_fail_a_run(demo):
    result = run("scan", demo, "--select", "MC201")
    assert "MC201 info" in result.stdout
    assert result.returncode == 0
    assert run("scan", demo, "--select", "MC201", "--vllm", "0.29").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scan"], "Missing argument"),
        (["scan", "missing.py"], "missing.py: no such file"),
        (["scan", ".", "--select", "MC999"], "no rule 'MC999'"),
        (["scan", ".", "--ignore", "no-base-modle"], "did you mean no-base-model"),
        (["scan", ".", "--vllm", "new"], "'new' is not a version"),
        (["scan", ".", "--vllm", "0.20"], "oldest release known"),
        (["scan", ".", "--fix", "--diff"], "exclude each other"),
        (["scan", ".", "--unsafe-fixes"], "needs --fix or --diff"),
        (["scan", "."], "no modeling file found in ."),
        (["scan", ".", "--transformers-path", "missing"], "missing is no package of transformers"),
        (["scna"], "No such command"),
        (["explain", "MC999"], "no rule 'MC999'"),
        (["scan", "--output-format", "xml", "."], "xml"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(arguments, words, tmp_path):
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("modelcheck: error: ")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"def f(:\n", "syntax error"),
        (b"# -*- coding: nonsense -*-\n", "encoding"),
        (b"x = '\xff'\n", "encoding"),
        (b"\n\n\nx = '\xff'\n", "modeling_a.py:4: not valid utf-8"),
        (b"x = 1\0\n", ""),
        (b"(" * 5000 + b")" * 5000, ""),
    ],
)
def test_an_unreadable_file_is_one_line_and_the_rest_goes_on(data, words, tmp_path):
    (tmp_path / "modeling_a.py").write_bytes(data)
    shutil.copy(BAD, tmp_path / "modeling_b.py")
    result = run("scan", tmp_path)
    assert result.returncode == 2
    assert "MC307" in result.stdout
    errors = [line for line in result.stderr.splitlines() if "modeling_a.py" in line]
    assert len(errors) == 1
    assert words in errors[0]
    assert "Traceback" not in result.stderr


def test_a_bom_and_crlf_are_read(tmp_path):
    text = BAD.read_text().replace("\n", "\r\n")
    (tmp_path / "modeling_x.py").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert "modeling_x.py:185:1: MC307" in run("scan", tmp_path).stdout


def test_fix_writes_and_the_exit_code_is_of_what_is_left(demo):
    before = run("scan", demo)
    assert before.returncode == 1
    result = run("scan", demo, "--fix")
    assert "14 fixed" in result.stderr
    assert result.returncode == 0
    assert run("scan", demo).stdout == result.stdout
    assert json.loads((demo / "config.json").read_text())["auto_map"]["AutoModel"]


def test_diff_changes_nothing_and_applies(demo):
    before = {path.name: path.read_bytes() for path in demo.iterdir()}
    result = run("scan", ".", "--diff", cwd=demo)
    assert {path.name: path.read_bytes() for path in demo.iterdir()} == before
    assert result.returncode == 1
    subprocess.run(["patch", "-p1"], input=result.stdout, text=True, cwd=demo, check=True)
    assert run("scan", demo).returncode == 0


def test_json_has_a_schema_and_every_finding(demo):
    result = run("scan", demo, "--output-format", "json")
    data = json.loads(result.stdout)
    assert data["schema"] == 1
    text = run("scan", demo, "--output-format", "concise").stdout
    assert len(data["findings"]) == text.count(": MC")
    first = data["findings"][0]
    assert f"{first['path']}:{first['line']}:{first['column']}: {first['code']}" in text


def test_json_is_json_also_when_fixing_and_with_unreadable_files(demo):
    (demo / "modeling_broken.py").write_text("def\n")
    data = json.loads(run("scan", demo, "--fix", "--output-format", "json").stdout)
    assert data["unreadable"][0]["line"] == 1


def test_a_newer_release_is_judged_by_the_newest_known():
    result = run("scan", GOOD, "--vllm", "99.0")
    assert result.returncode == 0
    assert "not known yet" in result.stderr


def test_no_colour_without_a_terminal(demo):
    assert "\x1b" not in run("scan", demo, env={"FORCE_COLOR": "1"}).stdout


def test_a_closed_pipe_is_no_error(demo):
    command = f"{sys.executable} -m modelcheck scan {demo} | true; echo ${{PIPESTATUS[0]}}"
    for _ in range(3):
        result = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}
        )
        assert "Traceback" not in result.stderr
        assert "Exception" not in result.stderr


def test_an_internal_fault_is_one_line_and_exit_3(tmp_path):
    code = (
        "import modelcheck.rules.backend.no_base_model as rule\n"
        "def broken(context): raise ValueError('two\\nlines')\n"
        "rule.check = broken\n"
        "from modelcheck.cli import main\n"
        f"main(['scan', {str(GOOD)!r}])\n"
    )
    command = [sys.executable, "-c", code]
    env = {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, env=env)
    assert result.returncode == 3
    assert len(result.stderr.splitlines()) == 1
    assert "ValueError: two lines" in result.stderr
    env["MODELCHECK_TRACEBACK"] = "1"
    shown = subprocess.run(command, capture_output=True, text=True, env=env)
    assert "Traceback" in shown.stderr


def test_version_and_help():
    from modelcheck import __version__

    assert __version__ in run("--version").stdout
    helped = run("--help")
    assert helped.returncode == 0
    for name in cli.list_commands(None):
        assert name in helped.stdout


@pytest.mark.parametrize("name", cli.list_commands(None))
def test_every_command_has_help(name):
    result = run(name, "--help")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Usage: modelcheck " + name)


def test_explain_lists_all_rules():
    from modelcheck.rules.base import all_rules

    lines = run("explain").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [rule.code for rule in all_rules()]
