"""The attention class is looked up in a table keyed by the implementation name.

What it does
------------
Reports `TABLE[config._attn_implementation]`, where the table holds attention classes, in the class
that does the lookup or has a function of the file do it, and a chain of comparisons with
implementation names that ends in `raise`. `TABLE.get(…, default)` gets a note only, `TABLE.get(…)`
is as bad.

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
from modelcheck.rules.settings import compared
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
                if _is_key(subscript.slice, keys) and _has_classes(context.file, subscript.value):
                    table = dotted_name(subscript.value) or "a dictionary"
                    yield _finding(context, info, subscript, table)
            for call in nodes.all(ast.Call):
                yield from _get(context, info, call, keys)
            yield from _chain(context, info, nodes, keys)
    yield from _through_functions(context)


def _through_functions(context: Context) -> Iterable[Finding]:
    """Constructors that leave the lookup to a function of the file."""
    looked_up = {
        name
        for name, function in context.file.functions.items()
        if (nodes := body(context.file, function)).mentions(frozenset((KEY,)))
        for subscript in nodes.all(ast.Subscript)
        if _is_key(subscript.slice, _key_names(nodes))
        and _has_classes(context.file, subscript.value)
    }
    for info in context.file.classes.values() if looked_up else ():
        init = info.methods.get("__init__")
        if init is None or class_role(info) is Role.OTHER:
            continue
        for call in body(context.file, init).all(ast.Call):
            if dotted_name(call.func) in looked_up:
                yield _finding(context, info, call, f"the table of {dotted_name(call.func)}")


def _chain(
    context: Context, info: ClassInfo, nodes: Body, keys: frozenset[str]
) -> Iterable[Finding]:
    """``if implementation == "eager": ... elif ... else: raise``."""
    inner = {id(branch.orelse[0]) for branch in nodes.all(ast.If) if len(branch.orelse) == 1}
    for first in nodes.all(ast.If):
        branch, built = first, []
        while _tests_key(branch.test, keys):
            built += [n for s in branch.body for n in ast.walk(s) if isinstance(n, ast.Call)]
            if len(branch.orelse) != 1 or not isinstance(branch.orelse[0], ast.If):
                break
            branch = branch.orelse[0]
        raises = branch.orelse and isinstance(branch.orelse[0], ast.Raise)
        if not raises or not _tests_key(branch.test, keys) or id(first) in inner:
            continue
        if any(_is_module(context.file, call) for call in built):
            yield context.finding(
                CODE,
                Severity.ERROR,
                info,
                first,
                f"{info.name} chooses its attention class by the implementation's name and raises "
                "for the one that vLLM sets, 'vllm'.",
                "Keep one attention class that calls the attention interface and build it "
                "directly.",
            )


def _tests_key(test: ast.expr, keys: frozenset[str]) -> bool:
    """Is the implementation compared with names, none of them vLLM's?"""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not _is_key(test.left, keys):
        return False
    if not isinstance(test.ops[0], ast.Eq | ast.In):
        return False
    names = [n.value for n in ast.walk(test.comparators[0]) if isinstance(n, ast.Constant)]
    return bool(names) and "vllm" not in names and all(isinstance(n, str) for n in names)


def _is_module(file: FileIndex, call: ast.Call) -> bool:
    target = file.resolve(dotted_name(call.func))
    return isinstance(target, ClassInfo) and target.is_module


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
    classes = context.file.assignments.get(table)
    if not isinstance(classes, ast.Dict):
        return None
    title = f"Build the eager class of {table} directly and delete the table"
    named = [v for v in classes.values if isinstance(v, ast.Name)]
    infos = [i for v in named if isinstance(i := context.file.resolve(v.id), ClassInfo)]
    data = {key: value for info in infos[::-1] for key, value in compared(context, info).items()}
    return Fix("attention_class_table", title, Safety.UNSAFE, {"table": table, **data})


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


def _has_classes(file: FileIndex, node: ast.expr) -> bool:
    """Is it a dictionary of classes, written in place or named?"""
    if isinstance(node, ast.Dict):
        return _maps_to_classes(file, node)
    return _holds_classes(file, dotted_name(node))


def _holds_classes(file: FileIndex, table: str) -> bool:
    """Is it a dict of this file with classes in it, or, imported, named like one?"""
    last = table.rpartition(".")[2]
    if not table or last == INTERFACE:
        return False
    value = file.assignments.get(table)
    if isinstance(value, ast.Dict):
        return _maps_to_classes(file, value)
    if isinstance(value, ast.Call) and dotted_name(value.func) == "dict" and not value.args:
        keys: list[ast.expr | None] = [ast.Constant(k.arg) for k in value.keywords]
        return _maps_to_classes(file, ast.Dict(keys, [k.value for k in value.keywords]))
    return last.upper().endswith("ATTENTION_CLASSES")


def _maps_to_classes(file: FileIndex, table: ast.Dict) -> bool:
    if any(isinstance(k, ast.Constant) and k.value == "vllm" for k in table.keys):
        return False
    if any(k is None for k in table.keys):
        return False  # **other
    return any(
        isinstance(file.resolve(dotted_name(v)), ClassInfo) or dotted_name(v) in file.imports
        for v in table.values
    )
