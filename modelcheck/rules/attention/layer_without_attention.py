"""A layer has no attention that vLLM could serve: Mamba, linear attention, convolution.

What it does
------------
Builds the model's module tree from its constructors and its configuration (config.json, or the
defaults of the configuration class) and reports the first layer in which no module dispatches
attention, where nothing in it looks like attention either.

Why it matters
--------------
vLLM's backend allocates a KV cache for every layer and nothing else. 0.30 and later refuse the
model ("does not dispatch through the Transformers attention interface"); up to 0.29 it loads, no
state is kept from one step to the next, and the numbers are wrong.

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
        self.layer_types = ["linear_attention", "full_attention"] * 2
        super().__init__(**kwargs)


class ToyMixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(config.hidden_size))

    def forward(self, hidden_states):
        return torch.sigmoid(self.decay) * hidden_states


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
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
        self.layer_type = config.layer_types[layer_idx]
        if self.layer_type == "linear_attention":
            self.mixer = ToyMixer(config)
        else:
            self.self_attn = ToyAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        if self.layer_type == "linear_attention":
            return hidden_states + self.mixer(hidden_states)
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        return hidden_states + output


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
        self.layer_types = ["full_attention"] * num_hidden_layers
        super().__init__(**kwargs)


class ToyMixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(config.hidden_size))

    def forward(self, hidden_states):
        return torch.sigmoid(self.decay) * hidden_states


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
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
        self.layer_type = config.layer_types[layer_idx]
        if self.layer_type == "linear_attention":
            self.mixer = ToyMixer(config)
        else:
            self.self_attn = ToyAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        if self.layer_type == "linear_attention":
            return hidden_states + self.mixer(hidden_states)
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        return hidden_states + output


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
No fix: a model with such layers needs its own implementation in vLLM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.graph.interpreter import RAISES
from modelcheck.rules.base import Context
from modelcheck.rules.modules import Built, Tree, trees
from modelcheck.source.attention import Dispatch, attention_of
from modelcheck.source.bodies import headline
from modelcheck.source.classes import ClassInfo
from modelcheck.source.layers import undispatched

CODE = "MC112"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each model whose layers do not all attend."""
    refused = context.contract.refuses_undispatched
    for group in trees(context):
        built = [tree for tree in group if tree.doubt != RAISES]  # the others are no models
        missing = [_missing(tree) for tree in built]
        if not missing or not all(missing) or (found := missing[0]) is None:
            continue
        layer, info = found
        kinds = built[0].layer_types
        kind = f" ({kinds[layer]})" if layer < len(kinds) else ""
        effect = "vLLM refuses the model" if refused else "its state is lost between steps"
        yield context.finding(
            CODE,
            Severity.ERROR if refused else Severity.WRONG,
            info,
            headline(info.node),
            f"Layer {layer}{kind} of {built[0].model.name} has no attention: {effect}.",
            "vLLM's Transformers backend serves attention layers only; other layers need an "
            "implementation in vLLM itself.",
        )


def _missing(tree: Tree) -> tuple[int, ClassInfo] | None:
    """The first layer without attention, and the class that stands for it."""
    attention = tree.attention()
    absent = [layer for layer in range(tree.layers) if layer not in attention]
    if tree.doubt or not absent or "encoder" in tree.model.self_assignments:
        return None
    layer = absent[0]
    inside = [m for m in tree.modules if _belongs(m, layer)]
    if not inside or any(_is_judged(m.info) for m in inside):
        return None  # the rules on attention say what is wrong with it
    own = [m.info for m in inside if m.info.file is tree.model.file]
    return layer, (own[0] if own else tree.model)


def _is_judged(info: ClassInfo) -> bool:
    """Is it attention that other rules speak of? (A recurrence may look like one.)"""
    attention = attention_of(info)
    if attention is None:
        return False
    named = attention.dispatch is not Dispatch.INLINE
    return named or any(a.info is info for a in undispatched(info.file))


def _belongs(module: Built, layer: int) -> bool:
    """Is it in the list's element of this number (the outermost list)?"""
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", module.path)
    return bool(numbers) and int(numbers[0]) == layer
