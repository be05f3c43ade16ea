"""Attention that is run under another name: a local, an attribute, a method, a choice."""

import re

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import rule_named
from modelcheck.scan import Scanner

WHOLE = re.search(r"```python\n(.*?)```", rule_named("MC807").sections["Use instead"], re.DOTALL)[1]
LOOKUP = "ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)"
INIT = "        self.scaling ="
END = "class MyModel("
METHOD = """    def _attend(self, module, query, key, value, attention_mask, scaling, **kwargs):
        weights = torch.softmax(query @ key.transpose(2, 3) * scaling, dim=-1)
        return (weights @ value).transpose(1, 2), weights


"""
FUSED = "torch.nn.functional.scaled_dot_product_attention"


def model(value, attribute=""):
    assert LOOKUP in WHOLE
    text = WHOLE.replace(LOOKUP, value).replace(END, f"{METHOD}{END}")
    return text.replace(INIT, f"        self.attend = {attribute}\n{INIT}") if attribute else text


def found(tmp_path, text):
    path = tmp_path / "modeling_x.py"
    path.write_text(text)
    findings = Scanner(contract_for(None)).scan([str(path)]).findings
    return [(f.code, f.class_name) for f in findings]


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        ("eager", ""),
        ("self._attend", ""),
        ("self.attend", "eager"),
        ("self.attend", "functools.partial(eager, dropout=0.0)"),
        ("self.attend", FUSED),
        ("self.attend", f"functools.partial({FUSED}, enable_gqa=True)"),
        (FUSED, ""),
        (f"{FUSED} if self.training else eager", ""),
        ("eager if self.training else None", ""),
    ],
)
def test_it_is_attention_that_does_not_dispatch(tmp_path, value, attribute):
    assert found(tmp_path, model(value, attribute)) == [("MC101", "MyAttention")]


def test_the_interface_under_its_local_is_clean(tmp_path):
    assert found(tmp_path, model(LOOKUP)) == []


def test_another_function_under_a_local_is_no_attention(tmp_path):
    text = model("eager").replace("torch.softmax(", "torch.tanh(").replace(", dim=-1", "")
    assert "MC101" not in [code for code, _ in found(tmp_path, text)]


CALLED = "= attend("
KEPT = f"functools.partial({FUSED}, enable_gqa=True)"


def test_a_kernel_that_is_kept_and_called_in_place(tmp_path):
    text = model("eager", KEPT).replace(CALLED, "= self.attend(")
    assert "self.attend(" in text
    assert found(tmp_path, text) == [("MC101", "MyAttention")]


@pytest.mark.parametrize(
    ("kept", "called"),
    [(KEPT, "self.o_proj"), ("functools.partial(torch.add, alpha=2)", "self.attend")],
)
def test_another_kept_function_or_another_call_is_no_attention(tmp_path, kept, called):
    text = model("None", kept).replace(CALLED, f"= {called}(")
    assert f" {called}(" in text
    assert "MC101" not in [code for code, _ in found(tmp_path, text)]
