"""A module has a method called `load_weights`.

What it does
------------
Reports a module class, other than a model with a head, that defines `load_weights`.

Why it matters
--------------
vLLM (every release) hands a module that has a callable `load_weights` its part of the checkpoint,
as an iterator of names and tensors, instead of filling its parameters. A method of that name with
another purpose fails, or leaves them unfilled.

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
        self.self_attn = ToyAttention(config, layer_idx)

    def load_weights(self, path):
        self.load_state_dict(torch.load(path))

    def forward(self, hidden_states, attention_mask=None, **kwargs):
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
        super().__init__(**kwargs)


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
        self.self_attn = ToyAttention(config, layer_idx)

    def load_from(self, path):
        self.load_state_dict(torch.load(path))

    def forward(self, hidden_states, attention_mask=None, **kwargs):
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
No fix: give the method another name.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.source.basemodel import is_head
from modelcheck.source.bodies import headline

CODE = "MC309"
NAME = "load_weights"


def check(context: Context) -> Iterable[Finding]:
    """Look at the methods of every module class."""
    for info in context.file.classes.values():
        if not info.is_module or is_head(info) or NAME not in info.methods:
            continue
        yield context.finding(
            CODE,
            Severity.ERROR,
            info,
            headline(info.methods[NAME]),
            f"{info.name}.{NAME} is called by vLLM with the module's part of the checkpoint.",
            "Give the method another name.",
        )
