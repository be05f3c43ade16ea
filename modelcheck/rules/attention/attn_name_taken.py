"""A dispatching attention has an attribute called `attn`.

What it does
------------
Reports a class that dispatches through the interface and itself assigns, or uses in its forward, an
attribute `attn`.

Why it matters
--------------
vLLM (0.30 and later) stores its own attention layer on the dispatching module as `attn`. What was
there is overwritten, and a forward that uses it gets vLLM's layer instead; a class attribute of
that name hides vLLM's layer. Either way the first forward fails.

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
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.attn = nn.Dropout(config.attention_dropout)
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
        output = self.attn(output)
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
        self.output_dropout = nn.Dropout(config.attention_dropout)
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
        output = self.output_dropout(output)
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights
```

Fix safety
----------
No fix yet: rename it; a module with weights needs its checkpoint keys mapped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import Attention
from modelcheck.source.bodies import body, headline, reached_methods, self_name
from modelcheck.source.classes import is_self_attribute
from modelcheck.source.layers import Role, class_role, dispatching

CODE = "MC116"
NAME = "attn"


def check(context: Context) -> Iterable[Finding]:
    """Look at the attributes of every attention that dispatches."""
    if not context.contract.refuses_undispatched:
        return  # up to 0.29 vLLM keeps its layers elsewhere
    for attention in dispatching(context.file):
        if class_role(attention.info) is Role.OTHER or attention.is_cross:
            continue
        info = attention.info
        class_level = info.find_attribute(NAME) or info.find_method(NAME)
        assigned = info.self_assignments.get(NAME)
        if class_level is None and (assigned is None or not _is_used(attention)):
            continue
        effect = "hides" if class_level is not None else "is overwritten by"
        yield context.finding(
            CODE,
            Severity.ERROR,
            info,
            headline(info.node),
            f"{info.name}.{NAME} {effect} the attention layer that vLLM stores under this name: "
            "the first forward fails.",
            "Give it another name.",
        )


def _is_used(attention: Attention) -> bool:
    for owner, function in reached_methods(attention.info):
        first = self_name(function)
        for node in body(owner.file, function).all(ast.Attribute):
            if node.attr == NAME and is_self_attribute(node, first):
                return True
    return False
