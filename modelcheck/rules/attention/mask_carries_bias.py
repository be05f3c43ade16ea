"""A learned or computed bias reaches attention through the mask.

What it does
------------
Reports a dispatching attention whose mask argument is made from a parameter, buffer or submodule of
the attention, or from a `…bias` or `alibi` argument of its forward, and a text model whose forward
always puts slopes into the mask of its layers. Masks made only of the incoming mask and positions
are not reported.

Why it matters
--------------
vLLM ignores the mask in every release: ALiBi, relative position bias and learned or sparse masks
are dropped, and the numbers are wrong without an error.

Example
-------
```python
import torch
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
        self.slopes = nn.Parameter(torch.ones(config.num_attention_heads, 1, 1))
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
        bias = self.slopes * torch.arange(key.shape[2], device=key.device)
        attention_mask = bias if attention_mask is None else attention_mask + bias
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
No fix: the backend takes no bias. Such a model needs an implementation in vLLM itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import Attention
from modelcheck.source.attributes import Kind, attribute_kind
from modelcheck.source.bodies import Body, body, callee_name, self_name
from modelcheck.source.callpath import children, is_head_model, text_models
from modelcheck.source.classes import ClassInfo, FunctionNode, Signature, is_self_attribute
from modelcheck.source.layers import Role, class_role, dispatching, layer_attentions
from modelcheck.versions.reach import runs_always

CODE = "MC110"
MASK_POSITION = 4  # module, query, key, value, attention_mask
_METADATA = frozenset(("dtype", "device", "shape", "ndim", "size", "dim", "numel"))
_BIAS_WORDS = ("bias", "alibi")
_SLOPES = ("alibi", "slope")  # of a local: "bias" may be the causal mask


def check(context: Context) -> Iterable[Finding]:
    """Follow the mask argument of every interface call back through its forward."""
    for attention in dispatching(context.file):
        if not attention.here or attention.is_cross or class_role(attention.info) is Role.OTHER:
            continue
        mask = _mask_argument(attention)
        if mask is None:
            continue
        node = _biased(attention, mask)
        if node is not None:
            yield context.finding(
                CODE,
                Severity.WRONG,
                attention.info,
                node,
                f"{attention.info.name}.forward puts values that it computes into the attention "
                "mask, and vLLM ignores the mask: they are lost.",
                "Leave the mask as it came in; a model that needs a bias or a learned mask needs "
                "its own implementation in vLLM.",
            )
    if any(map(context.file.source.mentions, _SLOPES)) and any(dispatching(context.file)):
        yield from _in_models(context)


def _in_models(context: Context) -> Iterable[Finding]:
    """Text models that add slopes to the mask before they hand it to their layers."""
    for model in text_models(context.file):
        function = model.methods.get("forward")
        if function is None or is_head_model(model) or not any(layer_attentions(model)):
            continue
        node = _sloped(model, function)
        if node is not None:
            yield context.finding(
                CODE,
                Severity.WRONG,
                model,
                node,
                f"{model.name}.forward puts a position bias into the attention mask, and vLLM "
                "ignores the mask: it is lost.",
                "Leave the mask as it came in; a model that needs such a bias needs its own "
                "implementation in vLLM.",
            )


def _sloped(model: ClassInfo, function: FunctionNode) -> ast.stmt | None:
    """The statement that certainly runs and puts slopes into a mask, in forward."""
    tainted = _slopes(body(model.file, function))
    certain = runs_always(function)
    for target, value, statement in _assignments(body(model.file, function)):
        if "mask" not in target.lower() or value not in certain:
            continue
        if {n.id for n in ast.walk(value) if isinstance(n, ast.Name)} & tainted:
            return statement
        if not isinstance(value, ast.Call) or not is_self_attribute(value.func):
            continue
        hit = model.find_method(callee_name(value))
        if hit is None:
            continue
        nodes = body(hit[0].file, hit[1])
        inner = _slopes(nodes)
        returned = [s.value for s in nodes.all(ast.Return) if s.value is not None]
        if returned and all(
            {n.id for n in ast.walk(r) if isinstance(n, ast.Name)} & inner for r in returned
        ):
            return statement
    return None


def _slopes(nodes: Body) -> set[str]:
    """Locals that hold slopes or ALiBi, or are computed from them."""
    found: set[str] = set()
    for target, value, _ in _assignments(nodes):
        names = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(value)} | {target}
        if names & found or any(word in name.lower() for name in names for word in _SLOPES):
            found.add(target)
    return found


def _mask_argument(attention: Attention) -> ast.expr | None:
    call = attention.call
    assert call is not None
    if any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if len(call.args) > MASK_POSITION:
        return call.args[MASK_POSITION]
    return next((k.value for k in call.keywords if k.arg == "attention_mask"), None)


def _biased(attention: Attention, mask: ast.expr) -> ast.AST | None:
    """Where a bias enters the mask, None when it does not."""
    nodes = body(attention.owner.file, attention.function)
    first = self_name(attention.function)
    signature = Signature.of(attention.function)
    wanted = {n.id for n in ast.walk(mask) if isinstance(n, ast.Name)}
    assignments = _assignments(nodes)
    tainted = {
        name
        for name in (*signature.positional, *signature.keyword_only)
        if any(word in name.lower() for word in _BIAS_WORDS)
    }
    tainted |= {t for t, _, _ in assignments if any(word in t.lower() for word in _SLOPES)}
    untouched = not any(target in wanted for target, _, _ in assignments)
    if isinstance(mask, ast.Name) and untouched and mask.id not in tainted:
        return None  # the mask goes through as it came in
    learned = _learned(attention)
    if _reads(mask, tainted, learned, first):
        return mask
    for target, value, statement in assignments:
        if not _reads(value, tainted, learned, first):
            continue
        tainted.add(target)
        if target in wanted:
            return statement
    return None


def _learned(attention: Attention) -> frozenset[str]:
    """Attributes that hold parameters, buffers or modules, and methods that may read them."""
    info = attention.info
    names = {c.attr for c in children(info)}
    names.update(
        n for n in info.self_assignments if attribute_kind(info, n) in (Kind.PARAMETER, Kind.TENSOR)
    )
    names.update(_buffers(attention))
    return frozenset(names)


def _buffers(attention: Attention) -> Iterable[str]:
    for ancestor in attention.info.mro:
        if "__init__" in ancestor.methods:
            for call in body(ancestor.file, ancestor.methods["__init__"]).all(ast.Call):
                func = call.func
                if isinstance(func, ast.Attribute) and func.attr == "register_buffer" and call.args:
                    yield str(getattr(call.args[0], "value", ""))


def _assignments(nodes: Body) -> list[tuple[str, ast.expr, ast.stmt]]:
    """Local assignments in source order; a tuple target gives one per name."""
    found: list[tuple[str, ast.expr, ast.stmt]] = []
    for statement in nodes.all(ast.Assign):
        for target in statement.targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    found.append((name.id, statement.value, statement))
    for augmented in nodes.all(ast.AugAssign):
        if isinstance(augmented.target, ast.Name):
            found.append((augmented.target.id, augmented.value, augmented))
    return sorted(found, key=lambda f: f[2].lineno)


def _reads(node: ast.AST, tainted: set[str], learned: frozenset[str], first: str) -> bool:
    """Does an expression use a learned or computed value, its dtype and shape aside?"""
    if isinstance(node, ast.Attribute) and node.attr in _METADATA:
        return False
    if is_self_attribute(node, first):
        return getattr(node, "attr", "") in learned
    if isinstance(node, ast.Name):
        return node.id in tainted
    return any(_reads(child, tainted, learned, first) for child in ast.iter_child_nodes(node))
