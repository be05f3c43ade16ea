"""The counting behind benchmarks/accuracy.py: what is right, wrong, unknown and mixed."""

import sys
from pathlib import Path

import pytest

from modelcheck.findings import Span
from modelcheck.fusers.results import Fires, FusionResult

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import accuracy

del sys.path[0]


def record(vllm, apart=None):
    return {"file": "a.py", "class_name": "A", "vllm": vllm, "apart": apart or {}}


def guess(fires, becomes="", reason="why"):
    return FusionResult("GLU", fires, "A", reason, becomes, span=Span(7))


@pytest.mark.parametrize(
    ("answers", "fires", "column"),
    [
        (["yes gate=0 up=1"], Fires.YES, "right yes"),
        (["no"], Fires.NO, "right no"),
        (["no"], Fires.YES, "wrong yes"),
        (["yes gate=0 up=1"], Fires.NO, "wrong no"),
        (["yes gate=0 up=1"], Fires.UNKNOWN, "unknown"),
        (["no", "yes gate=0 up=1"], Fires.YES, "mixed"),
        (["yes gate=0", "yes gate=0 output=down"], Fires.YES, "right yes"),
        (["crash"], Fires.NO, "right no"),
        (["crash"], Fires.YES, "wrong yes"),
    ],
)
def test_predicted(answers, fires, column):
    (verdict,) = accuracy.judge_predicted(record({"GLU": answers}), {"GLU": [guess(fires)]})
    assert (verdict.fuser, verdict.column) == ("GLU", column)


def test_predicted_without_a_result():
    missing = record({"GLU": ["yes"], "QKV": ["no"]})
    assert [v.column for v in accuracy.judge_predicted(missing, {})] == ["wrong no", "right no"]
    assert [v.column for v in accuracy.judge_predicted(missing, None)] == ["unknown"] * 2


def test_predicted_routing():
    block = {"MoEBlock": ["internal gate softmax"]}
    inside = guess(Fires.YES, "MoERunner (internal routing)")
    outside = guess(Fires.YES, "MoERunner (external routing)")
    for result, column in ((inside, "right yes"), (outside, "wrong yes")):
        (verdict,) = accuracy.judge_predicted(record(block), {"MoEBlock": [result]})
        assert verdict.column == column


def test_a_disagreement_says_where():
    (verdict,) = accuracy.judge_predicted(record({"GLU": ["no"]}), {"GLU": [guess(Fires.YES)]})
    assert verdict.where == "a.py A:7 GLU: vLLM no, predicted yes (why)"


def test_traced():
    apart = {"QKV": ["llama layers.0: vLLM no, traced yes"]}
    verdicts = accuracy.judge_traced(
        record({"GLU": ["yes"], "QKV": ["no"], "RMSNorm": ["no"], "MLA": ["no", "yes"]}, apart)
    )
    assert [(v.fuser, v.column) for v in verdicts] == [
        ("GLU", "right yes"),
        ("QKV", "wrong yes"),
        ("RMSNorm", "right no"),
        ("MLA", "right yes"),
    ]


def test_classes_are_merged_over_types():
    first = record({"GLU": ["no"]})
    second = record({"GLU": ["yes"], "QKV": ["no"]}, {"GLU": ["x: vLLM yes, traced no"]})
    (whole,) = accuracy.merged([first, second])
    assert whole["vllm"] == {"GLU": ["no", "yes"], "QKV": ["no"]}
    assert whole["apart"] == second["apart"]
    assert first["vllm"] == {"GLU": ["no"]}


def test_shares():
    found = accuracy.figures(
        [record({"GLU": ["yes"], "QKV": ["no"], "MLA": ["no"], "RMSNorm": ["no", "yes"]})],
        {("a.py", "A"): {"GLU": [guess(Fires.NO)], "QKV": [guess(Fires.UNKNOWN)]}},
    )
    shares = found["predicted"]["shares"]
    assert shares == {"right": 1 / 3, "wrong": 1 / 3, "unknown": 1 / 3}
    assert found["predicted"]["table"]["all"]["mixed"] == 1
    assert found["traced"]["shares"]["right"] == 1
