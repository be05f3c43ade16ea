"""The mixture-of-experts rules (MC4xx) on small models."""

import pytest

from modelcheck.findings import Severity

GOOD = "experts_not_replaceable/good"
CALL = "self.experts(flat, ids, weights)"


@pytest.mark.parametrize("code", ["MC401", "MC402"])
def test_a_compliant_block_is_clean(lint, fixture_text, code):
    assert lint(code, fixture_text(GOOD)) == []


def test_experts_under_another_name(lint, fixture_text):
    (finding,) = lint("MC401", fixture_text("experts_not_replaceable/bad"))
    assert (finding.class_name, finding.severity) == ("OleaMLP", Severity.SLOW)
    assert "expert_mlps" in finding.message


def test_packed_experts_under_another_name(lint, fixture_text):
    text = fixture_text(GOOD).replace("self.experts", "self.specialists")
    (finding,) = lint("MC401", text)
    assert (finding.severity, "specialists" in finding.message) == (Severity.SLOW, True)


def test_a_loop_over_experts_fails(lint, fixture_text):
    text = fixture_text("experts_not_replaceable/bad").replace("expert_mlps", "experts")
    (finding,) = lint("MC401", text)
    assert (finding.class_name, finding.severity) == ("OleaMLP", Severity.ERROR)
    indexed = text.replace(
        "for index, expert in enumerate(self.experts):", "for index in range(4):"
    )
    indexed = indexed.replace("expert(flat[token])", "self.experts[index](flat[token])")
    assert [f.severity for f in lint("MC401", indexed)] == [Severity.ERROR]


def test_a_bias_keeps_packed_experts_from_being_replaced(lint, fixture_text):
    old = "self.act_fn = ACT2FN"
    text = fixture_text(GOOD)
    head, tail = text.split("class OleaExperts")
    bias = "self.bias = nn.Parameter(torch.empty(count, hidden))\n        " + old
    text = head + "class OleaExperts" + tail.replace(old, bias, 1)
    (finding,) = lint("MC401", text)
    assert (finding.severity, "experts has bias" in finding.message) == (Severity.SLOW, True)


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("self.experts(flat, weights)", 1),
        ("self.experts(flat, ids, weights, None)", 1),
        ("self.experts(flat, ids, weights, scale=1.0)", 0),  # more keywords are ignored
        ("self.experts(*arguments)", 0),
    ],
)
def test_arguments_of_the_experts(lint, fixture_text, call, count):
    text = fixture_text(GOOD)
    assert CALL in text
    found = lint("MC401", text.replace(CALL, call))
    assert [f.severity for f in found] == [Severity.ERROR] * count


def test_a_list_subclass_with_its_own_forward_is_fine(lint):
    text = """
from torch import nn
class Experts(nn.ModuleList):
    def forward(self, x, index, weights):
        return sum(e(x) for e in self)
class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = Experts([nn.Linear(8, 8) for _ in range(4)])
    def forward(self, x):
        weights, index = self.gate(x).topk(2)
        return self.experts(x, index, weights)
"""
    assert lint("MC401", text) == []
    assert [f.severity for f in lint("MC402", text)] == [Severity.INFO]


def test_a_router_in_the_block(lint, fixture_text):
    (finding,) = lint("MC402", fixture_text("router_in_block/bad"))
    assert (finding.class_name, finding.severity) == ("OleaMLP", Severity.INFO)
    assert lint("MC402", fixture_text("router_in_block/good")) == []
    (finding,) = lint("MC402", fixture_text("experts_not_replaceable/bad"))
    assert finding.severity is Severity.SLOW  # the experts are not replaced either


def test_a_top_k_that_routes_to_no_experts_is_no_block(lint):
    text = """
from torch import nn
class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)
        self.norms = nn.ModuleList([nn.LayerNorm(8) for _ in range(2)])
    def forward(self, x):
        for norm in self.norms:
            x = norm(x)
        return self.head(x).topk(2)
"""
    assert lint("MC401", text) == lint("MC402", text) == []
