"""The verdict: one for each repository or lone file and release."""

import json
import shutil

import pytest

from modelcheck.findings import Finding, Severity, Span
from modelcheck.verdict import FileFacts, Outcome, Verdict, judge, lines

MODEL = FileFacts("m.py", holds_model=True)


def finding(severity, code="MC501", name="A", tp_only=False):
    return Finding(code, severity, "m.py", Span(1), name, "m", "a", tp_only=tp_only)


def outcome(*findings, facts=MODEL, doubt=""):
    return judge("m.py", "0.33.0", findings, [facts], doubt)


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], "serves fused"),
        ([finding("info")], "serves fused"),
        ([finding("slow")], "serves, these classes unfused: A (MC501)"),
        (
            [finding("slow"), finding("slow", "MC601", "B"), finding("slow", "MC502")],
            "serves, these classes unfused: A (MC501, MC502), B (MC601)",
        ),
        ([finding("slow"), finding("error", tp_only=True)], "serves only at TP 1: A (MC501)"),
        ([finding("wrong", tp_only=True)], "serves only at TP 1: A (MC501)"),
        ([finding("wrong"), finding("error", tp_only=True)], "wrong output: A (MC501)"),
        ([finding("wrong"), finding("error", "MC306", "")], "refused: MC306"),
    ],
)
def test_the_gravest_finding_decides(findings, expected):
    found = [Finding(**{**vars(f), "severity": Severity(f.severity)}) for f in findings]
    assert outcome(*found).text == expected


def test_what_is_not_known_is_said():
    inherits = FileFacts("m.py", holds_model=True, gap="it inherits")
    assert outcome(facts=inherits).text == "unknown: it inherits"
    assert outcome(doubt="a rule did not run").text == "unknown: a rule did not run"
    refused = outcome(finding(Severity.ERROR), facts=inherits, doubt="a rule did not run")
    assert refused.outcome is Outcome.REFUSED  # what was found is known all the same
    maybe = FileFacts("m.py", holds_model=True, undecided=("A", "B"))
    assert outcome(facts=maybe).outcome is Outcome.UNKNOWN
    found = outcome(finding(Severity.SLOW), facts=maybe)
    assert found.text == "serves, these classes unfused: A (MC501); not known of B"
    helper = FileFacts("helper.py", gap="no model class in this file")
    assert judge("r", "0.33.0", [], [helper, MODEL]).outcome is Outcome.FUSED
    assert judge("r", "0.33.0", [], [helper]).text == "unknown: no model class in this file"


def test_many_models_are_counted_and_several_releases_are_a_table():
    many = [Verdict(f"m{i}", "0.33.0", Outcome.FUSED) for i in range(21)]
    assert lines(many) == ["21 models in vLLM 0.33.0: 21 fused"]
    two = [Verdict("m", "0.32.0", Outcome.REFUSED), Verdict("m", "0.33.0", Outcome.FUSED)]
    assert lines(two)[:2] == ["vLLM  0.32.0   0.33.0", "m     refused  fused"]
    assert lines([]) == []


def verdict_of(result):
    return json.loads(result.stdout)["verdict"]


def test_a_repository_from_refused_to_fused(demo, scan):
    first = scan("demo").stdout.splitlines()[0]
    assert first.startswith("demo: refused: MC306, FenAttention (MC105)")
    assert first.endswith("[vLLM 0.33.0]")
    result = scan("demo", "--fix")
    assert result.stdout.splitlines()[0] == "demo: serves fused [vLLM 0.33.0]"
    assert verdict_of(scan("demo", "--output-format", "json")).startswith("demo: serves fused")


def test_unfused_classes_are_named(demo, scan):
    fixed = ("--fix", "--select", "MC1,MC2,MC3")
    scan("demo", *fixed)
    scan("demo", *fixed)
    assert scan("demo").stdout.splitlines()[0] == (
        "demo: serves, these classes unfused: FenRMSNorm (MC501), FenMLP (MC601) [vLLM 0.33.0]"
    )


def test_what_did_not_run_is_not_called_fused(demo, scan):
    scan("demo", "--fix")
    first = scan("demo", "--ignore", "MC5").stdout.splitlines()[0]
    assert first.startswith("demo: unknown: ")
    assert "rules did not run" in first
    (demo / "modeling_more.py").write_text("def f(:\n")
    assert "modeling_more.py could not be checked" in scan("demo").stdout.splitlines()[0]
    (demo / "modeling_more.py").write_text("import torch\n")
    assert "was not checked" in scan(demo / "modeling_fen.py").stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torch\n", "no model class in this file"),
        (
            "from other import OtherModel\n\n\nclass XModel(OtherModel):\n    pass\n",
            "no model class in this file",
        ),
        (
            "from transformers import PreTrainedModel\nfrom torch import nn\n\n\n"
            "class XModel(PreTrainedModel):\n"
            "    _supports_attention_backend = True\n\n"
            "    def __init__(self, config):\n        super().__init__(config)\n"
            "        self.embed_tokens = nn.Embedding(8, 8)\n        self.post_init()\n\n"
            "    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None,\n"
            "                **kwargs):\n"
            "        return (self.embed_tokens(input_ids),)\n",
            "no attention was found in the source",
        ),
    ],
)
def test_a_file_that_does_not_tell(project, scan, text, words):
    (project / "modeling_x.py").write_text(text)
    result = scan("modeling_x.py")
    assert result.stdout.splitlines()[0] == f"modeling_x.py: unknown: {words} [vLLM 0.33.0]"


def test_each_release_has_a_column_and_each_finding_its_releases(demo, scan):
    result = scan("demo", "--vllm", "0.33,0.29", "--output-format", "json")
    data = json.loads(result.stdout)
    assert [v["vllm"] for v in data["verdicts"]] == ["0.29.0", "0.33.0"]
    releases = {(f["code"], f["line"], f["severity"]): f["releases"] for f in data["findings"]}
    assert len(releases) == len(data["findings"])  # each finding once
    for release in ("0.29.0", "0.33.0"):
        alone = json.loads(scan("demo", "--vllm", release, "--output-format", "json").stdout)
        assert {(f["code"], f["line"], f["severity"]) for f in alone["findings"]} == {
            key for key, where in releases.items() if release in where
        }
    text = scan("demo", "--vllm", "0.29,0.33").stdout
    assert text.splitlines()[:2] == ["vLLM  0.29.0   0.33.0", "demo  refused  refused"]
    assert "[vLLM 0.29.0]" in text


def test_the_exit_status_is_that_of_the_worst_release(demo, scan):
    assert scan("demo", "--select", "MC201", "--vllm", "0.33").status == 0
    assert scan("demo", "--select", "MC201", "--vllm", "0.33,0.29").status == 1


def test_a_comment_that_one_release_needs_is_not_unused(demo, scan):
    path = demo / "modeling_fen.py"
    old = "x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)"
    new = "x * (x.pow(2).mean(-1, keepdim=True) + self.eps) ** -0.5  # modelcheck: ignore[MC501]"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert "MC001" not in scan("demo", "--vllm", "0.29").stdout
    assert "MC001" in scan("demo", "--vllm", "0.33").stdout
    assert "MC001" not in scan("demo", "--vllm", "0.29,0.33").stdout


def test_a_modular_file_beside_what_is_generated_from_it_has_no_verdict(bad, scan):
    shutil.copy(bad, "modular_bad.py")
    data = json.loads(scan(".", "--output-format", "json").stdout)
    assert [v["name"] for v in data["verdicts"]] == ["modeling_bad.py"]
