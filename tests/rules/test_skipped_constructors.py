"""A constructor that names a class further up skips its parent's."""

import re

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import rule_named
from modelcheck.scan import Scanner

WHOLE = re.search(r"```python\n(.*?)```", rule_named("MC807").sections["Use instead"], re.DOTALL)[1]
INIT = WHOLE[WHOLE.index("        self.head_dim =") : WHOLE.index("\n    def forward")]
MODEL = WHOLE[WHOLE.index("        self.embed_tokens =") : WHOLE.index("        self.post_init()")]


def heir(name, arguments, call, body):
    """The whole model with a subclass, which the model uses, of one of its classes."""
    text = WHOLE.replace(f"class {name}(", "class Parent(", 1)
    made = f"class {name}(Parent):\n    def __init__(self, {arguments}):\n        {call}\n{body}"
    before = "class MyModel(" if name == "MyAttention" else "def eager("
    return text.replace(before, f"{made}\n\n{before}", 1)


def codes(tmp_path, text):
    path = tmp_path / "modeling_x.py"
    path.write_text(text)
    findings = Scanner(contract_for(None)).scan([str(path)]).findings
    return [(f.code, f.class_name) for f in findings]


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        ("nn.Module.__init__(self)", ["MC107", "MC108"]),
        ("nn.Module.__init__(self)\n        self.config = config", ["MC108"]),
        ("super(MyAttention, self).__init__(config, layer_idx)", []),
        ("super().__init__(config, layer_idx)", []),
        ("Parent.__init__(self, config, layer_idx)", []),
    ],
)
def test_an_attention(tmp_path, call, missing):
    text = heir("MyAttention", "config, layer_idx", call, INIT)
    assert codes(tmp_path, text) == [(code, "MyAttention") for code in missing]


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        ("PreTrainedModel.__init__(self, config)", ["MC906"]),
        ("Parent.__init__(self, config)", []),
        ("super().__init__(config)", []),
    ],
)
def test_a_model(tmp_path, call, missing):
    text = heir("MyModel", "config", call, MODEL)
    assert codes(tmp_path, text) == [(code, "MyModel") for code in missing]
