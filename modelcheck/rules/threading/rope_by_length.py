"""The rotary table is cut to the length of the step before it is indexed with positions.

What it does
------------
Reports an attention that asks its rotary embedding for a table of as many rows as the call has
tokens, and indexes that table with `position_ids`.

Why it matters
--------------
vLLM (every release) passes no cache: at a decode step a call has one token of each request, and
their positions are far beyond the rows of the table, so indexing it fails. In a longer call with
mixed requests rows that a request needs may be missing as well.

Example
-------
```python
import torch
from torch import nn


class MyRotaryEmbedding(nn.Module):
    def __init__(self, dim, length=64):
        super().__init__()
        inv_freq = 1.0 / 10000 ** (torch.arange(0, dim, 2).float() / dim)
        angles = torch.outer(torch.arange(length).float(), inv_freq).repeat(1, 2)
        self.register_buffer("cos_cached", angles.cos(), persistent=False)
        self.register_buffer("sin_cached", angles.sin(), persistent=False)

    def forward(self, x, seq_len=None):
        return self.cos_cached[:seq_len], self.sin_cached[:seq_len]


class MyRotation(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.rotary_emb = MyRotaryEmbedding(config.head_dim)

    def forward(self, query, position_ids):
        kv_seq_len = query.shape[-2]
        cos, sin = self.rotary_emb(query, seq_len=kv_seq_len)
        first, second = query.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        return query * cos[position_ids].unsqueeze(1) + turned * sin[position_ids].unsqueeze(1)
```

Use instead
-----------
```python
import torch
from torch import nn


class MyRotaryEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        inv_freq = 1.0 / 10000 ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, x, position_ids):
        angles = (position_ids[..., None].float() * self.inv_freq).repeat(1, 1, 2)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class MyRotation(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.rotary_emb = MyRotaryEmbedding(config.head_dim)

    def forward(self, query, position_ids):
        cos, sin = self.rotary_emb(query, position_ids)
        first, second = query.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        return query * cos.unsqueeze(1) + turned * sin.unsqueeze(1)
```

Fix safety
----------
Unsafe: the table goes, and cos and sin are computed from `position_ids` with the same operations,
which gives the same numbers. With dynamic scaling the length is taken as the longest position of
the call; the table remembered the longest of all calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

CODE = "MC206"
LENGTH = "seq_len"
POSITIONS = "position_ids"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each class that asks for such a table."""
    if LENGTH not in context.file.source.text:
        return
    tables = [c for c in context.file.classes.values() if c.is_module and cuts_table(c)]
    if not tables:
        return
    for info in context.file.classes.values():
        if not info.is_module or info in tables:
            continue
        for function in info.methods.values():
            call = _asked_by_length(context, function)
            if call is None or not _holds(info, call, tables):
                continue
            yield context.finding(
                CODE,
                Severity.ERROR,
                info,
                call,
                f"{info.name} cuts the rotary table to the length of the call: vLLM's decode "
                "steps have positions beyond it",
                "Compute cos and sin from position_ids.",
                Fix(
                    "rope_by_position",
                    "compute the rotary embedding from position_ids, without a table",
                    Safety.UNSAFE,
                ),
            )
            break


def cuts_table(info: ClassInfo) -> bool:
    """Does the forward return buffers cut to ``seq_len``, whatever the positions?"""
    function = info.methods.get("forward")
    if function is None:
        return False
    names = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    if LENGTH not in names or POSITIONS in names:
        return False
    return any(
        isinstance(node, ast.Slice)
        and isinstance(node.upper, ast.Name)
        and node.upper.id == LENGTH
        and node.lower is None
        for statement in nodes_of(function)
        if isinstance(statement, ast.Return)
        for node in nodes_of(statement)
    )


def _holds(info: ClassInfo, call: ast.Call, tables: list[ClassInfo]) -> bool:
    """May the submodule be one of the tables?"""
    assigned = [
        node.value
        for current in info.mro
        for function in current.methods.values()
        for node in nodes_of(function)
        if isinstance(node, ast.Assign) and any(_same(t, call.func) for t in node.targets)
    ]
    made = [
        info.file.resolve(dotted_name(node.func))
        for value in assigned
        for node in nodes_of(value)
        if isinstance(node, ast.Call)
    ]
    built = {target for target in made if isinstance(target, ClassInfo)}
    if not built:
        known = any(isinstance(name, str) and name.startswith("torch.") for name in made)
        return bool(assigned) and not known and len(tables) == 1
    return any(table in target.mro for target in built for table in tables)


def _same(one: ast.AST, other: ast.AST) -> bool:
    return dotted_name(one) == dotted_name(other) != ""


def _asked_by_length(context: Context, function: FunctionNode) -> ast.Call | None:
    """The call of a submodule with a ``seq_len`` taken from a shape, where positions matter."""
    nodes = body(context.file, function)
    if not nodes.mentions(frozenset((POSITIONS,))):
        return None
    for call in nodes.all(ast.Call):
        if not is_self_attribute(call.func):
            continue
        given = [k.value for k in call.keywords if k.arg == LENGTH]
        if given and is_length(given[0], nodes.all(ast.Assign)):
            return call
    return None


def is_length(name: ast.expr, assignments: Sequence[ast.Assign]) -> bool:
    """Is it a local that is assigned from shapes, and from no positions?"""
    if not isinstance(name, ast.Name):
        return False
    values = [a.value for a in assignments if any(_same(t, name) for t in a.targets)]
    mentioned = {
        part
        for value in values
        for node in ast.walk(value)
        for part in (getattr(node, "attr", ""), getattr(node, "id", ""))
    }
    return bool(mentioned & {"shape", "size"}) and POSITIONS not in mentioned
