"""The attention sinks are not passed as `s_aux=self.<parameter>`.

What it does
------------
Reports an `s_aux=` argument that is a local, an expression or an attribute that is no
`nn.Parameter`. For releases that do not know sinks, every `s_aux=` is reported.

Why it matters
--------------
Since 0.30 vLLM takes the sinks from the attribute that `s_aux=` names. A buffer or tensor is
refused when the model is built; a local or an expression is not seen, and the first forward fails
with `applies attention sinks, but they were not passed`. To 0.29 sinks were ignored: wrong numbers.

Example
-------
```python
import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        self.sinks = nn.Parameter(torch.empty(config.num_attention_heads))
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
            self, query, key, value, attention_mask,
            scaling=self.scaling, s_aux=self.sinks.float(), **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights
```

Use instead
-----------
```python
import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        self.sinks = nn.Parameter(torch.empty(config.num_attention_heads))
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
            self, query, key, value, attention_mask,
            scaling=self.scaling, s_aux=self.sinks, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights
```

Fix safety
----------
No fix: move the cast into the eager function and pass the parameter itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import Attention
from modelcheck.source.attributes import Kind, attribute_kind
from modelcheck.source.bodies import headline
from modelcheck.source.classes import is_self_attribute
from modelcheck.source.layers import dispatching

CODE = "MC106"


def check(context: Context) -> Iterable[Finding]:
    """Look at the interface call of every attention that dispatches."""
    for attention in dispatching(context.file):
        assert attention.call is not None
        for keyword in attention.call.keywords:
            if keyword.arg != "s_aux" or _is_none(keyword.value):
                continue
            node = keyword.value if attention.here else headline(attention.info.node)
            if not context.contract.sinks:
                yield context.finding(
                    CODE,
                    Severity.WRONG,
                    attention.info,
                    node,
                    f"{attention.info.name}.forward passes attention sinks, which this vLLM "
                    "release ignores.",
                    "Serve the model with vLLM 0.30 or later.",
                )
            elif fault := _fault(attention, keyword.value):
                yield context.finding(
                    CODE,
                    Severity.ERROR,
                    attention.info,
                    node,
                    f"{attention.info.name}.forward passes s_aux={ast.unparse(keyword.value)}, "
                    f"{fault}.",
                    "Pass s_aux=self.<the nn.Parameter> itself and cast it in the eager function.",
                )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _fault(attention: Attention, value: ast.expr) -> str:
    if not is_self_attribute(value):
        return "where vLLM finds no parameter: the first forward fails"
    assert isinstance(value, ast.Attribute)
    kind = attribute_kind(attention.info, value.attr)
    if kind in (Kind.TENSOR, Kind.NUMBER):
        return "which is no nn.Parameter: vLLM refuses the layer"
    return ""
