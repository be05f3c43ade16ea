"""A computed buffer is lost when transformers loads the model.

What it does
------------
Looks at `register_buffer(name, value, persistent=False)` with a computed value, in a file whose
`PreTrainedModel` class has an `_init_weights` of its own that neither mentions the buffer nor
calls `super()._init_weights`; and, with or without an own one, at a buffer that transformers'
method does not know how to fill. A method that the constructor calls may make it. A class that
writes the buffer again in its `forward` is left alone.

Why it matters
--------------
transformers 5 builds the model on the meta device, and makes such buffers anew as *empty* memory:
only `_init_weights` fills them. Its own fills `inv_freq` and `original_inv_freq` of rotary
embeddings, no others. Otherwise `from_pretrained` gives a model that computes with what the
memory held, without an error. vLLM (all releases) keeps the buffers: for vLLM the finding is
`info`, with `--transformers` it is `wrong`.

Example
-------
```python
import torch
from torch import nn
from transformers import PreTrainedModel


class MyPositions(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.register_buffer("steps", torch.arange(config.length) * 0.5, persistent=False)

    def forward(self, x):
        return x + self.steps


class MyPreTrainedModel(PreTrainedModel):
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            module.weight.data.normal_(mean=0.0, std=0.02)
```

Use instead
-----------
```python
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init


class MyPositions(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.length = config.length
        self.register_buffer("steps", torch.arange(config.length) * 0.5, persistent=False)

    def forward(self, x):
        return x + self.steps


class MyPreTrainedModel(PreTrainedModel):
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, MyPositions):
            init.copy_(module.steps, torch.arange(module.length) * 0.5)
```

Fix safety
----------
Safe: the statements that compute the buffers are repeated in a method that `_init_weights` calls.
The fix is refused where they are not plain assignments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, callee_name, nodes_of, self_name
from modelcheck.source.classes import ClassInfo, FunctionNode, is_self_attribute
from modelcheck.versions.judged import judged, transformers_only

CODE = "MC907"
SINCE = "5.0"
REGISTER, FILL = "register_buffer", "_init_weights"
ROPE = {"inv_freq", "original_inv_freq"}


def check(context: Context) -> Iterable[Finding]:
    """One finding for each buffer."""
    text = context.file.source.text
    if REGISTER not in text or not judged(context).lacks(SINCE):
        return
    fillers = [i for i in context.file.classes.values() if i.kind == "pretrained"]
    if not fillers or not all(_plain(i) for i in fillers):
        return
    mentioned = _mentioned(fillers)
    base = _base_runs(fillers)
    for info in context.file.classes.values():
        if not info.is_module or "__init__" not in info.methods:
            continue
        for method, name, call in _buffers(context, info):
            if name in mentioned or _rewritten(info, name, method):
                continue
            if base and name in ROPE and "RotaryEmbedding" in info.name and _knows(info):
                continue
            yield context.finding(
                CODE,
                transformers_only(context, Severity.WRONG),
                info,
                call,
                f"transformers {SINCE} and later load the buffer {name} as empty memory: no "
                f"{FILL} fills it",
                f"Fill it in {FILL} of the PreTrainedModel class, which should call "
                f"super().{FILL}(module) first.",
                Fix("v5_init_weights", f"fill the buffers of {info.name} in {FILL}"),
            )


def _plain(info: ClassInfo) -> bool:
    """Are all ancestors in sight?"""
    last = [base.rpartition(".")[2] for base in info.external_bases]
    return all(n == "PreTrainedModel" or n.endswith("Mixin") or n == "ABC" for n in last)


def _mentioned(fillers: list[ClassInfo]) -> set[str]:
    """Every attribute and text in the _init_weights methods, and in methods that they call."""
    names: set[str] = set()
    called: set[str] = set()
    for info in fillers:
        for current in info.mro:
            if FILL in current.methods:
                for node in nodes_of(current.methods[FILL]):
                    if isinstance(node, ast.Attribute):
                        names.add(node.attr)
                    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                        names.add(node.value)
                    if isinstance(node, ast.Call):
                        called.add(callee_name(node))
    followed: set[str] = set()
    while pending := called - followed:
        followed |= pending
        for info in fillers[0].file.classes.values():
            for name in pending & set(info.methods):
                for node in nodes_of(info.methods[name]):
                    if isinstance(node, ast.Attribute):
                        names.add(node.attr)
                    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                        names.add(node.value)
                    if isinstance(node, ast.Call):
                        called.add(callee_name(node))
    return names


def _base_runs(fillers: list[ClassInfo]) -> bool:
    """Does transformers' own _init_weights run for every module?"""
    for info in fillers:
        found = info.find_method(FILL)
        if found is None:
            continue
        if not any(isinstance(n, ast.Attribute) and n.attr == FILL for n in nodes_of(found[1])):
            return False
    return True


def _knows(info: ClassInfo) -> bool:
    """Has the class what transformers looks for in a rotary embedding?"""
    return any(
        (isinstance(node, ast.Constant) and node.value == "original_inv_freq")
        or (is_self_attribute(node) and getattr(node, "attr", "") == "original_inv_freq")
        for current in info.mro
        for node in nodes_of(current.node)
    )


def _buffers(context: Context, info: ClassInfo) -> Iterator[tuple[str, str, ast.Call]]:
    """Method, name and call of each buffer that the constructor makes, itself or in a method."""
    for method in ("__init__", *sorted(makers(info))):
        for name, call in _made(context, info.methods[method]):
            yield method, name, call


def makers(info: ClassInfo) -> set[str]:
    """The methods that the constructor calls, and nothing else does unless a length is exceeded."""
    called: set[str] = set()
    for statement in info.methods["__init__"].body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and is_self_attribute(call.func):
            called.add(callee_name(call))
    for name, function in info.methods.items():
        if name != "__init__":
            called -= {n.attr for n in _beyond_growth(function) if isinstance(n, ast.Attribute)}
    return called & set(info.methods)


def _made(context: Context, function: FunctionNode) -> Iterator[tuple[str, ast.Call]]:
    for call in body(context.file, function).all(ast.Call):
        if callee_name(call) != REGISTER or not is_self_attribute(call.func, self_name(function)):
            continue
        kept = [k.value for k in call.keywords if k.arg == "persistent"] + call.args[2:3]
        lost = [v for v in kept if isinstance(v, ast.Constant) and v.value is False]
        name = call.args[0] if call.args else None
        value = buffer_value(call)
        if not lost or not isinstance(name, ast.Constant) or value is None:
            continue
        if isinstance(value, ast.Constant) or not isinstance(name.value, str):
            continue  # None: there is no buffer yet
        yield name.value, call


def buffer_value(call: ast.Call) -> ast.expr | None:
    """The tensor that ``register_buffer`` is given."""
    given = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "tensor")]
    return given[0] if given else None


def _rewritten(info: ClassInfo, name: str, maker: str) -> bool:
    """Is the buffer written, or registered, again outside the constructor and its maker?"""
    for current in info.mro:
        for method, function in current.methods.items():
            if method in ("__init__", maker):
                continue
            for node in _beyond_growth(function):
                if is_self_attribute(node, self_name(function)) and isinstance(
                    getattr(node, "ctx", None), ast.Store
                ):
                    if getattr(node, "attr", "") == name:
                        return True
                elif isinstance(node, ast.Constant) and node.value == name:
                    return True
    return False


def _beyond_growth(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function but for those that run only when a length is exceeded."""
    yield node
    for child in ast.iter_child_nodes(node):
        grows = isinstance(child, ast.If) and any(
            isinstance(op, ast.Gt | ast.Lt)
            for part in ast.walk(child.test)
            if isinstance(part, ast.Compare)
            for op in part.ops
        )
        if not grows:
            yield from _beyond_growth(child)
