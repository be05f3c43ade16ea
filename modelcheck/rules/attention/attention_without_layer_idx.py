"""The attention module has no int `layer_idx` of its own.

What it does
------------
Reports an attention that dispatches but never assigns `self.layer_idx` (with everything it
inherits visible), assigns None, or assigns one number for all layers.

Why it matters
--------------
vLLM finds the layer's KV cache by `module.layer_idx`. Without an int there, 0.30 and later refuse
the layer (`does not dispatch`) and earlier releases fail at the first forward. With a constant,
0.30 and later refuse the second layer (`dispatches attention from more than one module`) and
earlier ones let all layers share one cache.

Example
-------
```python
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.index = layer_idx
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
            key, value = past_key_values.update(key, value, self.index)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights
```

Use instead
-----------
```python
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


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
```

Fix safety
----------
Safe: the index is followed, and where it is missing passed on, from the list of layers down to
the attention. Refused where the layers are not counted in one loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attributes import Kind, attribute_kind
from modelcheck.source.bodies import headline
from modelcheck.source.layers import dispatching

CODE = "MC108"


def check(context: Context) -> Iterable[Finding]:
    """Look at the attributes of every attention that dispatches."""
    refused = context.contract.refuses_undispatched
    for attention in dispatching(context.file):
        kind = attribute_kind(attention.info, "layer_idx")
        if attention.is_cross or kind not in (Kind.MISSING, Kind.NONE, Kind.NUMBER):
            continue
        severity = Severity.ERROR
        if kind is Kind.NUMBER:
            what = "has the same layer_idx in every layer"
            effect = "vLLM refuses the second layer" if refused else "layers share one KV cache"
            severity = Severity.ERROR if refused else Severity.WRONG
        else:
            what = "has no layer_idx" if kind is Kind.MISSING else "has None for its layer_idx"
            effect = "vLLM refuses the layer" if refused else "the first forward fails"
        yield context.finding(
            CODE,
            severity,
            attention.info,
            headline(attention.info.node),
            f"{attention.info.name} {what}: {effect}.",
            "Pass layer_idx from the list of layers and assign self.layer_idx = layer_idx.",
            Fix("layer_idx", "pass layer_idx down and keep it", data={"attribute": "layer_idx"})
            if kind is Kind.MISSING
            else None,
        )
