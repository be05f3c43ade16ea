"""MC701's fix for an attention that is given its input once for each projection."""

import pytest

import fixers
from modelcheck.rules.base import rule_named

SAME = "normed, normed, normed, attention_mask"
GOOD = rule_named("MC701").sections["Use instead"].partition("```python\n")[2].partition("```")[0]
LAYER = f"""

class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.attention = ToyAttention(config, layer_idx)
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        normed = self.norm(hidden_states)
        return hidden_states + self.attention({SAME}, **kwargs)[0]
"""


def code(given=SAME):
    text = GOOD.replace("hidden_states, attention_mask=None", "v, k, q, attention_mask=None")
    text = text.replace("hidden_states.shape", "q.shape")
    for name in "vkq":
        text = text.replace(f"self.{name}_proj(hidden_states)", f"self.{name}_proj({name})")
    return text + LAYER.replace(SAME, given)


def test_the_text_is_good_with_one_input(lint):
    assert lint("MC701", GOOD + LAYER.replace(SAME, "normed, attention_mask")) == []


def test_one_value_for_all(lint):
    (finding,) = lint("MC701", code())
    assert (finding.fix.fixer, finding.fix.safety) == ("one_input", "unsafe")
    fixed = fixers.load("one_input").fix(code(), finding)
    assert "self.attention(normed, attention_mask, **kwargs)" in fixed
    assert lint("MC701", fixed) == []


@pytest.mark.parametrize(
    "given",
    [
        "normed, normed, hidden_states, attention_mask",
        "normed, k=normed, q=normed, attention_mask=attention_mask",
        "self.norm(normed), normed, normed, attention_mask",
    ],
)
def test_not_one_value(lint, given):
    (finding,) = lint("MC701", code(given))
    assert finding.fix is None


def test_nothing_calls_it(lint):
    (finding,) = lint("MC701", code().removesuffix(LAYER))
    assert finding.fix is None
