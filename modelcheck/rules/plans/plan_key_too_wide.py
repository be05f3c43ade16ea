"""vLLM applies an entry of the tensor-parallel plan to a layer that it does not name.

What it does
------------
Compares what transformers and vLLM read out of the tensor-parallel plan for each linear layer
that no fuser takes: transformers compares whole names, vLLM takes the first entry that matches
the beginning of the path as a regular expression.

Why it matters
--------------
In vLLM (0.24 to 0.33) an entry for `mix` is one for `mix_gate` as well. A layer that is cut
unawares gets an input, or gives an output, of the wrong width, and the first forward fails.

Example
-------
```python
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class MyConfig(PreTrainedConfig):
    model_type = "mine"
    base_model_tp_plan = {
        "layers.*.q_proj": "colwise",
        "layers.*.k_proj": "colwise",
        "layers.*.v_proj": "colwise",
        "layers.*.o_proj": "rowwise",
        "mix": "colwise",
        "out_mix": "rowwise",
    }

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        super().__init__(**kwargs)


class MyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        width = config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        query = self.q_proj(hidden_states).view(batch, length, -1, self.head_dim)
        key = self.k_proj(hidden_states).view(batch, length, -1, self.head_dim)
        value = self.v_proj(hidden_states).view(batch, length, -1, self.head_dim)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
        output, weights = attend(
            self,
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attention_mask,
            scaling=self.scaling,
            **kwargs,
        )
        output = output.reshape(batch, length, -1)
        return self.o_proj(output)


class MyModel(PreTrainedModel):
    config_class = MyConfig
    _supports_attention_backend = True

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(512, config.hidden_size)
        self.layers = nn.ModuleList(
            [MyAttention(config, index) for index in range(config.num_hidden_layers)]
        )
        self.mix = nn.Linear(config.hidden_size, config.hidden_size)
        self.out_mix = nn.Linear(config.hidden_size, config.hidden_size)
        self.mix_gate = nn.Linear(config.hidden_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)
        for layer in self.layers:
            hidden_states = hidden_states + layer(hidden_states, **kwargs)
        return (self.mix_gate(self.out_mix(self.mix(hidden_states))),)


def eager(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = torch.softmax(query @ key.transpose(2, 3) * scaling, dim=-1)
    return (weights @ value).transpose(1, 2), weights
```

Use instead
-----------
```python
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class MyConfig(PreTrainedConfig):
    model_type = "mine"
    base_model_tp_plan = {
        "layers.*.q_proj": "colwise",
        "layers.*.k_proj": "colwise",
        "layers.*.v_proj": "colwise",
        "layers.*.o_proj": "rowwise",
        "mix_gate": "replicate",
        "out_mix": "rowwise",
        "mix": "colwise",
    }

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        super().__init__(**kwargs)


class MyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        width = config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        query = self.q_proj(hidden_states).view(batch, length, -1, self.head_dim)
        key = self.k_proj(hidden_states).view(batch, length, -1, self.head_dim)
        value = self.v_proj(hidden_states).view(batch, length, -1, self.head_dim)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
        output, weights = attend(
            self,
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attention_mask,
            scaling=self.scaling,
            **kwargs,
        )
        output = output.reshape(batch, length, -1)
        return self.o_proj(output)


class MyModel(PreTrainedModel):
    config_class = MyConfig
    _supports_attention_backend = True

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(512, config.hidden_size)
        self.layers = nn.ModuleList(
            [MyAttention(config, index) for index in range(config.num_hidden_layers)]
        )
        self.mix = nn.Linear(config.hidden_size, config.hidden_size)
        self.out_mix = nn.Linear(config.hidden_size, config.hidden_size)
        self.mix_gate = nn.Linear(config.hidden_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)
        for layer in self.layers:
            hidden_states = hidden_states + layer(hidden_states, **kwargs)
        return (self.mix_gate(self.out_mix(self.mix(hidden_states))),)


def eager(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = torch.softmax(query @ key.transpose(2, 3) * scaling, dim=-1)
    return (weights @ value).transpose(1, 2), weights
```

Fix safety
----------
There is no fix: the order of a plan is its author's.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.plans._models import plan_finding, planned_models
from modelcheck.source.plans import COLUMNS, REPLICATE, ROWS, STYLES, generic_name

CODE = "MC805"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each entry that vLLM applies to a layer it was not written for."""
    for models in planned_models(context):
        model = models[0]
        plan = model.plan
        reported: set[str] = set()
        for linear in model.left_to_plan():
            taken = plan.first(linear.path) if plan is not None else None
            if plan is None or taken is None or taken.style not in STYLES:
                continue
            meant = plan.meant(linear.path)
            style = meant.style if meant is not None else REPLICATE
            if taken is meant or _cut(style) == _cut(taken.style) or taken.key in reported:
                continue
            if _is_meant_below(taken.key, linear.path):
                continue
            reported.add(taken.key)
            wanted = f"not {meant.style}" if meant is not None else "not left whole"
            yield plan_finding(
                context,
                CODE,
                Severity.ERROR,
                model,
                taken,
                f"vLLM reads {taken.key!r} as a regular expression that also matches "
                f"{linear.path}, which becomes {taken.style}, {wanted}",
                f"Give {generic_name(linear.path)!r} an entry of its own before this one, "
                '"replicate" where it is to stay whole.',
            )


def _cut(style: object) -> object:
    """How a layer's input and output are cut: of the styles that gather, not at all."""
    return style if style in (COLUMNS, ROWS) else REPLICATE


def _is_meant_below(key: str, path: str) -> bool:
    """Does the key name a module that the layer is in? Then its style may be meant for it."""
    generic = generic_name(path)
    return generic.startswith(f"{key}.")
