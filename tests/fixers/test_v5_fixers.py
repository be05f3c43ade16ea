"""Each fixer for transformers 5 on small texts: what it writes, and what stops it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixers import FixRefused, load
from modelcheck.findings import Finding, Fix, Severity, Span


def run(fixer: str, text: str, at: str, owner: str = "", **data: str) -> str:
    """The text after a fixer whose finding is at the first place that reads ``at``."""
    place = text.index(at)
    line = text.count("\n", 0, place) + 1
    column = place - (text.rfind("\n", 0, place) + 1) + 1
    span = Span(line, column, line, column + len(at))
    fix = Fix(fixer, "fix it", data=data)
    finding = Finding("MC999", Severity.ERROR, "modeling_my.py", span, owner, "m", "a", fix)
    return load(fixer).fix(text, finding)


def refusal(*args: Any, **data: str) -> str:
    with pytest.raises(FixRefused) as caught:
        run(*args, **data)
    assert caught.value.line, "it names no line"
    return caught.value.reason


def imports(text: str, module: str, name: str, **data: str) -> str:
    return run("v5_imports", text, "from transformers", module=module, name=name, **data)


FX = "transformers.utils.import_utils", "is_torch_fx_available"
PRUNE = "transformers.pytorch_utils", "find_pruneable_heads_and_indices"


def test_a_moved_name_is_imported_from_its_home() -> None:
    text = "from transformers.utils import LossKwargs, logging\n\n\nclass A(LossKwargs): ...\n"
    home = {"home": "transformers.utils", "new": "TransformersKwargs"}
    assert imports(text, "transformers.utils", "LossKwargs", **home) == (
        "from transformers.utils import logging\n"
        "from transformers.utils import TransformersKwargs as LossKwargs\n\n\n"
        "class A(LossKwargs): ...\n"
    )


def test_a_condition_that_always_holds_goes() -> None:
    start = "import torch\nfrom transformers.utils.import_utils import is_torch_fx_available\n\n"
    wrapped = (
        start + "# For tracing.\nif is_torch_fx_available():\n    torch.fx.wrap('f')\n\nX = 1\n"
    )
    assert imports(wrapped, *FX) == "\nX = 1\n"  # torch had no other use
    kept = start + "if is_torch_fx_available():\n    X = torch.ones(1)\n"
    assert imports(kept, *FX) == "import torch\n\nX = torch.ones(1)\n"
    value = start + "HAS = is_torch_fx_available() and torch\n"
    assert imports(value, *FX) == "import torch\n\nHAS = True and torch\n"
    other = start + "if is_torch_fx_available():\n    X = 1\nelse:\n    X = 2\n"
    with pytest.raises(FixRefused, match="other branches"):
        imports(other, *FX)


EXPORT = """from typing import List
from transformers.onnx import OnnxConfig, PatchingSpec
from transformers import PretrainedConfig


class AConfig(PretrainedConfig):
    model_type = "a"


# How it is exported.
class AOnnxConfig(OnnxConfig):
    def inputs(self, specs: List[PatchingSpec]):
        return OnnxConfig.inputs(self)


WIDTH = 4
"""
ONNX = "transformers.onnx", "OnnxConfig"


def test_classes_for_an_export_that_is_gone_go() -> None:
    left = """from transformers import PretrainedConfig


class AConfig(PretrainedConfig):
    model_type = "a"


WIDTH = 4
"""
    assert imports(EXPORT, *ONNX).replace(", PatchingSpec", "") == left
    assert "OnnxConfig is used" in refusal(
        "v5_imports",
        EXPORT + "X = OnnxConfig\n",
        "from transformers.onnx",
        module=ONNX[0],
        name=ONNX[1],
    )
    for use in ("X = AOnnxConfig\n", '__all__ = ["AOnnxConfig"]\n'):
        with pytest.raises(FixRefused, match="AOnnxConfig is"):
            imports(EXPORT + use, *ONNX)


PRUNED = """from transformers.pytorch_utils import Conv1D, find_pruneable_heads_and_indices


class A:
    def __init__(self):
        self.c = Conv1D(1, 1)

    # Copied from elsewhere
    def prune_heads(self, heads):
        heads, index = find_pruneable_heads_and_indices(heads, 1, 1, set())

    def forward(self, x):
        return self.c(x)


class B:
    x = 1

    def _prune_heads(self, heads):
        self.a.prune_heads(heads)
"""


def test_the_pruning_methods_go_with_their_helpers() -> None:
    assert imports(PRUNED, *PRUNE) == (
        "from transformers.pytorch_utils import Conv1D\n\n\nclass A:\n    def __init__(self):\n"
        "        self.c = Conv1D(1, 1)\n\n    def forward(self, x):\n        return self.c(x)\n\n\n"
        "class B:\n    x = 1\n"
    )
    called = PRUNED + "\n    def run(self):\n        self.a.prune_heads(1)\n"
    with pytest.raises(FixRefused, match="prune_heads is called here"):
        imports(called, *PRUNE)


def test_any_other_use_stops_the_import() -> None:
    text = "from transformers.cache_utils import MyCache\n\nX = MyCache()\n"
    with pytest.raises(FixRefused, match="MyCache is used") as caught:
        imports(text, "transformers.cache_utils", "MyCache")
    assert caught.value.line == 3


def test_every_read_gets_the_default() -> None:
    text = "def f(self, config):\n    return config.pad_token_id or self.config.pad_token_id\n"
    new = run("v5_token_ids", text, "config.pad", name="pad_token_id", default="None")
    assert new == (
        'def f(self, config):\n    return getattr(config, "pad_token_id", None)'
        ' or getattr(self.config, "pad_token_id", None)\n'
    )


TIED = """from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class MyConfig(PretrainedConfig):
    def __init__(self, {setting}**kwargs):
        super().__init__({passed}**kwargs)


class Decoder(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(1, 1)


class Head(PreTrainedModel):
    config_class = MyConfig
    _tied_weights_keys = ["out.{kind}"]

    def __init__(self, config):
        super().__init__(config)
        self.decoder = Decoder(config)
        self.out = nn.Linear(1, 1)
"""


def test_tied_weights_are_followed_to_their_source() -> None:
    own = dict.fromkeys(("setting", "passed"), "")
    text = TIED.format(**own, kind="weight")
    new = run("v5_tied_weights", text, '["out', "Head")
    assert '_tied_weights_keys = {"out.weight": "decoder.wte.weight"}' in new
    assert new.count("config.tie_word_embeddings = True") == 1
    said = TIED.format(
        setting="tie_word_embeddings=True, ",
        passed="tie_word_embeddings=tie_word_embeddings, ",
        kind="weight",
    )
    assert "config.tie_word_embeddings = True" not in run("v5_tied_weights", said, '["out', "Head")
    bias = TIED.format(**own, kind="bias")
    assert "is tied to nothing" in refusal("v5_tied_weights", bias, '["out', "Head")
    other = TIED.format(**own, kind="scale")
    assert "is not the weight of out" in refusal("v5_tied_weights", other, '["out', "Head")


TIED_BIAS = """from torch import nn
import torch
from transformers import PretrainedConfig, PreTrainedModel


class MyConfig(PretrainedConfig):
    model_type = "tied_bias"

    def __init__(self, tie_word_embeddings=True, **kwargs):
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)


class Predictions(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.decoder = nn.Linear(4, 8, bias=False)
        self.bias = nn.Parameter(torch.zeros(8))
        self.decoder.bias = self.bias


class Cls(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.predictions = Predictions(config)


class Head(PreTrainedModel):
    config_class = MyConfig
    _tied_weights_keys = ["predictions.decoder.bias", "cls.predictions.decoder.weight"]

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(8, 4)
        self.cls = Cls(config)
        self.post_init()

    def _init_weights(self, module):
        pass

    def get_input_embeddings(self):
        return self.wte

    def get_output_embeddings(self):
        return self.cls.predictions.decoder
"""


def test_a_tied_bias_is_saved_once(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    new = run("v5_tied_weights", TIED_BIAS, '["predictions', "Head")
    assert '{"cls.predictions.decoder.bias": "cls.predictions.bias", ' in new
    names: dict[str, Any] = {"__name__": "modeling_my"}
    exec(new, names)
    model = names["Head"](names["MyConfig"]())
    with torch.no_grad():
        model.cls.predictions.bias.fill_(3.0)
        model.wte.weight.fill_(2.0)
    model.save_pretrained(tmp_path)
    again = names["Head"].from_pretrained(tmp_path)
    decoder = again.cls.predictions.decoder
    assert decoder.bias is again.cls.predictions.bias and decoder.weight is again.wte.weight
    assert decoder.bias.tolist() == [3.0] * 8 and decoder.weight.unique().tolist() == [2.0]


def test_post_init_is_last() -> None:
    text = "class A:\n    def __init__(self):\n        self.init_weights()  # now\n        self.x = 1\n"  # noqa: E501
    assert run("v5_post_init", text, "def", "A") == (
        "class A:\n    def __init__(self):\n        self.x = 1\n        self.post_init()\n"
    )
    nested = "class A:\n    def __init__(self):\n        if 1:\n            self.init_weights()\n"
    assert "below a condition" in refusal("v5_post_init", nested, "def", "A")


CACHE = "from transformers import DynamicCache\n\n\ndef f(past, flag):\n    {}\n    return past\n"


@pytest.mark.parametrize(
    ("old", "name", "new"),
    [
        ("past = DynamicCache.from_legacy_cache(past)", "from_legacy_cache", "past = DynamicCache(past)"),  # noqa: E501
        ("n = past.get_usable_length(7, 2)", "get_usable_length", "n = past.get_seq_length(2)"),
        ("n = past.seen_tokens", "seen_tokens", "n = past.get_seq_length()"),
        ("k = past.key_cache[0]", "key_cache", "k = past.layers[0].keys"),
        ("n = len(past.value_cache)", "value_cache", "n = len(past.layers)"),
        ("past = past.to_legacy_cache() if flag else past", "to_legacy_cache", "past = past"),
        ("x = past.to_legacy_cache() if flag else None", "to_legacy_cache", "x = past if flag else None"),  # noqa: E501
    ],
)  # fmt: skip
def test_the_legacy_cache(old: str, name: str, new: str) -> None:
    at = old.split("= ")[1].removeprefix("len(").partition("." + name)[0]
    text = CACHE.format(old)
    assert run("v5_cache", text, f"{at}.{name}", name=name) == CACHE.format(new)


def test_the_legacy_flag_goes() -> None:
    text = (
        "def f(past):\n    legacy = False\n    if not past:\n        legacy = True\n"
        "        past = g(past)\n    if legacy:\n        past = past.to_legacy_cache()\n    return past\n"  # noqa: E501
    )
    assert run("v5_cache", text, "past.to_legacy", name="to_legacy_cache") == (
        "def f(past):\n    if not past:\n        past = g(past)\n    return past\n"
    )
    written = CACHE.format("past.key_cache[0] = 1")
    assert "is written" in refusal("v5_cache", written, "past.key_cache", name="key_cache")


def test_the_head_mask_of_transformers_4() -> None:
    torch = pytest.importorskip("torch")
    text = (
        "class A(PreTrainedModel):\n    def f(self):\n        return self.get_head_mask(None, 2)\n"
    )
    text = "from transformers import PreTrainedModel\n\n\n" + text
    names: dict[str, Any] = {"__name__": "modeling_my"}
    new = run("v5_model_methods", text, "self.get", "A", method="get_head_mask")
    exec(new.replace("(PreTrainedModel)", "").partition("\n")[2], names)
    model = names["A"]()
    model.dtype = torch.float32
    assert model.get_head_mask(None, 3) == [None, None, None]
    assert model.get_head_mask(torch.ones(4), 3).shape == (3, 1, 4, 1, 1)
    assert model.get_head_mask(torch.ones(3, 4), 3, True).shape == (3, 1, 4, 1, 1, 1)


MASKED = """import torch
from transformers import PretrainedConfig, PreTrainedModel


class B(PreTrainedModel):
    config_class = PretrainedConfig


class A(B):
    def add(self, mask, shape):
        return self.get_extended_attention_mask(mask, shape), self.invert_attention_mask(mask)
"""


@pytest.mark.parametrize("decoder", [False, True])
def test_the_masks_of_transformers_4(decoder: bool) -> None:
    torch = pytest.importorskip("torch")
    methods = ("get_extended_attention_mask", "invert_attention_mask")
    text = MASKED
    for method in methods:
        text = run("v5_model_methods", text, f"self.{method}", "A", method=method)
    names: dict[str, Any] = {"__name__": "modeling_my"}
    exec(text, names)
    config = names["PretrainedConfig"]()
    config.is_decoder = decoder
    model = names["A"](config)
    model.weight = torch.nn.Parameter(torch.zeros(1))  # whose dtype the masks get
    least = torch.finfo(torch.float32).min
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    rows = [[[0, 0, least]], [[0, 0, 0]]]
    causal = [[[0, 0, least], [0, 0, least]], [[0, 0, least], [0, 0, 0]]]  # after one cached key
    extended, inverted = model.add(mask, (2, 2))
    assert extended.squeeze(1).tolist() == (causal if decoder else rows)
    assert inverted.squeeze(1).tolist() == rows
    square = torch.ones(2, 3, 3, dtype=torch.long).tril()
    extended, inverted = model.add(square, (2, 3))
    assert extended.shape == inverted.shape == (2, 1, 3, 3)
    assert torch.equal(extended[0, 0] == 0, square[0] == 1)
    with pytest.raises(ValueError, match="2 or 3 dimensions"):
        model.get_extended_attention_mask(torch.ones(2), (2,))


def test_a_method_without_torch_is_refused() -> None:
    text = MASKED.replace("import torch\n", "")
    reason = refusal("v5_model_methods", text, "self.inv", "A", method="invert_attention_mask")
    assert reason == "torch is not imported as torch"


BUFFERS = """import torch
from torch import nn
from transformers import PreTrainedModel


class A(nn.Module):
    def __init__(self, size, config):
        super().__init__()
        base = 2
        {rest}

    def forward(self, x):
        return x + self.steps


class M(PreTrainedModel):
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            module.bias.data.zero_()
"""


def test_buffers_are_filled_again() -> None:
    text = BUFFERS.format(
        rest='steps = torch.arange(size) * base\n        self.register_buffer("steps", steps, persistent=False)'  # noqa: E501
    )
    new = run("v5_init_weights", text, "self.register", "A")
    assert "        if isinstance(module, A):\n            module._fill_buffers()\n" in new
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    names: dict[str, Any] = {"__name__": "modeling_my"}
    exec(compile(new, "modeling_my.py", "exec"), names)
    module = names["A"](3, None)
    module.steps.zero_()
    names["M"]._init_weights(None, module)
    assert module.steps.tolist() == torch.arange(3).mul(2).tolist()
    nested = BUFFERS.format(
        rest='if size:\n            self.register_buffer("steps", x(), persistent=False)'
    )
    assert "below a condition" in refusal("v5_init_weights", nested, "self.register", "A")


MODEL_BUFFERS = """import torch
from torch import nn
from transformers import PreTrainedModel


class M(PreTrainedModel):
    def _init_weights(self, module):
        if isinstance(module, Rotary):
            module._fill_buffers()


class Rotary(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("steps", torch.arange(size), persistent=False)

    def _fill_buffers(self):
        self.steps.copy_(torch.arange(self.steps.shape[0]))


class Base(M):
    def __init__(self, config):
        super().__init__(config)
        mask = torch.full((config.size, config.size), True)
        self.register_buffer("mask", torch.triu(mask), persistent=False)
"""


def test_the_buffer_of_a_model_with_its_own_config() -> None:
    new = run("v5_init_weights", MODEL_BUFFERS, 'self.register_buffer("mask"', "Base")
    assert "        config = self.config\n        mask = torch.full(" in new
    assert "        if isinstance(module, Base):\n            module._fill_buffers()\n" in new
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    names: dict[str, Any] = {"__name__": "modeling_my"}
    exec(compile(new, "modeling_my.py", "exec"), names)
    model = names["Base"](transformers.PreTrainedConfig(size=3))
    model.mask.zero_()
    model._init_weights(model)
    assert torch.equal(model.mask, torch.full((3, 3), True).triu())


def test_another_config_is_not_taken_for_it() -> None:
    text = MODEL_BUFFERS.replace("super().__init__(config)", "super().__init__(config.text)")
    reason = refusal("v5_init_weights", text, 'self.register_buffer("mask"', "Base")
    assert reason.startswith("config has to be kept")


LAYERS = """class Attention(Module):
    def __init__(self, config):
        super().__init__()
        self.x = 1


class Layer(Module):
    def __init__(self, config, scale=1):
        super().__init__()
        self.attn = Attention(config)


class Model(Module):
    def __init__(self, config):
        super().__init__()
        self.layers = ModuleList([Layer(config) for _ in range(config.n)])
"""


def test_the_index_goes_down_two_constructors() -> None:
    new = run("layer_idx", LAYERS, "class Attention", "Attention", attribute="layer_idx")
    assert new == LAYERS.replace("config):\n        super().__init__()\n        self.x", (
        "config, layer_idx=None):\n        super().__init__()\n"
        "        self.layer_idx = layer_idx\n        self.x"
    )).replace("scale=1", "scale=1, layer_idx=None").replace(
        "= Attention(config)", "= Attention(config, layer_idx=layer_idx)"
    ).replace("[Layer(config) for _", "[Layer(config, layer_idx=layer_idx) for layer_idx")  # fmt: skip  # noqa: E501
    offset = LAYERS.replace("range(config.n)", "range(3, config.n)")
    reason = refusal("layer_idx", offset, "class Attention", "Attention", attribute="layer_idx")
    assert "not counted from 0" in reason
    kept = run("layer_idx", LAYERS, "class Attention", "Attention", attribute="config")
    assert "        self.config = config\n        self.x = 1\n" in kept


FORWARD = """class Model:
    def forward(self, input_ids, mask=None):
        x = self.wte(input_ids)
        positions = torch.arange(x.shape[1]){row}
        return self.rope(x, positions)
"""


def test_the_base_forward_uses_what_it_is_given() -> None:
    missing = "position_ids inputs_embeds use_cache"
    text = FORWARD.format(row="[None]")
    assert run("base_forward", text, "def forward", "Model", missing=missing) == (
        "class Model:\n    def forward(self, input_ids, mask=None, position_ids=None, "
        "inputs_embeds=None, use_cache=None):\n"
        "        x = self.wte(input_ids) if inputs_embeds is None else inputs_embeds\n"
        "        if position_ids is None:\n"
        "            position_ids = torch.arange(x.shape[1])[None]\n"
        "        return self.rope(x, position_ids)\n"
    )
    flat = FORWARD.format(row="")
    reason = refusal("base_forward", flat, "def forward", "Model", missing="position_ids")
    assert "not one row" in reason


def test_the_embedding_getter() -> None:
    text = "class Model:\n    def __init__(self):\n        self.wte = 1\n"
    new = run("base_forward", text, "class", "Model", embedding="wte")
    names: dict[str, Any] = {}
    exec(new, names)
    model = names["Model"]()
    model.set_input_embeddings(2)
    assert model.get_input_embeddings() == 2


def test_rope_settings_in_either_place() -> None:
    text = "class A:\n    def __init__(self, config):\n        self.t = config.rope_theta\n"
    names: dict[str, Any] = {}
    exec(run("v5_rope_parameters", text, "config.rope", "A", what="theta"), names)
    old = type("Config", (), {"rope_theta": 5.0})
    new = type("Config", (), {"rope_parameters": {"rope_theta": 6.0}})
    assert (names["A"](old).t, names["A"](new).t) == (5.0, 6.0)
    scaled = text.replace("rope_theta", "rope_scaling")
    exec(run("v5_rope_parameters", scaled, "config.rope", "A", what="scaling"), names)
    for settings, wanted in (
        (None, None),
        ({"rope_type": "default"}, None),
        ({"type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2.0}),
        ({"rope_type": "linear"}, {"rope_type": "linear", "type": "linear"}),
    ):
        assert names["A"](type("Config", (), {"rope_scaling": settings})).t == wanted


def test_a_warning_is_given_only_where_there_is_a_padding_id() -> None:
    text = (
        "class A:\n    def forward(self, x, y):\n        self.warn(x, y)  # why\n        return x\n"
    )
    data = {"name": "pad_token_id", "default": "None", "call": "warn"}
    assert run("v5_token_ids", text, "self.warn", **data) == (
        "class A:\n    def forward(self, x, y):\n"
        '        if getattr(self.config, "pad_token_id", None) is not None:\n'
        "            self.warn(x, y)  # why\n        return x\n"
    )
    used = text.replace("self.warn(x, y)", "z = self.warn(x, y)")
    assert "result of warn" in refusal("v5_token_ids", used, "self.warn", **data)
