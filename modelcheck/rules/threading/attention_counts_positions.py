"""An attention counts the positions for its rotary embedding itself.

What it does
------------
Reports a dispatching attention whose forward never reads `position_ids` and hands a value made
with `arange` to a submodule or function for rotary or position embeddings, or a length to a
submodule for them that counts up to it.

Why it matters
--------------
vLLM (every release) concatenates the tokens of all requests into one row and says where each one
stands only in `position_ids`. With positions counted from the start of the row every decode step
is at the wrong place; no error, wrong numbers.

Example
-------
```python
import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


def turn(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class ToyRotary(nn.Module):
    def __init__(self, config):
        super().__init__()
        steps = torch.arange(0, config.head_dim, 2).float() / config.head_dim
        self.register_buffer("inv_freq", 1.0 / 10000**steps, persistent=False)

    def forward(self, query, key, positions):
        angles = positions[:, None, :, None].float() * self.inv_freq
        cos, sin = angles.cos(), angles.sin()
        return turn(query, cos, sin), turn(key, cos, sin)


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

        self.rotary = ToyRotary(config)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        positions = torch.arange(hidden_states.shape[1], device=hidden_states.device)[None]
        query, key = self.rotary(query, key, positions)
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

Use instead
-----------
```python
import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


def turn(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class ToyRotary(nn.Module):
    def __init__(self, config):
        super().__init__()
        steps = torch.arange(0, config.head_dim, 2).float() / config.head_dim
        self.register_buffer("inv_freq", 1.0 / 10000**steps, persistent=False)

    def forward(self, query, key, positions):
        angles = positions[:, None, :, None].float() * self.inv_freq
        cos, sin = angles.cos(), angles.sin()
        return turn(query, cos, sin), turn(key, cos, sin)


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

        self.rotary = ToyRotary(config)

    def forward(
        self,
        hidden_states,
        attention_mask=None,
        past_key_values=None,
        position_ids=None,
        **kwargs,
    ):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        query, key = self.rotary(query, key, position_ids)
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
No fix yet: pass `position_ids`, or the rotary table made from it, down to the attention.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.threading.position_ids_ignored import submodule_counts
from modelcheck.rules.threading.rope_by_length import is_length
from modelcheck.source.attention import Attention
from modelcheck.source.bodies import body, callee_name
from modelcheck.source.classes import is_self_attribute
from modelcheck.source.layers import Role, class_role, dispatching

CODE = "MC205"
ROTARY = re.compile(r"rotary|rope|rotate|position", re.IGNORECASE)
GIVEN = frozenset(("position_ids", "position_embeddings", "cache_position"))


def check(context: Context) -> Iterable[Finding]:
    """Look at the forward of every attention that dispatches."""
    for attention in dispatching(context.file):
        if not attention.here or attention.is_cross or class_role(attention.info) is Role.OTHER:
            continue
        node = _counted(attention)
        if node is not None:
            yield context.finding(
                CODE,
                Severity.WRONG,
                attention.info,
                node,
                f"{attention.info.name} counts positions from the start of the row: vLLM's "
                "requests all get the wrong ones.",
                "Use position_ids, or the rotary table that the model makes from it.",
            )


def _counted(attention: Attention) -> ast.AST | None:
    """The call that gets counted positions."""
    nodes = body(attention.owner.file, attention.function)
    if nodes.mentions(GIVEN):
        return None
    counted = {
        target.id
        for assignment in nodes.all(ast.Assign)
        for target in assignment.targets
        if isinstance(target, ast.Name) and _counts(assignment.value)
    }
    for call in nodes.all(ast.Call):
        if not ROTARY.search(callee_name(call)):
            continue
        values = (*call.args, *(k.value for k in call.keywords))
        for value in values:
            if _counts(value) or (isinstance(value, ast.Name) and value.id in counted):
                return call
        lengths = any(is_length(value, nodes.all(ast.Assign)) for value in values)
        inside = is_self_attribute(call.func) and callee_name(call)
        if lengths and inside and submodule_counts(attention.info, inside):
            return call
    return None


def _counts(node: ast.expr) -> bool:
    """``arange(…)``, and what is only sliced, viewed or moved of it."""
    while True:
        if isinstance(node, ast.Call) and callee_name(node) == "arange":
            return True
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return False
