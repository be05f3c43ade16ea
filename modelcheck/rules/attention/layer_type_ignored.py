"""`layer_types` names a kind of attention that vLLM serves as full attention.

What it does
------------
Reports a model with dispatching layers whose `layer_types` (config.json, or the default of the
configuration class) says "chunked_attention", or names a window in other words than
"sliding_attention".

Why it matters
--------------
vLLM (every release) knows one word in `layer_types`: "sliding_attention". Every other layer attends
to everything before it, so chunks and windows are ignored, and the numbers are wrong as soon as a
prompt is longer than they are.

Example
-------
```python
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
        self.layer_types = ["chunked_attention", "full_attention"] * 2
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
No fix: a window can be called "sliding_attention"; chunks need an implementation in vLLM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.modules import Tree, trees
from modelcheck.source.bodies import headline

CODE = "MC117"
SLIDING = "sliding_attention"
LIMITED = re.compile(r"chunk|sliding|window|local")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each model with such a layer."""
    for group in trees(context):
        ignored = [_ignored(tree) for tree in group]
        if not all(ignored):
            continue
        model = group[0].model
        yield context.finding(
            CODE,
            Severity.WRONG,
            model,
            headline(model.node),
            f"{model.name} has layers of type {ignored[0]}, and vLLM serves them with full "
            "attention.",
            f'Call layers with a sliding window "{SLIDING}"; vLLM has nothing for chunks.',
        )


def _ignored(tree: Tree) -> str:
    """A type that limits attention in a way that vLLM does not know, "" without."""
    served = tree.attention()
    for layer, kind in enumerate(tree.layer_types[: tree.layers]):
        known = kind == SLIDING or not isinstance(kind, str)
        if not known and layer in served and LIMITED.search(kind):
            return str(kind)
    return ""
