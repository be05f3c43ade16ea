"""Faults as public repositories write them: helpers, methods, tables and copies; near misses."""

import json

import pytest

from modelcheck.scan import Scanner, Selection

GOOD = "kwargs_not_threaded/good"
LAYER = "class AlderDecoderLayer"
BUILT = "self.self_attn = AlderAttention(config, layer_idx)"
NORMED = "            self.input_layernorm(hidden_states),"
FORWARD = """    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,"""
START = "past_key_values.get_seq_length() if past_key_values is not None else 0"
ARANGE = "torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device)[None] + start"
COUNTED = f"""        if position_ids is None:
            start = {START}
            position_ids = {ARANGE}
"""
EMBEDDED = "inputs_embeds = self.embed_tokens(input_ids)"
ROTARY = "self.rotary_emb(hidden_states, position_ids)"
OTHER = "class OtherAttention(AlderAttention):\n    pass\n\n\n"


@pytest.fixture
def changed(fixture_text):
    """The good model with pieces of its text replaced."""

    def run(*pairs):
        text = fixture_text(GOOD)
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new)
        return text

    return run


def named(findings):
    return [(f.code, f.class_name) for f in findings]


@pytest.mark.parametrize(
    ("definition", "built"),
    [
        (
            "def chosen(config):\n"
            '    return {"eager": AlderAttention, "sdpa": OtherAttention}'
            "[config._attn_implementation]\n\n\n",
            "chosen(config)(config, layer_idx)",
        ),
        (
            "TABLE = dict(eager=AlderAttention, sdpa=OtherAttention)\n\n\n",
            "TABLE[config._attn_implementation](config, layer_idx)",
        ),
        (
            "",
            '{"eager": AlderAttention, "sdpa": OtherAttention}[config._attn_implementation]'
            "(config, layer_idx)",
        ),
    ],
)
def test_a_table_of_classes(lint, changed, definition, built):
    table = changed((LAYER, OTHER + definition + LAYER), (BUILT, f"self.self_attn = {built}"))
    assert named(lint("MC102", table)) == [("MC102", "AlderDecoderLayer")]
    for old, new in (('"sdpa": Other', '"vllm": Other'), ("sdpa=Other", "vllm=Other")):
        table = table.replace(old, new)
    assert lint("MC102", table) == []


CHAIN = """if config._attn_implementation == "eager":
            self.self_attn = AlderAttention(config, layer_idx)
        elif config._attn_implementation in ("sdpa", "flash_attention_2"):
            self.self_attn = OtherAttention(config, layer_idx)
        else:
            raise ValueError(config._attn_implementation)"""


def test_a_chain_of_names_that_raises(lint, changed):
    text = changed((LAYER, OTHER + LAYER), (BUILT, CHAIN))
    assert named(lint("MC102", text)) == [("MC102", "AlderDecoderLayer")]
    built = text.replace(
        "raise ValueError(config._attn_implementation)",
        "self.self_attn = OtherAttention(config, layer_idx)",
    )
    assert lint("MC102", built) == []
    assert lint("MC102", text.replace('"sdpa", ', '"sdpa", "vllm", ')) == []


METHOD = """    def _positions(self, embeds, given=None):
        if given is not None:
            return given
        return torch.arange(embeds.shape[1], device=embeds.device)[None]

"""


def test_positions_that_a_method_counts(lint, changed):
    method = METHOD.replace("        if given is not None:\n            return given\n", "")
    text = changed(
        (FORWARD, method + FORWARD),
        (COUNTED, "        position_ids = self._positions(inputs_embeds)\n"),
    )
    assert named(lint("MC202", text)) == [("MC202", "AlderModel")]
    honoured = changed(
        (FORWARD, METHOD + FORWARD),
        (COUNTED, "        position_ids = self._positions(inputs_embeds, position_ids)\n"),
    )
    assert lint("MC202", honoured) == []


def test_positions_that_the_rotary_embedding_counts(lint, changed):
    text = changed(
        (ROTARY, "self.rotary_emb(hidden_states)"),
        (
            "def forward(self, x, position_ids):\n",
            "def forward(self, x):\n        position_ids = torch.arange(x.shape[1])[None]\n",
        ),
    )
    assert named(lint("MC202", text)) == [("MC202", "AlderModel")]


@pytest.mark.parametrize(
    ("helper", "fires"),
    [
        ("torch.roll(x, shifts=1, dims=1)", True),
        ("torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), dim=1)", True),
        ("nn.functional.pad(x, (0, 0, 1, -1))", True),
        ("torch.roll(x, shifts=1, dims=-1)", False),
        ("torch.cat((x[..., :8], x[..., 8:]), dim=-1)", False),
    ],
)
def test_tokens_mixed_in_a_function(lint, changed, helper, fires):
    text = changed(
        (LAYER, f"def shift(x):\n    return {helper}\n\n\n{LAYER}"),
        (NORMED, NORMED.replace("self.", "shift(self.").replace("),", ")),")),
    )
    assert named(lint("MC203", text)) == [("MC203", "AlderDecoderLayer")] * fires


@pytest.mark.parametrize(
    ("kernel", "fires"), [("(2, 1)", True), ("3", True), ("(1, 1)", False), ("1", False)]
)
def test_a_convolution_over_tokens_in_two_dimensions(lint, changed, kernel, fires):
    text = changed(
        (
            "        self.mlp = ",
            f"        self.mix = nn.Conv2d(8, 8, {kernel})\n        self.mlp = ",
        ),
        (NORMED, NORMED.replace("self.", "self.mix(self.").replace("),", ")),")),
    )
    assert named(lint("MC203", text)) == [("MC203", "AlderDecoderLayer")] * fires


@pytest.mark.parametrize(
    ("statistic", "fires"),
    [
        ("hidden_states.mean(dim=1, keepdim=True)", True),
        ("torch.cumsum(hidden_states, -2)", True),
        ("hidden_states.mean(dim=-1, keepdim=True)", False),
        ("hidden_states.view(-1, 64).mean(dim=1, keepdim=True)", False),
        ("hidden_states.sum(dim)", False),
    ],
)
def test_statistics_over_the_tokens(lint, changed, statistic, fires):
    residual = "        hidden_states = hidden_states + attn_out\n"
    text = changed((residual, residual + f"        hidden_states = hidden_states - {statistic}\n"))
    assert named(lint("MC203", text)) == [("MC203", "AlderDecoderLayer")] * fires


def test_a_reshaped_input_has_other_axes(lint, changed):
    residual = "        hidden_states = hidden_states + attn_out\n"
    flat = "        hidden_states = hidden_states.view(-1, 64)\n"
    mean = "        hidden_states = hidden_states - hidden_states.mean(dim=1, keepdim=True)\n"
    assert lint("MC203", changed((residual, residual + flat + mean))) == []


@pytest.mark.parametrize(
    ("factor", "fires"), [(" * self.config.hidden_size**0.5", True), ("", False)]
)
def test_embeddings_scaled_in_a_method(lint, changed, factor, fires):
    method = f"    def embed(self, ids):\n        return self.embed_tokens(ids){factor}\n\n"
    text = changed((EMBEDDED, "inputs_embeds = self.embed(input_ids)"), (FORWARD, method + FORWARD))
    assert named(lint("MC204", text)) == [("MC204", "AlderModel")] * fires


TABLE = """class Table(nn.Module):
    def forward(self, length):
        angles = torch.arange(length).float()[None, :, None]
        return angles.cos(), angles.sin()


class AlderAttention"""


def test_an_attention_that_asks_for_a_table_by_length(lint, changed):
    counted = changed(
        ("class AlderAttention", TABLE),
        (
            "        self.is_causal = True\n",
            "        self.is_causal = True\n        self.rope = Table()\n",
        ),
        (
            "        cos, sin = position_embeddings\n",
            "        length = hidden_states.shape[1]\n        cos, sin = self.rope(length)\n",
        ),
        (
            "def forward(self, hidden_states, position_embeddings, attention_mask",
            "def forward(self, hidden_states, attention_mask",
        ),
        ("            position_embeddings=position_embeddings,\n", ""),
    )
    assert named(lint("MC205", counted)) == [("MC205", "AlderAttention")]
    told = counted.replace("self.rope(length)", "self.rope(kwargs['position_ids'])")
    assert lint("MC205", told) == []


SLOPES = """    def _with_bias(self, mask, states):
        slopes = 2.0 ** -torch.arange(1, 5, device=states.device)
        steps = torch.arange(states.shape[1], device=states.device)
        bias = slopes[None, :, None, None] * (steps[None] - steps[:, None])
        return bias if mask is None else mask + bias

"""


def test_slopes_that_the_model_puts_into_the_mask(lint, changed):
    call = "        causal_mask = self._with_bias(causal_mask, inputs_embeds)\n"
    states = "        hidden_states = inputs_embeds\n"
    text = changed((FORWARD, SLOPES + FORWARD), (states, call + states))
    assert named(lint("MC110", text)) == [("MC110", "AlderModel")]
    behind = f"        if self.config.alibi:\n    {call}"
    assert lint("MC110", changed((FORWARD, SLOPES + FORWARD), (states, behind + states))) == []


@pytest.mark.parametrize(
    ("index", "fires"), [("[None, None, :, None]", True), ("[None, :]", False)]
)
def test_a_result_multiplied_by_four_axes(lint, changed, index, fires):
    text = changed(
        (
            "        return self.o_proj(out.reshape",
            f"        out = out * self.gain{index}\n        return self.o_proj(out.reshape",
        ),
        (
            "        self.is_causal = True\n",
            "        self.is_causal = True\n        self.gain = nn.Parameter(torch.ones(4))\n",
        ),
    )
    assert named(lint("MC115", text)) == [("MC115", "AlderAttention")] * fires


@pytest.fixture
def repo(tmp_path, fixture_text):
    """``repo(auto_map, *pairs)``: what a scan says of the good model with this auto_map."""

    def run(auto_map, *pairs, code):
        text = fixture_text(GOOD)
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new)
        (tmp_path / "modeling_alder.py").write_text(text)
        config = {
            "architectures": ["AlderForConditionalGeneration"],
            "model_type": "alder",
            "auto_map": {k: f"modeling_alder.{v}" for k, v in auto_map.items()},
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        return named(Scanner(selection=Selection(select=(code,))).scan([str(tmp_path)]).findings)

    return run


def test_an_automodel_that_gives_logits(repo):
    head = ("AlderForCausalLM", "AlderForConditionalGeneration")
    entries = {"AutoConfig": "AlderConfig", "AutoModel": "AlderForConditionalGeneration"}
    assert repo(entries, head, code="MC307") == [("MC307", "AlderForConditionalGeneration")]
    base = entries | {"AutoModel": "AlderModel"}
    assert repo(base, head, code="MC307") == []
    features = (
        "CausalLMOutputWithPast(loss=loss, logits=logits, ",
        "BaseModelOutputWithPast(last_hidden_state=logits, ",
    )
    assert repo(entries, head, features, code="MC307") == []


def test_a_configuration_of_transformers_itself_needs_no_autoconfig(tmp_path):
    (tmp_path / "modeling_my.py").write_text(
        "from transformers import LlamaConfig\n"
        "from transformers.models.llama.modeling_llama import LlamaModel\n\n\n"
        "class MyModel(LlamaModel):\n    config_class = LlamaConfig\n"
    )
    config = {"model_type": "llama", "auto_map": {"AutoModel": "modeling_my.MyModel"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = Scanner(selection=Selection(select=("MC305",))).scan([str(tmp_path)]).findings
    assert [(str(f.severity), f.fix) for f in found] == [("info", None)]


CONFIG = """from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
import copy


class ToyConfig(PretrainedConfig):
    def __init__(self, size=8, rope_scaling=None, **kwargs):
        self.size = size
        self.rope_scaling = rope_scaling
        super().__init__(**kwargs)


class ToyRotary(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.rope_type = "default"
        if config.rope_scaling is not None:
            self.rope_type = config.rope_scaling.get("rope_type", "default")
        self.function = ROPE_INIT_FUNCTIONS[self.rope_type]


class ToyStack(PreTrainedModel):
    config_class = ToyConfig

    def __init__(self, config):
        super().__init__(config)
        self.is_decoder = config.is_decoder
        self.length = config.max_length
        self.rotary = ToyRotary(config)
        self.post_init()


class ToyModel(PreTrainedModel):
    config_class = ToyConfig

    def __init__(self, config):
        super().__init__(config)
        copied = copy.deepcopy(config)
        self.decoder = ToyStack(copied)
        self.post_init()
"""


def test_an_attribute_that_a_copy_of_the_configuration_gets(lint):
    assert [f.message.split()[0] for f in lint("MC909", CONFIG)] == [
        "config.is_decoder",
        "config.max_length",
    ]
    deep = "        copied = copy.deepcopy(config)\n"
    given = CONFIG.replace(deep, "        config.is_decoder = True\n" + deep)
    assert [f.message.split()[0] for f in lint("MC909", given)] == ["config.max_length"]


def test_a_configuration_with_a_rope_type_of_its_own(lint):
    assert named(lint("MC904", CONFIG)) == [("MC904", "ToyRotary")]
    own = CONFIG.replace("rope_scaling=None", 'rope_scaling={"rope_type": "llama3", "factor": 8.0}')
    assert lint("MC904", own) == []


ABSTRACT = """from transformers import PreTrainedModel


class ToyPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"


class ToyBase(ToyPreTrainedModel):
    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.words(input_ids) if inputs_embeds is None else inputs_embeds,)
"""


def test_a_class_that_builds_nothing_has_no_embeddings_to_find(lint):
    assert lint("MC308", ABSTRACT) == []
    built = ABSTRACT.replace(
        "    def forward",
        "    def __init__(self, config):\n        super().__init__(config)\n"
        "        self.words = nn.Embedding(8, 8)\n\n    def forward",
    )
    assert named(lint("MC308", "from torch import nn\n" + built)) == [("MC308", "ToyBase")]


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("configuration_alder.AlderConfig", "there is no configuration_alder.py"),
        ("modeling_alder.OtherConfig", "modeling_alder.py has no OtherConfig"),
        ("modeling_alder.AlderConfig", ""),
        ("someone/else--configuration_alder.AlderConfig", ""),
    ],
)
def test_a_configuration_that_is_not_there(tmp_path, fixture_text, reference, problem):
    (tmp_path / "modeling_alder.py").write_text(fixture_text(GOOD))
    entries = {"AutoConfig": reference, "AutoModel": "modeling_alder.AlderModel"}
    config = {"architectures": ["AlderForCausalLM"], "model_type": "alder", "auto_map": entries}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = Scanner(selection=Selection(select=("MC324",))).scan([str(tmp_path)]).findings
    assert [f.message.rpartition(": ")[2] for f in found] == [problem] * bool(problem)


ROPE = """from torch import nn
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


class ToyAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.rotary_emb = BUILT
"""


@pytest.mark.parametrize(
    ("built", "fires"),
    [
        ("LlamaRotaryEmbedding(8, max_position_embeddings=16)", True),
        ("LlamaRotaryEmbedding(config=config)", False),
        ("LlamaRotaryEmbedding(config, **config.more)", False),
        ("LlamaRotaryEmbedding(8, old=1) if config.old else None", False),
    ],
)
def test_a_module_of_transformers_with_an_old_argument(lint, built, fires):
    found = lint("MC911", ROPE.replace("BUILT", built))
    assert named(found) == [("MC911", "ToyAttention")] * fires
    own = ROPE.replace(
        "from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding",
        "class LlamaRotaryEmbedding(nn.Module):\n    def __init__(self, config):\n        pass",
    )
    assert lint("MC911", own.replace("BUILT", built)) == []


MASK = """from torch import nn
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask


class ToyStack(nn.Module):
    def forward(self, hidden_states, **kwargs):
        make = create_causal_mask if self.full else CHOICE
        return make(config=self.config, input_embeds=hidden_states, attention_mask=None)
"""


@pytest.mark.parametrize(
    ("other", "fires"), [("create_sliding_window_causal_mask", True), ("self.own_mask", False)]
)
def test_one_of_two_mask_functions(lint, other, fires):
    found = lint("MC911", MASK.replace("CHOICE", other))
    assert named(found) == [("MC911", "ToyStack")] * fires
