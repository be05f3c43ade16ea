"""A packed query-key-value projection is cut in a way that vLLM does not recognise.

What it does
------------
Finds one projection that is cut into three with slices, ``chunk(3)``, ``torch.split``,
``unbind``, or a split that is not in one expression with the projection.

Why it matters
--------------
vLLM (0.27 to 0.33, ``PackedQKVFuser``) shards a packed projection by heads only when it reads
``self.qkv_proj(x).split((q, kv, kv), dim=-1)``, three sizes written in the call. Otherwise the
projection is replicated on every rank and nothing is fused.

Example
-------
```python
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def eager_attention_forward(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = (query @ key.transpose(2, 3) * scaling).softmax(dim=-1)
    return (weights @ value).transpose(1, 2), weights


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        self.is_causal = True
        width = config.num_attention_heads * self.head_dim
        self.width = width
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        input_shape = hidden_states.shape[:-1]
        shape = (*input_shape, -1, self.head_dim)
        query, key, value = self.qkv_proj(hidden_states).chunk(3, dim=-1)
        query = query.view(shape).transpose(1, 2)
        key = key.view(shape).transpose(1, 2)
        value = value.view(shape).transpose(1, 2)
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        out, weights = attention_interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(out.reshape(*input_shape, -1)), weights
```

Use instead
-----------
```python
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def eager_attention_forward(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = (query @ key.transpose(2, 3) * scaling).softmax(dim=-1)
    return (weights @ value).transpose(1, 2), weights


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        self.is_causal = True
        width = config.num_attention_heads * self.head_dim
        self.width = width
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        input_shape = hidden_states.shape[:-1]
        shape = (*input_shape, -1, self.head_dim)
        query, key, value = self.qkv_proj(hidden_states).split(
            (self.width, self.width, self.width), dim=-1
        )
        query = query.view(shape).transpose(1, 2)
        key = key.view(shape).transpose(1, 2)
        value = value.view(shape).transpose(1, 2)
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        out, weights = attention_interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(out.reshape(*input_shape, -1)), weights
```

Fix safety
----------
Safe: the cut becomes the one expression, of the same rows of the same weight. Refused where the
heads are interleaved (`view(..., heads, 3, size)`), for which the weight would have to change.
"""

from collections.abc import Iterator

from modelcheck.findings import Finding, Fix
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import finding, misses

CODE = "MC702"


def check(context: Context) -> Iterator[Finding]:
    """One finding per packed projection that misses."""
    for miss in misses(context, "PackedQKV", unless=("MLA", "QKV")):
        yield finding(
            context,
            CODE,
            miss,
            f"The packed projection of {miss.prediction.info.name} is not split by heads: "
            f"{miss.result.reason}.",
            "Write it as self.qkv_proj(x).split((q_size, kv_size, kv_size), dim=-1).",
            Fix("packed_qkv", "cut the projection in one expression"),
        )
