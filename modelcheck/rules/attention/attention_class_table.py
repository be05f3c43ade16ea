"""The attention class is looked up in a table keyed by the implementation name.

What it does
------------
Reports `TABLE[config._attn_implementation]`, where the table holds attention classes, in the class
that does the lookup. `TABLE.get(…, default)` gets a note only, `TABLE.get(…)` is as bad.

Why it matters
--------------
vLLM (every release) sets the implementation name to "vllm" before it builds the model; the table
has no such entry, so building the layer raises `KeyError: 'vllm'`.

Example
-------
```python
from torch import nn
from transformers.models.llama.modeling_llama import LlamaAttention

ATTENTION_CLASSES = {"eager": LlamaAttention, "sdpa": LlamaAttention}


class ToyDecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = ATTENTION_CLASSES[config._attn_implementation](config, layer_idx)

    def forward(self, hidden_states, **kwargs):
        return hidden_states + self.self_attn(hidden_states, **kwargs)[0]
```

Use instead
-----------
```python
from torch import nn
from transformers.models.llama.modeling_llama import LlamaAttention


class ToyDecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = LlamaAttention(config, layer_idx)

    def forward(self, hidden_states, **kwargs):
        return hidden_states + self.self_attn(hidden_states, **kwargs)[0]
```

Fix safety
----------
Unsafe fix, for a table of this file. The class of the entry "eager" is built directly; the table
and its other classes are deleted when nothing else in the file names them. It rests on this: the
other classes differ from it only in how they compute the same attention. Left alone when one of
them adds parameters or is no subclass, and when the class that stays does not call the attention
interface and cannot be made to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import INTERFACE
from modelcheck.source.bodies import Body, body
from modelcheck.source.classes import ClassInfo, FileIndex, dotted_name
from modelcheck.source.layers import Role, class_role

CODE = "MC102"
KEY = "_attn_implementation"


def check(context: Context) -> Iterable[Finding]:
    """Look at the methods of every class that is not in an image, sound or video tower."""
    if KEY not in context.file.source.text:
        return
    lines = [n for n, line in enumerate(context.file.source.lines, start=1) if KEY in line]
    for info in context.file.classes.values():
        for method in info.methods.values():
            if not any(method.lineno <= n <= (method.end_lineno or 0) for n in lines):
                continue
            if class_role(info) is Role.OTHER:
                continue
            nodes = body(context.file, method)
            keys = _key_names(nodes)
            for subscript in nodes.all(ast.Subscript):
                table = dotted_name(subscript.value)
                if _is_key(subscript.slice, keys) and _holds_classes(context.file, table):
                    yield _finding(context, info, subscript, table)
            for call in nodes.all(ast.Call):
                yield from _get(context, info, call, keys)


def _get(
    context: Context, info: ClassInfo, call: ast.Call, keys: frozenset[str]
) -> Iterable[Finding]:
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "get" and call.args):
        return
    table = dotted_name(call.func.value)
    if not _is_key(call.args[0], keys) or not _holds_classes(context.file, table):
        return
    if len(call.args) + len(call.keywords) < 2:
        yield _finding(context, info, call, table)
        return
    yield context.finding(
        CODE,
        Severity.INFO,
        info,
        call,
        f"{info.name} looks its attention class up in {table}; under vLLM it gets the default.",
        "Keep one attention class that calls the attention interface.",
        _fix(context, table),
    )


def _finding(context: Context, info: ClassInfo, node: ast.expr, table: str) -> Finding:
    return context.finding(
        CODE,
        Severity.ERROR,
        info,
        node,
        f"{info.name} looks its attention class up in {table}, which has no entry for the "
        f"implementation name vLLM sets: KeyError 'vllm'.",
        "Keep one attention class that calls the attention interface and build it directly.",
        _fix(context, table),
    )


def _fix(context: Context, table: str) -> Fix | None:
    if not isinstance(context.file.assignments.get(table), ast.Dict):
        return None
    title = f"Build the eager class of {table} directly and delete the table"
    return Fix("attention_class_table", title, Safety.UNSAFE, {"table": table})


def _key_names(nodes: Body) -> frozenset[str]:
    """Locals that hold the implementation name."""
    return frozenset(
        target.id
        for assignment in nodes.all(ast.Assign)
        for target in assignment.targets
        if isinstance(target, ast.Name) and _names_key(assignment.value)
    )


def _is_key(node: ast.expr, keys: frozenset[str]) -> bool:
    return (isinstance(node, ast.Name) and node.id in keys) or _names_key(node)


def _names_key(node: ast.expr) -> bool:
    """``config._attn_implementation`` or ``getattr(config, "_attn_implementation", …)``."""
    if isinstance(node, ast.Attribute):
        return node.attr == KEY
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "getattr"
        and any(isinstance(a, ast.Constant) and a.value == KEY for a in node.args)
    )


def _holds_classes(file: FileIndex, table: str) -> bool:
    """Is it a dict of this file with classes in it, or, imported, named like one?"""
    last = table.rpartition(".")[2]
    if not table or last == INTERFACE:
        return False
    value = file.assignments.get(table)
    if not isinstance(value, ast.Dict):
        return last.upper().endswith("ATTENTION_CLASSES")
    if any(isinstance(k, ast.Constant) and k.value == "vllm" for k in value.keys):
        return False
    return any(
        isinstance(file.resolve(dotted_name(v)), ClassInfo) or dotted_name(v) in file.imports
        for v in value.values
    )
