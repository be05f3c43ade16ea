"""Plans as vLLM reads them: regular expressions, the first that matches the beginning of a path."""

import re

import pytest

from modelcheck.source.classes import ProjectIndex
from modelcheck.source.plans import Entry, Plan, generic_name, tensor_plan
from modelcheck.source.text import parse_text


def test_the_first_match_of_the_beginning_wins():
    made = Plan((Entry("layers.*.mlp.up", "colwise"), Entry("layers.*.mlp.up_proj", "rowwise")))
    assert made.first("layers.0.mlp.up_proj").style == "colwise"
    assert made.meant("layers.0.mlp.up_proj").style == "rowwise"
    assert made.first("layers.0.mlp.down_proj") is None


@pytest.mark.parametrize(
    "key", ["layers.*.mlp", "layers.*.q_proj", "l.yers.0.mlp.up", "layers.*", "layers.*.mlp.up_pro"]
)
@pytest.mark.parametrize("path", ["layers.0.mlp.up_proj", "layers.11.attn.q_proj", "norm"])
def test_it_is_python_own_matching(key, path):
    expected = re.match(f"model.{key}", f"model.{path}") is not None
    assert Entry(key, "colwise").matches(path) is expected


def test_no_regular_expression():
    entry = Entry("layers.**.up", "colwise")
    assert entry.pattern is None
    assert not entry.matches("layers.0.up")
    assert Plan((entry,)).first("anything") is entry


def test_below_an_open_path():
    entry = Entry("layers.*.mlp.up_proj", "colwise")
    assert entry.may_match_below("layers.0.mlp")
    assert entry.may_match_below("")
    assert not entry.may_match_below("layers.0.attn")
    assert not entry.may_match_below("rotary.scale")


def test_generic_names():
    assert generic_name("layers.12.experts.3.w1") == "layers.*.experts.*.w1"


SOURCE = """
class XConfig(PreTrainedConfig):
    base_model_tp_plan = {PLAN}

class XModel(PreTrainedModel):
    _tp_plan = {OWN}
"""


def read(plan_text, own_text, values):
    text = SOURCE.replace("{PLAN}", plan_text).replace("{OWN}", own_text)
    file = ProjectIndex().add(parse_text("modeling_x.py", text))
    return tensor_plan(file.classes["XModel"], file.classes["XConfig"], values)


def test_the_model_s_own_plan_comes_first():
    value = {"b": "rowwise", "a": "replicate"}
    made = read(
        '{"b": "rowwise", "a": "replicate"}', '{"a": "colwise"}', {"base_model_tp_plan": value}
    )
    assert [(e.key, e.style) for e in made.entries] == [("a", "replicate"), ("b", "rowwise")]
    assert made.entries[1].node.lineno == 3


@pytest.mark.parametrize(
    ("plan_text", "own_text", "values"),
    [
        ("make_plan()", "None", {}),
        ("None", "make_plan()", {}),
        ('{"a": "colwise"}', "{**OTHER}", {"base_model_tp_plan": {"a": "colwise"}}),
    ],
)
def test_a_plan_that_cannot_be_told(plan_text, own_text, values):
    assert read(plan_text, own_text, values) is None


def test_no_plan_is_known_to_be_none():
    assert read("None", "None", {}).entries == ()
