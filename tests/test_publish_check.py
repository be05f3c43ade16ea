"""``publish-check``: one verdict from all the evidence, nothing left out in silence."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from modelcheck.fusers.results import ClassReport, Fires, FusionResult
from modelcheck.publish import outcome_of
from modelcheck.publish_result import Part, Publication
from modelcheck.report.publish import COLOURS, badge, render_markdown
from modelcheck.verdict import Outcome

ROOT = Path(__file__).resolve().parent.parent
TARN = ROOT / "fixtures" / "models" / "remote_decoder"
DEMO = ROOT / "fixtures" / "demo"
VLLM = os.environ.get("MODELCHECK_VLLM_PYTHON")


def run(*arguments, cwd=ROOT, **more):
    environment = {k: v for k, v in os.environ.items() if k != "MODELCHECK_VLLM_PYTHON"}
    return subprocess.run(
        [sys.executable, "-m", "modelcheck", "publish-check", *map(str, arguments)],
        cwd=cwd,
        env={**environment, "PYTHONPATH": str(ROOT), **more},
        capture_output=True,
        text=True,
    )


def parts_of(result):
    """The parts by command, of a result in JSON."""
    return {part["command"]: part for part in json.loads(result.stdout)["parts"]}


@pytest.fixture
def tarn(tmp_path):
    return Path(shutil.copytree(TARN, tmp_path / "tarn"))


def change(folder, old, new):
    path = folder / "modeling_tarn.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_good_repository_by_the_source_alone(tarn):
    result = run(tarn)
    assert result.returncode == 0, result.stderr
    first = result.stdout.splitlines()[0]
    assert first.startswith(f"{tarn}: fit to publish: serves fused, by scan [vLLM ")
    assert first.endswith("; not run: dryrun and load")
    assert result.stdout.count("not run: the model's own code runs with --trust-remote-code") == 2


def test_a_refused_one(tmp_path):
    card, mark = tmp_path / "card.md", tmp_path / "badge.json"
    result = run(DEMO, "--markdown", card, "--badge", mark)
    assert result.returncode == 1
    assert "not fit to publish: refused, by scan: MC306, FenAttention (MC105)" in result.stdout
    assert "modeling_fen.py:57:9: MC501" in result.stdout
    text = card.read_text()
    assert text.startswith("### modelcheck\n\n❌ **")
    assert "| `load` |  | not run: " in text
    assert "| slow | MC501 |" in text
    shown = json.loads(mark.read_text())
    assert shown["color"] == "red"
    assert shown["message"].startswith("refused in vLLM 0.")


def test_an_unfused_class_is_fit_unless_asked_for(tarn):
    change(tarn, "torch.rsqrt(", "1 / torch.sqrt(")
    easy, strict = run(tarn), run(tarn, "--fail-on-missed")
    assert (easy.returncode, strict.returncode) == (0, 1)
    assert "fit to publish: serves, these classes unfused, by scan: TarnRMSNorm (MC501)" in (
        easy.stdout
    )
    assert "not fit to publish: serves, these classes unfused" in strict.stdout


def test_releases_are_judged_one_by_one():
    data = json.loads(run(DEMO, "--vllm", "0.29,0.33", "--output-format", "json").stdout)
    assert data["vllm"] == ["0.29.0", "0.33.0"]
    scans = [part for part in data["parts"] if part["command"] == "scan"]
    assert ["MC201" in part["detail"] for part in scans] == [True, False]
    assert any(f["message"].endswith("[vLLM 0.29.0]") for f in data["findings"])


def test_a_file_that_cannot_be_read_is_not_fit(tarn):
    (tarn / "modeling_tarn.py").write_text("class X(\n")
    result = run(tarn)
    assert result.returncode == 1
    assert "not shown to be fit to publish: unknown" in result.stdout
    assert "modeling_tarn.py:1: syntax error" in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere"], "no such folder"),
        (["."], "no config.json in this folder"),
        ([TARN, "--vllm", "nine"], "nine"),
        ([TARN, "--no-load", "--python", "x"], "exclude each other"),
        ([TARN, "--trust-remote-code", "--python", "/no/python"], "no such program"),
        ([TARN, "--badge", "/nowhere/at/all.json"], "--badge: /nowhere/at/all.json: "),
        ([TARN, "--markdown", "/nowhere/at/all.md"], "--markdown: /nowhere/at/all.md: "),
    ],
)
def test_bad_use_is_one_line(tmp_path, arguments, message):
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert message in line


def test_the_settings_choose_the_releases(tarn):
    (tarn / "modelcheck.toml").write_text('vllm = "0.30"\n')
    data = json.loads(run(tarn, "--output-format", "json").stdout)
    assert data["vllm"] == ["0.30.0"]


def test_rules_that_the_settings_leave_out_run_nevertheless(tmp_path):
    demo = Path(shutil.copytree(DEMO, tmp_path / "demo"))
    (demo / "modelcheck.toml").write_text('ignore = ["MC"]\n')
    assert run(demo).returncode == 1


@pytest.mark.slow
def test_a_dry_run_is_evidence_too(tarn):
    pytest.importorskip("torch")
    result = run(tarn, "--trust-remote-code", "--output-format", "json")
    assert result.returncode == 0, result.stderr
    parts = parts_of(result)
    assert parts["dryrun"]["outcome"] == "serves fused"
    assert {c["class_name"] for c in parts["dryrun"]["classes"]} >= {"TarnMLP", "TarnRMSNorm"}
    assert parts["load"]["ran"] is False
    assert "load needs vLLM" in parts["load"]["detail"]


@pytest.mark.slow
def test_a_dry_run_that_fails_leaves_it_open(tarn):
    """The source looks right, and the model cannot be built: that is no pass."""
    pytest.importorskip("torch")
    change(tarn, "import torch\n", "import torch\nimport no_such_package_at_all\n")
    result = run(tarn, "--trust-remote-code", "--output-format", "json")
    assert result.returncode == 1, result.stderr
    dry = parts_of(result)["dryrun"]
    assert dry["outcome"] == "unknown"
    assert "no_such_package_at_all" in dry["detail"]


@pytest.mark.slow
def test_a_repository_without_code_is_judged_by_transformers_own(tmp_path):
    pytest.importorskip("torch")
    sizes = dict.fromkeys(("hidden_size", "intermediate_size", "vocab_size"), 64)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **sizes, **heads}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = run(tmp_path, "--output-format", "json")
    assert result.returncode == 0, result.stderr
    parts = parts_of(result)
    assert parts["scan"]["detail"] == "modeling_llama.py of transformers"
    assert parts["dryrun"]["outcome"] == "serves fused"


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.skipif(not VLLM, reason="MODELCHECK_VLLM_PYTHON names no Python with vLLM")
def test_vllm_itself_is_asked(tarn):
    change(tarn, "torch.rsqrt(", "1 / torch.sqrt(")
    arguments = ("--trust-remote-code", "--python", VLLM, "--output-format", "json")
    result = run(tarn, *arguments, "--fail-on-missed")
    assert result.returncode == 1, result.stderr
    data = json.loads(result.stdout)
    parts = parts_of(result)
    assert data["vllm"] == [parts["load"]["vllm"]]
    assert [parts[name]["outcome"] for name in ("scan", "dryrun", "load")] == [
        "serves, these classes unfused"
    ] * 3
    assert any(line.startswith("TarnRMSNorm: RMSNorm: ") for line in parts["load"]["remarks"])


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.skipif(not VLLM, reason="MODELCHECK_VLLM_PYTHON names no Python with vLLM")
def test_vllms_refusal_is_a_refusal(tmp_path):
    as_repo = runpy.run_path(str(ROOT / "tests" / "cases_as_repos.py"))["as_repo"]
    folder = as_repo("02_inline_sdpa_attention", tmp_path).path
    arguments = ("--trust-remote-code", "--python", VLLM, "--no-dryrun", "--output-format", "json")
    result = run(folder, *arguments)
    assert result.returncode == 1, result.stderr
    loaded = parts_of(result)["load"]
    assert loaded["outcome"] == "refused"
    assert loaded["detail"].startswith("vLLM refuses the model: ")


# The verdict, from parts alone.

SCAN = Part("scan", "0.33.0", Outcome.FUSED)
DRY = Part("dryrun", "0.33.0", Outcome.FUSED)
LOAD = Part("load", "0.33.0", Outcome.FUSED)


def of(*parts, strict=False):
    return Publication("repo", ("0.33.0",), parts, strict=strict)


@pytest.mark.parametrize(
    "parts, outcome, fit",
    [
        ([SCAN, DRY, LOAD], Outcome.FUSED, True),
        ([SCAN, DRY, replace(LOAD, outcome=Outcome.REFUSED)], Outcome.REFUSED, False),
        ([replace(SCAN, outcome=Outcome.WRONG), DRY, LOAD], Outcome.WRONG, False),
        ([replace(SCAN, outcome=Outcome.TP1), DRY], Outcome.TP1, False),
        ([SCAN, replace(DRY, outcome=Outcome.UNFUSED)], Outcome.UNFUSED, True),
        # What the source leaves open of fusions, a dry run tells; all else, only vLLM.
        ([replace(SCAN, outcome=Outcome.UNKNOWN, yields=True), DRY], Outcome.FUSED, True),
        ([replace(SCAN, outcome=Outcome.UNKNOWN), DRY], Outcome.UNKNOWN, False),
        ([replace(SCAN, outcome=Outcome.UNKNOWN), DRY, LOAD], Outcome.FUSED, True),
        # Another release is no answer.
        (
            [replace(SCAN, outcome=Outcome.UNKNOWN), replace(LOAD, vllm="0.30.0")],
            Outcome.UNKNOWN,
            False,
        ),
        ([SCAN, replace(DRY, outcome=Outcome.UNKNOWN), LOAD], Outcome.FUSED, True),
        ([SCAN, replace(DRY, outcome=Outcome.UNKNOWN)], Outcome.UNKNOWN, False),
        ([SCAN, replace(DRY, outcome=None), replace(LOAD, outcome=None)], Outcome.FUSED, True),
        ([], Outcome.UNKNOWN, False),
    ],
)
def test_the_gravest_word_counts(parts, outcome, fit):
    publication = of(*parts)
    assert publication.outcome is outcome
    assert publication.fit is fit
    assert badge(publication)["color"] == COLOURS[outcome]


def test_strict_asks_for_all_fusions():
    unfused = replace(DRY, outcome=Outcome.UNFUSED)
    assert not of(SCAN, unfused, strict=True).fit
    assert of(SCAN, DRY, strict=True).fit


def test_the_badge_is_as_shields_io_wants_it():
    shown = badge(of(SCAN))
    assert shown.keys() <= {"schemaVersion", "label", "message", "color"}
    assert shown["schemaVersion"] == 1
    assert all(isinstance(shown[key], str) and shown[key] for key in ("label", "message", "color"))


def results(*pairs):
    return [ClassReport("X", ("x",), tuple(FusionResult(n, f, "X", wrong=w) for n, f, w in pairs))]


@pytest.mark.parametrize(
    "pairs, expected",
    [
        ([("GLU", Fires.YES, "")], Outcome.FUSED),
        ([("GLU", Fires.YES, ""), ("QKV", Fires.NO, "")], Outcome.UNFUSED),
        ([("GLU", Fires.YES, ""), ("QKV", Fires.UNKNOWN, "")], Outcome.UNKNOWN),
        ([("GLU", Fires.UNKNOWN, ""), ("QKV", Fires.NO, "")], Outcome.UNFUSED),
        ([("GLU", Fires.YES, "other numbers"), ("QKV", Fires.NO, "")], Outcome.WRONG),
        ([], Outcome.FUSED),
    ],
)
def test_what_fusions_come_to(pairs, expected):
    assert outcome_of(results(*pairs)) is expected


def test_markdown_stays_below_githubs_limit_and_is_escaped():
    remarks = tuple(f"Class_{n}: GLU: a | pipe and <b>" for n in range(30))
    text = render_markdown(of(replace(DRY, outcome=Outcome.UNFUSED, remarks=remarks)))
    assert len(text) < 65_536
    assert r"Class\_0: GLU: a \| pipe and \<b\>" in text
