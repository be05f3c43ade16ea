"""MC501 to MC703: norms, gated MLPs and projections that a fuser misses, and near misses."""

from __future__ import annotations

import textwrap

import pytest

from modelcheck.findings import Finding
from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import Context, all_rules
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.text import parse_text

FUSION_FAMILIES = ("norms", "glu", "qkv")
MERGED_ELSEWHERE = "MC704"  # speaks of what is fused: test_merged_projections
HEAD = """
import torch
import torch.nn.functional as F
from torch import nn
from transformers.activations import ACT2FN
"""
NORM = """
class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward({signature}):
        {body}
"""
MLP = """
class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias={up_bias})
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = {activation}

    def forward(self, x):
        {body}
"""
ATTENTION = """
class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim = config.head_dim
        self.norm = nn.LayerNorm(config.hidden_size)
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * config.head_dim)
        self.k_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * config.head_dim)
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * config.head_dim)
        self.o_proj = nn.Linear(config.num_attention_heads * config.head_dim, config.hidden_size)

    def forward(self, {parameter}, output_attentions=False, **kwargs):
        {body}
"""


def found(text: str, vllm: str = "0.33") -> list[Finding]:
    """Findings of the fusion families on what is not fused."""
    file = ProjectIndex().add(parse_text("modeling_x.py", HEAD + text))
    context = Context(file, None, contract_for(vllm))
    families = [rule for rule in all_rules() if rule.family in FUSION_FAMILIES]
    rules = [rule for rule in families if rule.code != MERGED_ELSEWHERE]
    return [finding for rule in rules for finding in rule.check(context)]


def codes(text: str, vllm: str = "0.33") -> list[str]:
    return [finding.code for finding in found(text, vllm)]


def norm(body: str, signature: str = "self, x") -> str:
    return NORM.format(signature=signature, body=textwrap.indent(body, " " * 8).strip())


def mlp(body: str, activation: str = 'ACT2FN["silu"]', up_bias: str = "False") -> str:
    text = textwrap.indent(body, " " * 8).strip()
    return MLP.format(body=text, activation=activation, up_bias=up_bias)


def attention(body: str, parameter: str = "hidden_states") -> str:
    return ATTENTION.format(body=textwrap.indent(body, " " * 8).strip(), parameter=parameter)


MEAN = "x.pow(2).mean(-1, keepdim=True)"


@pytest.mark.parametrize(
    ("body", "fixable"),
    [
        (f"return self.weight * (x / torch.sqrt({MEAN} + self.eps))", True),
        (f"return self.weight * (x * (1 / torch.sqrt({MEAN} + self.eps)))", True),
        (f"return self.weight * (x * ({MEAN} + self.eps) ** 0.5)", True),
        (
            "y = x.type(torch.float32)\nv = y.pow(2).mean(-1, keepdim=True)\n"
            "return self.weight * (y * torch.rsqrt(v + self.eps))",
            True,
        ),
        (f"return self.weight * (x * torch.rsqrt({MEAN} + self.eps)) + 1", False),
        (f"return self.weight * (x * torch.rsqrt({MEAN}))", False),
    ],
)
def test_a_norm_in_another_spelling_is_found(body: str, fixable: bool) -> None:
    findings = found(norm(body))
    assert [f.code for f in findings] == ["MC501"]
    assert (findings[0].fix is not None) == fixable


@pytest.mark.parametrize(
    "body",
    [
        f"return self.weight * (x * torch.rsqrt({MEAN} + self.eps))",
        f"return (1.0 + self.weight) * (x * torch.rsqrt({MEAN} + self.eps))",
        "return x * torch.rsqrt(self.eps + (x * x).mean(-1, keepdim=True)) * self.weight",
        "return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)",
        # no norm at all
        "return torch.sqrt(x) * self.weight",
        "return x.mean(-1, keepdim=True) * self.weight",
        "return F.layer_norm(x, (x.shape[-1],), self.weight)",
    ],
)
def test_a_recognised_norm_and_no_norm_are_silent(body: str) -> None:
    assert codes(norm(body)) == []


def test_a_root_as_a_power_is_recognised_since_0_31() -> None:
    body = f"return self.weight * (x * ({MEAN} + self.eps) ** -0.5)"
    assert [codes(norm(body), vllm) for vllm in ("0.30", "0.31")] == [["MC501"], []]


def test_a_second_input_is_reported_without_a_fix() -> None:
    body = f"return self.weight * ((x + residual) * torch.rsqrt({MEAN} + self.eps))"
    (finding,) = found(norm(body, "self, x, residual"))
    assert (finding.code, finding.fix) == ("MC501", None)
    assert "residual" in finding.message


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))", "MC601"),
        ("return self.down_proj(torch.sigmoid(self.gate_proj(x)) * self.up_proj(x))", "MC601"),
        (
            "g = self.act_fn(self.gate_proj(x))\nu = self.up_proj(x)\nreturn self.down_proj(g * u)",
            "MC602",
        ),
        (
            "return self.down_proj(torch.mul(self.act_fn(self.gate_proj(x)), self.up_proj(x)))",
            "MC602",
        ),
        (
            "x = x.to(self.gate_proj.weight.dtype)\n"
            "return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
            "MC603",
        ),
    ],
)
def test_a_gated_mlp_that_misses_is_found(body: str, code: str) -> None:
    assert codes(mlp(body)) == [code]


CANONICAL = "return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"


def test_an_activation_without_a_kernel_and_a_lone_bias_are_found() -> None:
    assert codes(mlp(CANONICAL, activation='ACT2FN["relu"]')) == ["MC603"]
    assert codes(mlp(CANONICAL, up_bias="True")) == ["MC603"]


@pytest.mark.parametrize(
    "body",
    [
        CANONICAL,
        "return self.down_proj(self.up_proj(x) * self.act_fn(self.gate_proj(x)))",
        "y = self.act_fn(self.gate_proj(x)) * self.up_proj(x)\nreturn self.down_proj(y)",
        # not gated
        "return self.down_proj(self.act_fn(self.gate_proj(x)))",
        "return self.down_proj(self.gate_proj(x) + self.up_proj(x))",
    ],
)
def test_a_fused_or_plain_mlp_is_silent(body: str) -> None:
    assert codes(mlp(body)) == []


SHAPE = "shape = (*hidden_states.shape[:-1], -1, self.head_dim)\n"
TAIL = "return self.o_proj(q + (k * v).sum())"


def qkv(q: str, before: str = "", between: str = "") -> str:
    return (
        f"{before}q = {q}\n{between}k = self.k_proj(hidden_states)\n"
        f"v = self.v_proj(hidden_states)\n{TAIL}"
    )


@pytest.mark.parametrize(
    "body",
    [
        qkv("self.q_proj(hidden_states) * 0.5"),
        qkv("self.q_proj(hidden_states)", before="hidden_states = self.norm(hidden_states)\n"),
        qkv("self.q_proj(hidden_states)", before="if output_attentions:\n    raise ValueError\n"),
        qkv("self.q_proj(hidden_states)", between="hidden_states = hidden_states.clone()\n"),
        qkv("self.q_proj(hidden_states)", before="dtype = self.q_proj.weight.dtype\n"),
    ],
)
def test_projections_that_stay_apart_are_found(body: str) -> None:
    assert codes(attention(body)) == ["MC701"]


@pytest.mark.parametrize(
    "body",
    [
        qkv("self.q_proj(hidden_states)"),
        qkv("self.q_proj(hidden_states).view(shape).transpose(1, 2)", before=SHAPE),
        qkv("self.q_proj(hidden_states)") + "\n",
        # two projections are no query, key and value
        "q = self.q_proj(hidden_states)\nreturn self.o_proj(q)",
    ],
)
def test_merged_projections_and_others_are_silent(body: str) -> None:
    assert codes(attention(body)) == []


def test_a_scaled_projection_was_merged_up_to_0_29() -> None:
    text = attention(qkv("torch.tanh(self.q_proj(hidden_states))"))
    assert [codes(text, vllm) for vllm in ("0.29", "0.30")] == [[], ["MC701"]]


def test_an_input_of_unknown_shape_is_named_as_the_cause() -> None:
    body = (
        "shape = (*x.shape[:-1], -1, self.head_dim)\nq = self.q_proj(x).view(shape)\n"
        "k = self.k_proj(x).view(shape)\nv = self.v_proj(x).view(shape)\n" + TAIL
    )
    (finding,) = found(attention(body, parameter="x"))
    assert finding.code == "MC701"
    assert "hidden_states" in finding.message
