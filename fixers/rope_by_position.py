"""Compute cos and sin from ``position_ids`` instead of cutting a table to the length of a call.

The rotary classes lose their tables: what filled them becomes ``forward(x, position_ids)``, the
same operations on the positions asked for. The functions that indexed the table take cos and sin
as they are. All of a file changes together; whatever is not understood stops it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fixers import FixRefused
from fixers.splice import Splice, names, parameters
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.rules.threading.rope_by_length import LENGTH, POSITIONS, cuts_table
from modelcheck.source.bodies import callee_name, nodes_of
from modelcheck.source.classes import (
    ClassInfo,
    FunctionNode,
    dotted_name,
    is_self_attribute,
)

FREQUENCIES = "self.inv_freq"
REFILL = "_fill_buffers"  # what the fix of lost buffers adds


@dataclass(frozen=True)
class _Table:
    """How the forward of a rotary class reads its table."""

    info: ClassInfo
    forward: FunctionNode
    buffers: tuple[str, ...]  # cos first, or as the forward returns them
    cast: bool  # does it cast to the type of its input?
    filler: str  # the method that fills the table


def fix(text: str, finding: Finding) -> str:
    """``text`` without the tables. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    classes = splice.doc.index.classes.values()
    roots = [c for c in classes if c.is_module and cuts_table(c)]
    if len(roots) != 1:
        raise FixRefused("this file has more than one rotary table, or none", finding.span.line)
    table = _table(splice, roots[0])
    family = [c for c in classes if roots[0] in c.mro]
    for info in family:
        _without_table(splice, table, info)
    inside = {node for info in family for node in nodes_of(info.node)}
    for node in nodes_of(splice.tree):
        if isinstance(node, ast.Attribute) and node.attr in table.buffers and node not in inside:
            raise splice.refuse(f"{node.attr} is used outside its class", node)
    appliers = _ask_by_position(splice, inside)
    for function in appliers:
        _take_as_they_are(splice, function)
    return splice.text()


def _table(splice: Splice, info: ClassInfo) -> _Table:
    forward = info.methods["forward"]
    returns = [n for n in nodes_of(forward) if isinstance(n, ast.Return)]
    value = returns[0].value if len(returns) == 1 else None
    if not isinstance(value, ast.Tuple):
        raise splice.refuse("the rotary forward does not return a pair", forward)
    found = [_cut(splice, part) for part in value.elts]
    if [p.arg for p in parameters(forward)][2:] != [LENGTH]:
        raise splice.refuse("the rotary forward has other arguments", forward)
    for statement in forward.body:
        if not isinstance(statement, ast.Return | ast.If | ast.Expr):
            raise splice.refuse("the rotary forward does more than read its table", statement)
    fillers = [
        name
        for name, function in info.methods.items()
        if name != "__init__" and any(_registers(n) == found[0][0] for n in nodes_of(function))
    ]
    if len(fillers) != 1:
        raise splice.refuse("no one method fills the rotary table", info.node)
    buffers, casts = tuple(name for name, _ in found), {cast for _, cast in found}
    return _Table(info, forward, buffers, casts == {True}, fillers[0])


def _cut(splice: Splice, node: ast.expr) -> tuple[str, bool]:
    """The buffer behind ``self.cos_cached[:seq_len].to(dtype=x.dtype)``, and whether it casts."""
    cast = isinstance(node, ast.Call) and callee_name(node) == "to"
    inner = (
        node.func.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        else node
    )
    if isinstance(inner, ast.Subscript) and is_self_attribute(inner.value):
        return dotted_name(inner.value).partition(".")[2], cast
    raise splice.refuse("the rotary forward returns something else than cuts of its table", node)


def _registers(node: ast.AST) -> str:
    """The name of the buffer that a call registers."""
    if isinstance(node, ast.Call) and callee_name(node) == "register_buffer" and node.args:
        first = node.args[0]
        return str(first.value) if isinstance(first, ast.Constant) else ""
    return ""


def _without_table(splice: Splice, table: _Table, info: ClassInfo) -> None:
    """Give a rotary class a forward by position in place of what fills its table."""
    filler, forward = info.methods.get(table.filler), info.methods.get("forward")
    if forward is not None and forward is not table.forward:
        raise splice.refuse(f"{info.name} has a forward of its own", forward)
    for name, function in info.methods.items():
        if function in (filler, forward):
            continue
        for node in nodes_of(function):
            if isinstance(node, ast.Attribute) and node.attr == table.filler:
                statement = splice.statement_of(node)
                plain = isinstance(statement, ast.Expr) and statement in function.body
                if name not in ("__init__", REFILL) or not plain:
                    raise splice.refuse(f"{table.filler} is called here", node)
                splice.remove(statement)
                if name == REFILL:
                    _remove_idle(splice, function, statement)
            elif isinstance(node, ast.Attribute) and node.attr in table.buffers:
                raise splice.refuse(f"{node.attr} is used here", node)
    if filler is None:
        return
    new = _forward(splice, table, filler)
    if forward is None:
        splice.replace_from(filler, filler, new)
    else:
        splice.remove(filler)
        splice.replace_from(forward, forward, new)


def _remove_idle(splice: Splice, function: FunctionNode, gone: ast.stmt) -> None:
    """Remove the locals of a method that only a removed statement read."""
    inside = set(nodes_of(gone))
    for statement in function.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Name):
            reads = [n for n in names(function, target.id) if isinstance(n.ctx, ast.Load)]
            if reads and inside.issuperset(reads):
                splice.remove(statement, with_comments=False)


def _forward(splice: Splice, table: _Table, filler: FunctionNode) -> str:
    """The forward that computes for ``position_ids`` what a filler computed for all."""
    x = parameters(table.forward)[1].arg
    lines = [f"def forward(self, {x}, {POSITIONS}):"]
    results: dict[str, str] = {}
    frequencies = FREQUENCIES
    if any(_registers(n) == "inv_freq" for n in nodes_of(filler)):
        # A longer call has other frequencies (dynamic scaling).
        frequencies = "inv_freq"
        lines += [
            f"    {LENGTH} = int({POSITIONS}.max()) + 1",
            f"    device, inv_freq = {x}.device, {FREQUENCIES}",
        ]
    for statement in filler.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if _remembers_length(statement):
            continue
        name = _registers(statement.value) if isinstance(statement, ast.Expr) else ""
        if name in table.buffers and isinstance(statement, ast.Expr):
            assert isinstance(statement.value, ast.Call)
            results[name] = _result(splice, statement.value.args[1])
        elif isinstance(statement, ast.If):
            lines += _lengthened(splice, statement)
        elif isinstance(statement, ast.Assign):
            lines.append(f"    {_by_position(splice, statement, frequencies)}")
        else:
            raise splice.refuse("the rotary table is filled in a way not understood", statement)
    if set(results) != set(table.buffers):
        raise splice.refuse("not every part of the rotary table is filled", filler)
    cast = f".to(dtype={x}.dtype)" if table.cast else ""
    values = [f"{results[name]}{cast}" for name in table.buffers]
    return "\n".join([*lines, f"    return {', '.join(values)}"])


def _remembers_length(statement: ast.stmt) -> bool:
    """Is it ``self.max_seq_len_cached = seq_len``?"""
    return (
        isinstance(statement, ast.Assign)
        and dotted_name(statement.value) == LENGTH
        and all(is_self_attribute(t) for t in statement.targets)
    )


def _result(splice: Splice, value: ast.expr) -> str:
    """``emb.cos()`` of ``emb.cos()[None, None, :, :].to(dtype)``."""
    while True:
        if isinstance(value, ast.Call) and callee_name(value) == "to":
            given = [*value.args, *(k.value for k in value.keywords)]
            if [dotted_name(g) for g in given] == ["dtype"] and isinstance(
                value.func, ast.Attribute
            ):
                value = value.func.value
                continue
        if isinstance(value, ast.Subscript) and _only_adds_axes(value.slice):
            value = value.value
            continue
        break
    if any(n.id in ("dtype", "device") for n in nodes_of(value) if isinstance(n, ast.Name)):
        raise splice.refuse("the rotary table is cast in a way not understood", value)
    return splice.code(value)


def _only_adds_axes(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(
        (isinstance(p, ast.Constant) and p.value in (None, ...))
        or (isinstance(p, ast.Slice) and p.lower is p.upper is p.step is None)
        for p in parts
    )


def _lengthened(splice: Splice, statement: ast.If) -> list[str]:
    """The branch that changes the frequencies of a long call, for locals only."""
    if statement.orelse:
        raise splice.refuse("the frequencies of a long call are not understood", statement)
    lines = [f"    if {splice.code(statement.test)}:"]
    for inner in statement.body:
        if isinstance(inner, ast.Expr) and _registers(inner.value) == "inv_freq":
            assert isinstance(inner.value, ast.Call)
            if dotted_name(inner.value.args[1]) != "inv_freq":
                raise splice.refuse("inv_freq is not a local name", inner)
        elif isinstance(inner, ast.Assign) and all(isinstance(t, ast.Name) for t in inner.targets):
            indent = splice.indent(inner)
            first, *rest = splice.code(inner).replace("\r\n", "\n").split("\n")
            lines += [f"        {first}", *(f"        {r.removeprefix(indent)}" for r in rest)]
        else:
            raise splice.refuse("the frequencies of a long call are not understood", inner)
    return lines


def _by_position(splice: Splice, statement: ast.Assign, frequencies: str) -> str:
    """One assignment of the filler, for positions in place of all rows of the table."""
    target, value = splice.code(statement.targets[0]), statement.value
    if len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Name):
        raise splice.refuse("the rotary table is filled in a way not understood", statement)
    if _is_range(value):
        return f"{target} = {POSITIONS}.float()"
    product = _outer(value)
    if product is not None:
        rows, columns = product
        if splice.code(columns) != FREQUENCIES:
            raise splice.refuse("the angles are not products with self.inv_freq", statement)
        return f"{target} = {splice.code(rows)}[..., None] * {frequencies}.float()"
    joined = isinstance(value, ast.Call) and dotted_name(value.func) == "torch.cat"
    axes = [
        ast.unparse(k.value) for k in getattr(value, "keywords", ()) if k.arg in ("dim", "axis")
    ]
    if joined and axes == ["-1"]:
        return splice.code(statement)
    used = {n.id for n in nodes_of(value) if isinstance(n, ast.Name)}
    scaled = isinstance(value, ast.BinOp) and not used & {"device", "dtype", LENGTH}
    if scaled and not any(isinstance(n, ast.Call | ast.Subscript) for n in nodes_of(value)):
        return splice.code(statement)
    raise splice.refuse("the rotary table is filled in a way not understood", statement)


def _is_range(value: ast.expr) -> bool:
    """Is it all positions from 0, perhaps cast?"""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if dotted_name(value.func) == "torch.arange":
            # arange(n): the number of rows, from 0
            return len(value.args) == 1
        if callee_name(value) not in ("type_as", "to", "float"):
            return False
        value = value.func.value
    return False


def _outer(value: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The factors of an outer product."""
    if not isinstance(value, ast.Call):
        return None
    name, given = dotted_name(value.func), value.args
    if name in ("torch.outer", "torch.ger") and len(given) == 2:
        return given[0], given[1]
    if name == "torch.einsum" and len(given) == 3:
        equation = getattr(given[0], "value", "")
        if str(equation).replace(" ", "") == "i,j->ij":
            return given[1], given[2]
    return None


def _ask_by_position(splice: Splice, inside: set[ast.AST]) -> set[FunctionNode]:
    """Pass positions to the rotary modules; gives the functions that take their cos and sin."""
    appliers: set[FunctionNode] = set()
    asked: dict[FunctionNode, set[str]] = {}
    for call in [n for n in nodes_of(splice.tree) if isinstance(n, ast.Call)]:
        lengths = [k for k in call.keywords if k.arg == LENGTH]
        if call in inside or not lengths or not is_self_attribute(call.func):
            continue
        function = splice.function_of(call)
        known = {p.arg for p in parameters(function)} if function is not None else set()
        if function is None or POSITIONS not in known or len(call.args) != 1:
            raise splice.refuse(f"there is no {POSITIONS} to pass here", call)
        statement = splice.statement_of(call)
        if not isinstance(statement, ast.Assign) or statement.value is not call:
            raise splice.refuse("cos and sin are not assigned here", call)
        targets = {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        asked.setdefault(function, set()).update(targets)
        splice.replace(call, f"{splice.code(call.func)}({splice.code(call.args[0])}, {POSITIONS})")
        _forget_length(splice, function, lengths[0].value)
    for function, pair in asked.items():
        _index_directly(splice, function, pair)
        for call in [n for n in nodes_of(function) if isinstance(n, ast.Call)]:
            used = {n.id for a in call.args for n in [a] if isinstance(n, ast.Name)}
            applier = splice.doc.index.functions.get(dotted_name(call.func))
            if pair <= used and applier is not None:
                appliers.add(applier)
            elif pair <= used:
                raise splice.refuse(f"{dotted_name(call.func)} is not in this file", call)
    for applier in appliers:
        for use in names(splice.tree, applier.name):
            around = splice.function_of(use)
            if around not in asked:
                raise splice.refuse(f"{applier.name} is used with another table here", use)
    return appliers


def _forget_length(splice: Splice, function: FunctionNode, length: ast.expr) -> None:
    """Remove a plain assignment of a name that nothing else reads."""
    if not isinstance(length, ast.Name):
        return
    uses = [n for n in names(function, length.id) if n is not length]
    stores = [splice.parent(n) for n in uses if isinstance(n.ctx, ast.Store)]
    if len(stores) == len(uses) and all(isinstance(s, ast.Assign) for s in stores):
        for store in stores:
            assert isinstance(store, ast.Assign)
            if len(splice.block_of(store)) > 1:
                splice.remove(store)


def _take_as_they_are(splice: Splice, function: FunctionNode) -> None:
    pair = {
        node.value.id
        for node in nodes_of(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and dotted_name(node.slice) == POSITIONS
    }
    if not pair:
        raise splice.refuse(f"{function.name} does not index with {POSITIONS}", function)
    _index_directly(splice, function, pair)
    for statement in function.body:
        assigned = isinstance(statement, ast.Assign) and dotted_name(statement.targets[0]) in pair
        if assigned and _only_squeezes(statement):
            splice.remove(statement)


def _index_directly(splice: Splice, function: FunctionNode, pair: set[str]) -> None:
    """``cos`` in place of ``cos[position_ids]``."""
    for node in nodes_of(function):
        if isinstance(node, ast.Subscript) and dotted_name(node.value) in pair:
            if dotted_name(node.slice) != POSITIONS:
                raise splice.refuse(f"{splice.code(node.value)} is cut here", node)
            splice.replace(node, splice.code(node.value))


def _only_squeezes(statement: ast.stmt) -> bool:
    """Is it ``cos = cos.squeeze(1).squeeze(0)``, which the rows of a table needed?"""
    value: ast.AST | None = getattr(statement, "value", None)
    found = False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if callee_name(value) != "squeeze":
            return False
        found, value = True, value.func.value
    return found and isinstance(value, ast.Name)
