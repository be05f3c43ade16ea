"""MC913: a head that only transformers 4's default tied, in whole repositories."""

import json

import pytest

from modelcheck.rules.base import rule_named
from modelcheck.scan import Scanner, Selection

CODE = rule_named("MC913").sections["Example"].partition("```python\n")[2].partition("```")[0]
CONFIG = {
    "architectures": ["MyForCausalLM"],
    "model_type": "mine",
    "auto_map": {"AutoConfig": "modeling_mine.MyConfig"},
}


@pytest.fixture
def scan(tmp_path):
    """``scan(code, keys, **changes)``: a repository with this code, checkpoint and config.json."""

    def run(code=CODE, keys=None, **changes):
        (tmp_path / "modeling_mine.py").write_text(code)
        (tmp_path / "config.json").write_text(json.dumps(CONFIG | changes))
        if keys is not None:
            index = {"weight_map": dict.fromkeys(keys, "model.safetensors")}
            (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        return Scanner(selection=Selection(select=("MC913",))).scan([str(tmp_path)]).findings

    return run


def test_config_json_can_say_it(scan):
    (finding,) = scan()
    assert (finding.severity, finding.class_name) == ("wrong", "MyForCausalLM")
    assert finding.path.endswith("config.json")
    assert finding.fix.fixer == "config_fields"
    assert json.loads(finding.fix.data["fields"]) == {"tie_word_embeddings": True}


@pytest.mark.parametrize("value", [True, False])
def test_it_is_said(scan, value):
    assert scan(tie_word_embeddings=value) == ()
    assert scan(text_config={"tie_word_embeddings": value}) == ()


def test_a_checkpoint_with_the_head_s_weight(scan):
    keys = ["model.embed_tokens.weight"]
    assert len(scan(keys=keys)) == 1
    assert scan(keys=[*keys, "lm_head.weight"]) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("PretrainedConfig", "PreTrainedConfig"),  # written for transformers 5
        ("vocab_size=64,", "vocab_size=64, tie_word_embeddings=True,"),
        ('{"lm_head.weight": "model.embed_tokens.weight"}', "{}"),
        ('"lm_head.weight"', '"cls.decoder.weight"'),
        ("nn.Linear(", "Head("),
    ],
)
def test_nothing_is_lost(scan, old, new):
    code = CODE.replace(old, new)
    assert code != CODE
    if "tie_word" in new:
        code = code.replace("super().__init__(**", "super().__init__(tie_word_embeddings=True, **")
    assert scan(code) == ()


def test_a_list_of_transformers_4(scan):
    code = CODE.replace('{"lm_head.weight": "model.embed_tokens.weight"}', '["lm_head.weight"]')
    assert len(scan(code)) == 1
