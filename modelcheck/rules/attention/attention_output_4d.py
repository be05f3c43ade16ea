"""What the attention interface returns is used as a tensor of four dimensions.

What it does
------------
Reports a dispatching attention that transposes, permutes, flattens, unpacks or indexes the result
of the interface in a dimension that vLLM's result does not have.

Why it matters
--------------
transformers' own attention functions return (batch, sequence, heads, head size). vLLM's (every
release) returns two dimensions, (tokens, heads x head size). What works on either is
`reshape(*input_shape, -1)`; the third and fourth dimension do not exist, and the first forward
fails.

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
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        output = output.transpose(1, 2).transpose(1, 2)
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
No fix: reshape to the input's shape first, then go on with that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import Attention
from modelcheck.source.bodies import Body, body, callee_name
from modelcheck.source.layers import Role, class_role, dispatching

CODE = "MC115"
DIMENSIONS = 2  # of what vLLM returns
RANK = 4  # of what transformers' own attention functions return
AXES = frozenset(("transpose", "swapaxes", "swapdims", "flatten", "unsqueeze", "size", "unflatten"))


def check(context: Context) -> Iterable[Finding]:
    """Look at what follows every interface call."""
    for attention in dispatching(context.file):
        if not attention.here or class_role(attention.info) is Role.OTHER:
            continue
        node = next(_misuses(attention), None)
        if node is not None:
            yield context.finding(
                CODE,
                Severity.ERROR,
                attention.info,
                node,
                f"{attention.info.name} uses the interface's result as a 4-D tensor, and vLLM's "
                "has two dimensions (tokens, width): the first forward fails.",
                "Reshape it with the input's shape first: output.reshape(*input_shape, -1).",
            )


def _misuses(attention: Attention) -> Iterator[ast.AST]:
    """Uses of the result, before the name is bound to something else."""
    nodes = body(attention.owner.file, attention.function)
    name, line = _result(attention, nodes)
    if not name:
        return
    end = _rebound(nodes, name, line)
    for call in nodes.all(ast.Call):
        func = call.func
        if (
            isinstance(func, ast.Attribute)
            and _is(func.value, name)
            and line < call.lineno <= end
            and _is_misuse(call)
        ):
            yield call
    for product in nodes.all(ast.BinOp):
        pair = [product.left, product.right]
        uses = line < product.lineno <= end and any(_is(side, name) for side in pair)
        if uses and any(map(_has_four_axes, pair)):
            yield product
    for assignment in nodes.all(ast.Assign):
        value, target = assignment.value, assignment.targets[0]
        if (
            line < assignment.lineno <= end
            and isinstance(value, ast.Attribute)
            and value.attr == "shape"
            and _is(value.value, name)
            and isinstance(target, ast.Tuple)
            and len(target.elts) > DIMENSIONS
        ):
            yield assignment


def _result(attention: Attention, nodes: Body) -> tuple[str, int]:
    """The name of the result and the last line of the statement that binds it."""
    for assignment in nodes.all(ast.Assign):
        if assignment.value is attention.call and len(assignment.targets) == 1:
            target = assignment.targets[0]
            if isinstance(target, ast.Tuple) and target.elts:
                target = target.elts[0]
            if isinstance(target, ast.Name):
                return target.id, assignment.end_lineno or assignment.lineno
    return "", 0


def _rebound(nodes: Body, name: str, line: int) -> int:
    """The last line on which the name can still be the result."""
    stores = [
        n.lineno for n in nodes.all(ast.Name) if n.id == name and isinstance(n.ctx, ast.Store)
    ]
    return min((s for s in stores if s > line), default=10**9)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_misuse(call: ast.Call) -> bool:
    """Does a method take a dimension that a 2-D tensor has not?"""
    method = callee_name(call)
    numbers = [n for n in map(_number, call.args) if n is not None]
    if method == "permute":
        return len(call.args) > DIMENSIONS or len(numbers) > DIMENSIONS
    if method not in AXES or not numbers:
        return False
    limit = DIMENSIONS + (method == "unsqueeze")
    axes = numbers[:1] if method in ("unsqueeze", "size", "unflatten") else numbers[:2]
    return any(not -limit <= n < limit for n in axes)


def _has_four_axes(node: ast.expr) -> bool:
    """``x[None, None, :, None]``: an operand that is made 4-D in place."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return False
    parts = node.slice.elts
    kept = [isinstance(p, ast.Slice) or getattr(p, "value", 0) is None for p in parts]
    return len(parts) == RANK and all(kept)


def _number(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None
