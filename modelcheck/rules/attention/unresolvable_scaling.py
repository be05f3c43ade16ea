"""The `scaling` of the attention call cannot be resolved from the source.

What it does
------------
Reports a `scaling=` that is neither a number nor `self.<attribute>` (an expression, a local, a
negative literal, `None`), an attribute that is never assigned or is None or a tensor, and a
scaling passed by position. An attribute whose value the source leaves open is not reported.

Why it matters
--------------
Since 0.30 vLLM reads the scale when the model is built, from the source of the call, and accepts
a literal number or an attribute that holds one: anything else is `Cannot resolve attention scaling
expression`. By position it is not seen at all and the call fails.

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
            self, query, key, value, attention_mask, scaling=self.head_dim**-0.5, **kwargs
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
Safe: the expression is moved to `self.scaling` in `__init__`, where it has the same value; offered
only when it uses nothing but attributes and the config.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import Attention
from modelcheck.source.attributes import Kind, attribute_kind
from modelcheck.source.bodies import body, headline, self_name
from modelcheck.source.callpath import children
from modelcheck.source.classes import dotted_name, is_self_attribute
from modelcheck.source.layers import dispatching

CODE = "MC105"
POSITIONAL = 5  # module, query, key, value, attention_mask
_FUNCTIONS = frozenset(("float", "int", "min", "max", "getattr", "math.sqrt", "math.pow"))


def check(context: Context) -> Iterable[Finding]:
    """Look at the interface call of every attention that dispatches."""
    for attention in dispatching(context.file):
        found = _fault(attention)
        if found is None:
            continue
        what, value, hoisted = found
        fix = None
        if hoisted is not None and attention.here:
            fix = Fix(
                "hoist_scaling",
                "Compute the scale in __init__ as self.scaling",
                data={"expression": ast.unparse(hoisted)},
            )
        late = context.contract.scaling_from_source
        yield context.finding(
            CODE,
            Severity.ERROR if late else Severity.INFO,
            attention.info,
            value if attention.here else headline(attention.info.node),
            f"{attention.info.name}.forward {what}, which vLLM "
            f"{'' if late else '0.30 and later '}cannot resolve when it builds the model.",
            "Assign the number to self.scaling in __init__ and pass scaling=self.scaling.",
            fix,
        )


def _fault(attention: Attention) -> tuple[str, ast.expr, ast.expr | None] | None:
    """What is wrong in words, where, and the expression that could move to ``__init__``."""
    call = attention.call
    assert call is not None
    plain = not any(isinstance(a, ast.Starred) for a in call.args)
    if plain and len(call.args) > POSITIONAL:
        return "passes the scaling by position", call.args[POSITIONAL], None
    values = [k.value for k in call.keywords if k.arg == "scaling"]
    if len(values) != 1:
        return None
    value = values[0]
    if isinstance(value, ast.Constant):
        number = isinstance(value.value, int | float) and not isinstance(value.value, bool)
        return None if number else (f"passes scaling={ast.unparse(value)}", value, None)
    if is_self_attribute(value):
        return _attribute_fault(attention, value)
    source = _definition(attention, value)
    hoisted = source if source is not None and _is_fixed(attention, source) else None
    return f"passes scaling={ast.unparse(value)}", value, hoisted


def _attribute_fault(
    attention: Attention, value: ast.expr
) -> tuple[str, ast.expr, ast.expr | None] | None:
    assert isinstance(value, ast.Attribute)
    words = {
        Kind.MISSING: "is never assigned",
        Kind.NONE: "is None",
        Kind.TENSOR: "is a tensor",
        Kind.PARAMETER: "is a parameter",
    }
    word = words.get(attribute_kind(attention.info, value.attr))
    return (f"passes self.{value.attr}, which {word}", value, None) if word else None


def _definition(attention: Attention, value: ast.expr) -> ast.expr | None:
    """The value of a local that is assigned once, or the expression itself."""
    if not isinstance(value, ast.Name):
        return value
    stores = [
        a
        for a in body(attention.owner.file, attention.function).all(ast.Assign)
        if any(value.id in _target_names(t) for t in a.targets)
    ]
    if len(stores) == 1 and isinstance(stores[0].targets[0], ast.Name):
        return stores[0].value
    return None


def _target_names(target: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def _is_fixed(attention: Attention, node: ast.expr) -> bool:
    """Does it have its value once ``__init__`` has run: attributes, config, arithmetic?"""
    first = self_name(attention.function)
    held = attention.info.self_assignments
    modules = {c.attr for c in children(attention.info)}

    def fixed(part: ast.AST) -> bool:
        if isinstance(part, ast.Constant):
            return True
        if isinstance(part, ast.UnaryOp):
            return fixed(part.operand)
        if isinstance(part, ast.BinOp):
            return fixed(part.left) and fixed(part.right)
        if isinstance(part, ast.Call):
            known = dotted_name(part.func) in _FUNCTIONS and not part.keywords
            return known and all(fixed(a) for a in part.args)
        names = dotted_name(part).split(".")
        if len(names) < 2 or names[0] != first or names[1] not in held or names[1] in modules:
            return False
        if names[1] == "config":
            return True
        kind = attribute_kind(attention.info, names[1])
        return len(names) == 2 and kind in (Kind.NUMBER, Kind.UNKNOWN)

    return fixed(node)
