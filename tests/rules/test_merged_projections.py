"""MC604, MC704 and MC705: what surrounds projections that vLLM merges; and why others miss."""

from __future__ import annotations

import re
import textwrap

import pytest

from modelcheck.findings import Finding, Severity
from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import Context, all_rules, rule_named
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.text import parse_text

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def example(code: str) -> str:
    found = BLOCK.search(rule_named(code).sections["Example"])
    assert found is not None
    return found[1]


def changed(text: str, old: str, new: str) -> str:
    assert old in text, old
    return text.replace(old, new)


def findings(code: str, text: str, vllm: str = "0.33") -> list[Finding]:
    file = ProjectIndex().add(parse_text("modeling_x.py", text))
    return list(rule_named(code).check(Context(file, None, contract_for(vllm))))


def test_a_decorator_that_casts_is_lost() -> None:
    (finding,) = findings("MC604", example("MC604"))
    assert (finding.class_name, finding.severity) == ("ToyMLP", Severity.WRONG)
    autocast = changed(example("MC604"), "@in_float32", '@torch.autocast("cuda")')
    assert len(findings("MC604", f"import torch\n{autocast}")) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return function(self, x.float()).to(x.dtype)", "return function(self, x)"),
        ("    @functools.wraps(function)\n", ""),  # then vLLM cannot see the forward at all
        ("self.act_fn(self.gate_proj(x)) * self.up_proj(x)", "self.gate_proj(x)"),  # not merged
    ],
)
def test_decorators_without_effect_and_forwards_as_they_are(old: str, new: str) -> None:
    assert findings("MC604", changed(example("MC604"), old, new)) == []


def test_three_projections_that_are_no_attention() -> None:
    (finding,) = findings("MC704", example("MC704"))
    assert (finding.class_name, finding.severity, finding.tp_only) == (
        "ToyMixer",
        Severity.INFO,
        True,
    )
    assert findings("MC704", changed(example("MC704"), "self.gamma(hidden", "self.o(hidden")) == []


def test_a_merged_projection_read_by_a_parent_or_a_helper() -> None:
    (finding,) = findings("MC705", example("MC705"))
    assert (finding.class_name, finding.severity) == ("ToyBlock", Severity.ERROR)
    helper = changed(
        example("MC705"),
        "    def forward(self, x):\n        return self.down_proj(",
        "    def ready(self, x):\n        return x.to(self.up_proj.weight.dtype)\n\n"
        "    def forward(self, x):\n        x = self.ready(x)\n        return self.down_proj(",
    )
    assert {f.class_name for f in findings("MC705", helper)} == {"ToyBlock", "ToyMLP"}


def test_initialisation_may_name_what_is_merged() -> None:
    text = changed(
        example("MC705"),
        "        hidden_states = hidden_states.to(self.mlp.gate_proj.weight.dtype)\n",
        "",
    )
    init = text + "\n    def _init_weights(self):\n        self.mlp.gate_proj.weight.data.zero_()\n"
    assert findings("MC705", init) == []


ATTENTION = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.head_dim = config.head_dim
        width = config.num_attention_heads * config.head_dim
        self.norm = nn.LayerNorm(config.hidden_size)
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias={k_bias})
        self.v_proj = nn.Linear(config.hidden_size, {v_width}, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    {signature}
        {before}
        q = self.q_proj({name})
        k = self.k_proj({name})
        v = self.v_proj({name})
        return self.o_proj(q + k * v)
"""


def attention(
    before: str = "pass",
    name: str = "hidden_states",
    k_bias: str = "False",
    v_width: str = "width",
    signature: str = "def forward(self, hidden_states, output_attentions=False, **kwargs):",
) -> str:
    return ATTENTION.format(
        before=textwrap.indent(before, " " * 8).strip(),
        name=name,
        k_bias=k_bias,
        v_width=v_width,
        signature=signature,
    )


SPLAT = "shape = (*x.shape[:-1], -1, self.head_dim)"


@pytest.mark.parametrize(
    ("row", "text", "cause"),
    [
        (
            "S4",
            attention(SPLAT, "x", signature="def forward(self, x, **kwargs):"),
            "hidden_states",
        ),
        ("S5", attention("if output_attentions:\n    raise ValueError"), "a branch depends on"),
        (
            "S6",
            attention("hidden_states = self.norm(hidden_states)"),
            "not an input of the forward",
        ),
        ("S10", attention(k_bias="True"), "bias"),
        ("S11", attention("super().extra_repr()"), "super"),
        ("S11", attention("self.__done = True"), "__done"),
    ],
)
def test_the_message_names_what_keeps_projections_apart(row: str, text: str, cause: str) -> None:
    (finding,) = findings("MC701", text)
    assert finding.severity is Severity.SLOW
    assert cause in finding.message, (row, finding.message)


def test_examples_of_other_families_stay_silent() -> None:
    for rule in all_rules():
        if rule.family in ("glu", "norms", "qkv") and rule.code not in ("MC604", "MC704", "MC705"):
            fixed = BLOCK.search(rule.sections["Use instead"])
            assert fixed is not None
            for code in ("MC604", "MC704", "MC705"):
                assert findings(code, fixed[1]) == []


def test_two_groups_of_projections() -> None:
    (finding,) = findings("MC605", example("MC605"))
    assert (finding.class_name, finding.severity) == ("ToyMixer", Severity.INFO)
    assert findings("MC605", example("MC605"), "0.29") == []  # nothing was merged then
    assert findings("MC605", changed(example("MC605"), "self.d(residual)", "residual")) == []
