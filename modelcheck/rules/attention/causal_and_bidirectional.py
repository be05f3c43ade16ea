"""One module says `is_causal = False` in a model whose attention is causal.

What it does
------------
Builds the model's module tree from its constructors and its configuration and reports a module
with a false `is_causal` in a text model that has causal attention too, or that makes causal masks
and no others.

Why it matters
--------------
vLLM (every release) takes a text model for an encoder when any of its modules has a false
`is_causal`, whatever that module does: all layers then attend in both directions and keep no KV
cache. Nothing is said, and the numbers are wrong.

Example
-------
```python
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        head_dim=16,
        num_attention_heads=4,
        num_hidden_layers=4,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.head_dim = head_dim
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        super().__init__(**kwargs)


class ToyGate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.is_causal = False
        self.scale = nn.Parameter(torch.zeros(config.hidden_size))

    def forward(self, hidden_states):
        return torch.sigmoid(self.scale) * hidden_states


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.is_causal = True
        self.scaling = self.head_dim**-0.5
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = ToyAttention(config, layer_idx)
        self.gate = ToyGate(config)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        return hidden_states + self.gate(output)


class ToyPreTrainedModel(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Use instead
-----------
```python
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        head_dim=16,
        num_attention_heads=4,
        num_hidden_layers=4,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.head_dim = head_dim
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        super().__init__(**kwargs)


class ToyGate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(config.hidden_size))

    def forward(self, hidden_states):
        return torch.sigmoid(self.scale) * hidden_states


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.is_causal = True
        self.scaling = self.head_dim**-0.5
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = ToyAttention(config, layer_idx)
        self.gate = ToyGate(config)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        return hidden_states + self.gate(output)


class ToyPreTrainedModel(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Fix safety
----------
No fix: drop the attribute where it means nothing; a model that mixes both cannot be served.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.graph.values import Unknown
from modelcheck.rules.base import Context
from modelcheck.rules.modules import Built, Tree, trees
from modelcheck.source.bodies import body, headline, reached_methods
from modelcheck.source.classes import ClassInfo

CODE = "MC113"
NAME = "is_causal"
MAKES_MASK = re.compile(r"(create|prepare|make|update|get|expand)_\w*mask")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each model that has modules of both kinds."""
    for group in trees(context):
        mixed = [_mixed(tree) for tree in group]
        if not all(mixed) or (odd := mixed[0]) is None:
            continue
        here = odd.info.file is context.file
        yield context.finding(
            CODE,
            Severity.WRONG,
            odd.info if here else group[0].model,
            headline(odd.info.node if here else group[0].model.node),
            f"{odd.path} ({odd.info.name}) has is_causal = False, and vLLM takes all of "
            f"{group[0].model.name} for an encoder.",
            "Set is_causal only on attention, and to one value in the whole model.",
        )


def _mixed(tree: Tree) -> Built | None:
    """The module that is not causal, where an attention of the model is."""
    if "encoder" in tree.model.self_assignments:
        return None  # an encoder-decoder model: refused
    values = [(module, _value(module)) for module in tree.modules]
    if any(value is None for _, value in values):
        return None
    causal = any(value and module.index is not None for module, value in values)
    if not causal and not _masks_causally(tree.model):
        return None
    return next((module for module, value in values if not value), None)


def _masks_causally(model: ClassInfo) -> bool:
    """Does the model make causal masks, and no others?"""
    called = {name for o, f in reached_methods(model) for name in body(o.file, f).called()}
    masks = {name for name in called if MAKES_MASK.search(name) and "head" not in name}
    return bool(masks) and all("causal" in name for name in masks)


def _value(module: Built) -> bool | None:
    """What vLLM reads: True without the attribute, None when it cannot be told."""
    if NAME in module.instance.attributes:
        value = module.instance.attributes[NAME]
        if value is None or isinstance(value, bool | int):
            return bool(value)
        return None if isinstance(value, Unknown) else True
    if module.info.find_method(NAME) is not None:
        return None
    found = module.info.find_attribute(NAME)
    if found is None:
        return True
    return bool(found[1].value) if isinstance(found[1], ast.Constant) else None
