"""`modelcheck survey` as it is called."""

import importlib.util
import json
import re

import pytest

from modelcheck.cli import main
from modelcheck.report.survey import tallies

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="no transformers"
)


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["survey", *map(str, arguments)])
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


def test_summary_lines_and_page(capsys, tmp_path):
    output, html = tmp_path / "s.jsonl", tmp_path / "page.html"
    options = ("--model-type", "llama,gpt2", "--evidence", "predicted", "--output", output)
    code, out, err = call(capsys, *options, "--html", html)
    assert code == 0
    assert out.startswith("2 model types of transformers ")
    assert re.search(r"^GLU +1 / +0 / +0 *$", out, re.MULTILINE)
    assert "Progress" not in err
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert {line["model_type"] for line in lines} == {"llama", "gpt2"}
    assert "LlamaMLP" in html.read_text()
    assert call(capsys, *options)[1] == out


def test_predicted_alone_imports_no_torch(tmp_path):
    import subprocess
    import sys

    script = (
        "import sys\nfrom modelcheck.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", script, "survey", "--model-type", "llama"]
    options = ["--evidence", "predicted", "--output", str(tmp_path / "s.jsonl")]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--evidence", "guessed"], "--evidence: 'guessed' is none of predicted, traced, loaded"),
        (["--model-type", "lama"], "transformers has no 'lama', did you mean llama?"),
        (["--vllm", "0.1"], "the oldest release known"),
        (["--tp", "0"], "Invalid value for '--tp'"),
        (["--html", "/no/such/folder/page.html"], "no such folder"),
        (["--evidence", "predicted", "--output", "/no/such/folder/s.jsonl"], "No such file"),
    ],
)
def test_a_wrong_call_is_one_line(capsys, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_a_class_counts_once(records):
    counts = {
        (str(e), fuser): tally.counts()
        for (e, fuser), tally in tallies([*records, *records]).items()
    }
    assert counts == {
        ("predicted", "QKV"): (1, 0, 0),
        ("predicted", "GLU"): (0, 0, 1),
        ("traced", "QKV"): (0, 1, 0),
    }
