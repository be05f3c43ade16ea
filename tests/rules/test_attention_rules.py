"""The attention rules (MC1xx) on small models and on the models of transformers."""

import importlib.util
from pathlib import Path

import pytest

from modelcheck.findings import Severity
from modelcheck.rules.base import all_rules

GOOD = "unresolvable_scaling/good"
LOOKUP = """attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention
        )
"""
CALL = """out, weights = attention_interface(
            self, query, key, value, attention_mask, scaling=self.scaling, dropout=0.0, **kwargs
        )
"""
# Dense, windowed, soft-capped, with sinks, with experts, with latent attention.
COMPLIANT = """
apertus arcee cohere deepseek_v3 ernie4_5 exaone4 gemma gemma2 gemma3 glm4_moe gpt_oss granite
helium hunyuan_v1_dense llama mistral mixtral olmo2 olmoe phi3 qwen2 qwen3 qwen3_moe seed_oss
smollm3 starcoder2
"""
OURS = [r.code for r in all_rules() if r.family in ("attention", "threading", "moe")]


def models_folder() -> Path | None:
    spec = importlib.util.find_spec("transformers")
    return Path(spec.origin).parent / "models" if spec and spec.origin else None


def edited(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


BAD = {
    "MC101": ("attention_not_dispatched", "BirchAttention", Severity.ERROR),
    "MC102": ("attention_class_table", "CedarDecoderLayer", Severity.ERROR),
    "MC103": ("interface_form_not_recognised", "AlderAttention", Severity.ERROR),
    "MC104": ("subscript_interface_lookup", "DogwoodAttention", Severity.SLOW),
    "MC105": ("unresolvable_scaling", "AlderAttention", Severity.ERROR),
    "MC106": ("unresolvable_sinks", "FusticAttention", Severity.ERROR),
    "MC107": ("attention_without_config", "BalsaAttention", Severity.ERROR),
    "MC108": ("attention_without_layer_idx", "BalsaAttention", Severity.ERROR),
    "MC109": ("encoder_without_is_causal", "SorbusAttention", Severity.WRONG),
    "MC110": ("mask_carries_bias", "RowanAttention", Severity.WRONG),
}


@pytest.mark.parametrize("code", BAD)
def test_fires_on_the_bad_model_only(lint, fixture_text, code):
    stem, class_name, severity = BAD[code]
    (finding,) = lint(code, fixture_text(f"{stem}/bad"))
    assert (finding.class_name, finding.severity) == (class_name, severity)
    assert lint(code, fixture_text(f"{stem}/good")) == []


@pytest.mark.parametrize("code", [c for c in OURS if c.startswith("MC1")])
def test_a_compliant_model_is_clean(lint, fixture_text, code):
    assert lint(code, fixture_text(GOOD)) == []


def test_every_class_of_a_table_is_said_to_come_from_it(lint, fixture_text):
    found = lint("MC101", fixture_text("attention_class_table/bad"))
    assert [f.class_name for f in found] == ["CedarAttention", "CedarSdpaAttention"]
    assert all("class table Cedar_ATTENTION_CLASSES and never reaches" in f.message for f in found)


def test_to_029_undispatched_attention_is_wrong_not_refused(lint, fixture_text):
    (finding,) = lint("MC101", fixture_text("attention_not_dispatched/bad"), "0.29")
    assert finding.severity is Severity.WRONG


def test_kernels_and_helpers_count_as_attention_in_place(lint, fixture_text):
    text = fixture_text(GOOD)
    for core in (
        "out, weights = flash_attn_func(query, key, value), None\n",
        "out, weights = eager_attention(self, query, key, value, attention_mask, self.scaling)\n",
    ):
        (finding,) = lint("MC101", edited(text, (LOOKUP, "pass\n"), (CALL, core)))
        assert finding.class_name == "AlderAttention"


def test_towers_and_cross_attention_may_compute_in_place(lint, fixture_text):
    text = fixture_text("attention_not_dispatched/bad")
    assert lint("MC101", text.replace("BirchAttention", "BirchCrossAttention")) == []
    tower = text.replace("input_ids", "pixel_values").replace("past_key_values", "states")
    assert lint("MC101", tower) == []


def test_inline_attention_beside_a_dispatching_one_is_left_alone(lint, fixture_text):
    text = fixture_text(GOOD)
    pool = """class AlderPool(nn.Module):
    def forward(self, query, past_key_values=None):
        return torch.softmax(torch.matmul(query, query.mT), -1) @ query


class AlderDecoderLayer(nn.Module):"""
    text = edited(
        text,
        ("class AlderDecoderLayer(nn.Module):", pool),
        (
            "self.mlp = AlderMLP(config)",
            "self.mlp = AlderMLP(config)\n        self.pool = AlderPool()",
        ),
    )
    assert lint("MC101", text) == []


TABLE = """
from torch import nn
from transformers.models.llama.modeling_llama import LlamaAttention
CLASSES = {"eager": LlamaAttention}
class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = %s(config, layer_idx)
"""


@pytest.mark.parametrize(
    ("lookup", "severity"),
    [
        ("CLASSES[config._attn_implementation]", Severity.ERROR),
        ('CLASSES[getattr(config, "_attn_implementation", "eager")]', Severity.ERROR),
        ("CLASSES.get(config._attn_implementation)", Severity.ERROR),
        ("CLASSES.get(config._attn_implementation, LlamaAttention)", Severity.INFO),
    ],
)
def test_ways_to_look_a_class_up(lint, lookup, severity):
    (finding,) = lint("MC102", TABLE % lookup)
    assert (finding.class_name, finding.severity) == ("ToyLayer", severity)


@pytest.mark.parametrize(
    "lookup", ["CLASSES[config.hidden_act]", "MASKS[config._attn_implementation]"]
)
def test_other_tables_are_not_attention_tables(lint, lookup):
    assert lint("MC102", TABLE % lookup + "\nMASKS = {'eager': 1}") == []


GET = "ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention)"
IMPORT = "from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS\n"


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (
            [(LOOKUP, f"attention_interface = {GET} if self.training else eager_attention\n")],
            "cond",
        ),
        ([(LOOKUP, f"self.fn = {GET}\n"), ("= attention_interface(", "= self.fn(")], "on self"),
        ([(LOOKUP, "pass\n"), ("= attention_interface(", f"= {GET}(")], "directly"),
        ([(LOOKUP, f"if (attention_interface := {GET}):\n            pass\n")], ":="),
        (
            [
                (IMPORT, IMPORT.replace("\n", " as FUNCTIONS\n")),
                (LOOKUP, LOOKUP.replace("ALL_ATTENTION_FUNCTIONS", "FUNCTIONS")),
            ],
            "alias FUNCTIONS",
        ),
        (
            [
                (IMPORT, "from transformers import modeling_utils\n"),
                (LOOKUP, LOOKUP.replace("ALL_", "modeling_utils.ALL_")),
            ],
            "through its module",
        ),
        ([(CALL, CALL + "        " + CALL)], "2 times"),
        (
            [
                (LOOKUP, "attention_interface = self.pick()\n"),
                (
                    "\n\nclass AlderDecoderLayer(",
                    f"    def pick(self):\n        return {GET}\n\n\nclass AlderDecoderLayer(",
                ),
            ],
            "method pick",
        ),
    ],
    ids=["ternary", "self", "direct", "walrus", "alias", "qualified", "twice", "helper"],
)
def test_forms_that_vllm_does_not_recognise(lint, fixture_text, pairs, words):
    text = edited(fixture_text(GOOD), *pairs)
    (finding,) = lint("MC103", text)
    assert finding.severity is Severity.ERROR
    assert words in finding.message
    assert lint("MC101", text) == []
    assert [f.severity for f in lint("MC103", text, "0.29")] == [Severity.INFO]


def test_super_forward_is_not_recognised(lint, fixture_text):
    subclass = """class AlderFastAttention(AlderAttention):
    def forward(self, hidden_states, past_key_values=None, **kwargs):
        return super().forward(hidden_states, past_key_values=past_key_values, **kwargs)


class AlderDecoderLayer(nn.Module):"""
    text = edited(
        fixture_text(GOOD),
        ("class AlderDecoderLayer(nn.Module):", subclass),
        ("self.self_attn = AlderAttention(", "self.self_attn = AlderFastAttention("),
    )
    (finding,) = lint("MC103", text)
    assert finding.class_name == "AlderFastAttention"
    assert "super().forward" in finding.message


def test_an_inherited_forward_dispatches(lint, fixture_text):
    text = edited(
        fixture_text(GOOD),
        (
            "class AlderDecoderLayer(",
            "class AlderOwnAttention(AlderAttention):\n    pass\n\n\nclass AlderDecoderLayer(",
        ),
        ("self.self_attn = AlderAttention(", "self.self_attn = AlderOwnAttention("),
    )
    assert [c for c in OURS if lint(c, text)] == []


def test_the_subscript_fix_names_the_eager_function(lint, fixture_text):
    (finding,) = lint("MC104", fixture_text("subscript_interface_lookup/bad"))
    assert finding.fix is not None
    assert (finding.fix.fixer, dict(finding.fix.data)) == (
        "get_interface",
        {"eager": "eager_attention"},
    )


@pytest.mark.parametrize(
    ("scaling", "hoisted"),
    [
        ("self.head_dim**-0.5", "self.head_dim ** (-0.5)"),
        ("1.0 / math.sqrt(self.head_dim)", "1.0 / math.sqrt(self.head_dim)"),
        ("self.config.attention_multiplier", "self.config.attention_multiplier"),
        ("-0.5", "-0.5"),
        ("query.shape[-1] ** -0.5", None),
        ("scale", None),
    ],
)
def test_scaling_expressions_are_hoisted_when_init_knows_them(lint, fixture_text, scaling, hoisted):
    text = edited(fixture_text(GOOD), ("scaling=self.scaling", f"scaling={scaling}"))
    (finding,) = lint("MC105", text)
    data = finding.fix.data["expression"] if finding.fix else None
    assert data == hoisted
    assert [f.severity for f in lint("MC105", text, "0.29")] == [Severity.INFO]


def test_a_local_scale_is_followed_to_its_definition(lint, fixture_text):
    text = edited(
        fixture_text(GOOD),
        ("scaling=self.scaling", "scaling=scale"),
        (LOOKUP, "scale = self.head_dim**-0.5\n        " + LOOKUP),
    )
    (finding,) = lint("MC105", text)
    assert finding.fix is not None
    assert finding.fix.data["expression"] == "self.head_dim ** (-0.5)"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("None", "is None"),
        ("torch.tensor(0.5)", "is a tensor"),
        ("nn.Parameter(torch.ones(1))", "is a parameter"),
        ("0.5", None),
        ("config.attention_multiplier", None),  # the source leaves it open
    ],
)
def test_what_a_scaling_attribute_holds(lint, fixture_text, value, words):
    text = edited(
        fixture_text(GOOD), ("self.scaling = self.head_dim**-0.5", f"self.scaling = {value}")
    )
    assert [words in f.message for f in lint("MC105", text)] == ([True] if words else [])


def test_a_scaling_attribute_that_nothing_assigns(lint, fixture_text):
    text = edited(fixture_text(GOOD), ("        self.scaling = self.head_dim**-0.5\n", ""))
    assert ["never assigned" in f.message for f in lint("MC105", text)] == [True]
    unseen = text.replace("class AlderAttention(nn.Module)", "class AlderAttention(Unseen)")
    assert lint("MC105", unseen) == []  # the base may assign it


def test_scaling_by_position(lint, fixture_text):
    text = edited(
        fixture_text(GOOD), ("attention_mask, scaling=self.scaling", "attention_mask, self.scaling")
    )
    assert ["by position" in f.message for f in lint("MC105", text)] == [True]


def test_sinks_are_ignored_before_030_however_they_are_passed(lint, fixture_text):
    text = fixture_text("unresolvable_sinks/good")
    assert [f.severity for f in lint("MC106", text, "0.29")] == [Severity.WRONG]
    buffer = text.replace("self.sinks = nn.Parameter(", "self.sinks = nn.Buffer(")
    assert ["no nn.Parameter" in f.message for f in lint("MC106", buffer)] == [True]


@pytest.mark.parametrize(
    ("value", "words"), [("None", "has None"), ("0", "the same layer_idx"), ("layer_idx", None)]
)
def test_what_layer_idx_holds(lint, fixture_text, value, words):
    text = edited(fixture_text(GOOD), ("self.layer_idx = layer_idx", f"self.layer_idx = {value}"))
    assert [words in f.message for f in lint("MC108", text)] == ([True] if words else [])


def test_a_layer_idx_set_by_the_model_is_seen(lint, fixture_text):
    text = edited(
        fixture_text("attention_without_layer_idx/bad"),
        (
            "        self.post_init()\n",
            "        for i, layer in enumerate(self.layers):\n"
            "            layer.self_attn.layer_idx = i\n        self.post_init()\n",
        ),
    )
    assert lint("MC108", text) == []


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("self.is_causal = True", 1),
        ("self.is_causal = config.is_decoder", 0),
        ("self.is_causal = False", 0),
    ],
)
def test_what_is_causal_holds(lint, fixture_text, line, count):
    text = edited(fixture_text("encoder_without_is_causal/good"), ("self.is_causal = False", line))
    assert len(lint("MC109", text)) == count


def test_a_decoder_with_a_bidirectional_mask_for_something_else_is_left_alone(lint, fixture_text):
    text = fixture_text(GOOD).replace(
        "hidden_states = inputs_embeds\n",
        "hidden_states = inputs_embeds\n        other = create_bidirectional_mask(self.config)\n",
    )
    assert "create_bidirectional_mask" in text
    assert lint("MC109", text) == []


@pytest.mark.parametrize(
    ("mask", "count"),
    [
        ("attention_mask + self.q_proj(hidden_states)", 1),
        ("attention_mask.to(query.dtype)", 0),
        ("attention_mask[:, :, :, : key.shape[-2]]", 0),
        ("attention_mask + torch.finfo(query.dtype).min", 0),
    ],
)
def test_what_reaches_the_mask(lint, fixture_text, mask, count):
    text = edited(fixture_text(GOOD), (LOOKUP, f"attention_mask = {mask}\n        {LOOKUP}"))
    assert len(lint("MC110", text)) == count


@pytest.mark.skipif(models_folder() is None, reason="transformers is not installed")
@pytest.mark.parametrize("name", COMPLIANT.split())
def test_served_models_of_transformers_have_no_grave_finding(lint_file, name):
    path = models_folder() / name / f"modeling_{name}.py"
    found = [f for code in OURS for f in lint_file(code, path)]
    assert [f for f in found if f.severity in (Severity.ERROR, Severity.WRONG)] == []


@pytest.mark.skipif(models_folder() is None, reason="transformers is not installed")
@pytest.mark.parametrize(
    ("name", "code"),
    [("bloom", "MC101"), ("falcon", "MC102"), ("diffllama", "MC103"), ("xglm", "MC101")],
)
def test_models_that_vllm_refuses_are_found(lint_file, name, code):
    path = models_folder() / name / f"modeling_{name}.py"
    assert Severity.ERROR in [f.severity for f in lint_file(code, path)]
