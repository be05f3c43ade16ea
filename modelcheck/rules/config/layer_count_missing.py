"""The configuration has no num_hidden_layers.

What it does
------------
Looks for a text model whose (text) configuration has no attribute `num_hidden_layers`: under
another name without an `attribute_map`, or only in configurations inside of it.

Why it matters
--------------
vLLM counts the layers by this name to give each its part of the KV cache (0.25 to 0.33), and
stops: "object has no attribute 'num_hidden_layers'". A model without such layers, or with
several stacks of them, is none that vLLM's Transformers backend serves.

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
        self, vocab_size=256, hidden_size=64, num_attention_heads=4, n_blocks=4, **kwargs
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_attention_heads = num_attention_heads
        self.n_blocks = n_blocks
        super().__init__(**kwargs)


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


class ToyPreTrainedModel(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(512, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyAttention(config, index) for index in range(config.n_blocks)]
        )
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)
        for layer in self.layers:
            hidden_states = hidden_states + layer(hidden_states, **kwargs)[0]
        return BaseModelOutput(last_hidden_state=hidden_states)


class ToyForCausalLM(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = ToyModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, **kwargs):
        return self.lm_head(self.model(input_ids, **kwargs)[0])
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

    attribute_map = {"num_hidden_layers": "n_blocks"}

    def __init__(
        self, vocab_size=256, hidden_size=64, num_attention_heads=4, n_blocks=4, **kwargs
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_attention_heads = num_attention_heads
        self.n_blocks = n_blocks
        super().__init__(**kwargs)


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


class ToyPreTrainedModel(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(512, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyAttention(config, index) for index in range(config.n_blocks)]
        )
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)
        for layer in self.layers:
            hidden_states = hidden_states + layer(hidden_states, **kwargs)[0]
        return BaseModelOutput(last_hidden_state=hidden_states)


class ToyForCausalLM(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = ToyModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, **kwargs):
        return self.lm_head(self.model(input_ids, **kwargs)[0])
```

Fix safety
----------
There is no fix: an `attribute_map` changes what the configuration saves.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.graph.configs import text_config
from modelcheck.rules.base import Context
from modelcheck.rules.config._settings import settings_of
from modelcheck.rules.modules import LAYERS, configuration
from modelcheck.source.basemodel import base_models, is_language_head
from modelcheck.source.bodies import body, headline
from modelcheck.source.callpath import takes_input_ids
from modelcheck.source.classes import ClassInfo
from modelcheck.source.repo_config import Origin

CODE = "MC326"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each text model whose configuration certainly does not count its layers."""
    if not any(is_language_head(info) for info in context.file.classes.values()):
        return
    for base in base_models(context.file, context.repo):
        config = configuration(context, base.info) if takes_input_ids(base.info) else None
        if config is None:
            continue
        settings = settings_of(context, text_config(config))
        if not settings.given and _reads_it(base.info):
            continue  # PreTrainedConfig takes any value: config.json will give this one
        if settings.value(LAYERS).origin is Origin.ABSENT:
            yield context.finding(
                CODE,
                Severity.ERROR,
                base.info,
                headline(base.info.node),
                f"its configuration has no {LAYERS}, and vLLM does not load without it",
                f'Name the number of layers so, or map it: attribute_map = {{"{LAYERS}": ...}}.',
            )


def _reads_it(info: ClassInfo) -> bool:
    """Does the model itself ask a configuration for the number?"""
    return any(
        LAYERS in body(each.file, method).attributes
        for each in info.mro
        for method in each.methods.values()
    )
