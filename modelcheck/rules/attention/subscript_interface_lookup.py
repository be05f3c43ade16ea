"""The attention interface is read with a subscript instead of `get_interface`.

What it does
------------
Reports `ALL_ATTENTION_FUNCTIONS[…]` (or another method than `get_interface`) in an attention that
otherwise dispatches as vLLM wants.

Why it matters
--------------
The layer dispatches, but vLLM's tracer (since 0.27) steps over `get_interface(…)` only: at a
subscript the trace ends, the output projection behind it is never seen, and under tensor
parallelism it keeps its plan style or is replicated. The text check that can stand in for
`_supports_attention_backend` (since 0.30) looks for `get_interface` as well.

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
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        interface = eager_attention_forward
        if self.config._attn_implementation != "eager":
            interface = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
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
Safe: `get_interface` returns the same function, and the eager one where the name is "eager".
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import eager_function
from modelcheck.source.layers import dispatching

CODE = "MC104"


def check(context: Context) -> Iterable[Finding]:
    """Look at the lookups of the attention classes that dispatch."""
    for attention in dispatching(context.file):
        if not attention.here:
            continue
        for lookup in attention.lookups:
            if _is_get_interface(lookup):
                continue
            yield context.finding(
                CODE,
                Severity.SLOW if context.contract.interface_leaf else Severity.INFO,
                attention.info,
                lookup,
                f"{attention.info.name}.forward reads the attention interface without "
                "get_interface: vLLM's trace ends here and the output projection is not seen.",
                "Use ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, "
                "eager).",
                Fix(
                    "get_interface",
                    "Read the interface with get_interface",
                    data={"eager": eager_function(attention)},
                ),
            )


def _is_get_interface(lookup: ast.expr) -> bool:
    func = lookup.func if isinstance(lookup, ast.Call) else lookup
    return isinstance(func, ast.Attribute) and func.attr == "get_interface"
