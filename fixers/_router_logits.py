"""A block of experts that returns its output alone, and a layer that asks for the logits itself."""

from __future__ import annotations

import ast

from fixers.splice import Splice
from fixers.toolkit import free_name
from modelcheck.source.bodies import nodes_of
from modelcheck.source.callpath import Hop, children, hops
from modelcheck.source.classes import ClassInfo, FunctionNode

PAIR = 2


def drop_logits(
    splice: Splice,
    info: ClassInfo,
    forward: FunctionNode,
    gate: str,
    logits: str,
    last: ast.stmt,
) -> None:
    """Take the logits out of what a block returns, and of what its callers expect.

    Raises `FixRefused` where a caller does with them what is not understood.
    """
    returns = [n for n in nodes_of(forward) if isinstance(n, ast.Return)]
    pairs = [r.value for r in returns if isinstance(r.value, ast.Tuple)]
    if not pairs:
        return
    pair = pairs[0]
    known = len(returns) == 1 and len(pair.elts) == PAIR and isinstance(pair.elts[1], ast.Name)
    if not known or pair.elts[1].id != logits:  # type: ignore[attr-defined]
        raise splice.refuse("the block returns more than its output and the logits", returns[0])
    rest = forward.body[forward.body.index(last) + 1 :]
    uses = [n for s in rest for n in nodes_of(s) if isinstance(n, ast.Name) and n.id == logits]
    if len(uses) != 1:
        raise splice.refuse("the block uses its logits", uses[0])
    callers = _callers(info)
    if not callers:
        raise splice.refuse("the block returns a pair to code that is not in this file", returns[0])
    for hop in callers:
        _caller(splice, info, hop, gate)
    start, end = splice.span(pair)
    first, after = splice.span(pair.elts[0])
    if start < first:
        splice.cut(start, first)
    splice.cut(after, end)
    _annotation(splice, forward)


def _annotation(splice: Splice, forward: FunctionNode) -> None:
    """``-> Tuple[Tensor, Tensor]`` is no longer true."""
    note = forward.returns
    if not isinstance(note, ast.Subscript) or not isinstance(note.slice, ast.Tuple):
        return
    if ast.unparse(note.value).rpartition(".")[2].lower() == "tuple":
        splice.replace(note, splice.code(note.slice.elts[0]))


def _callers(info: ClassInfo) -> list[Hop]:
    """The calls of the block in this file."""
    found = []
    for cls in info.file.classes.values():
        if not cls.is_module:
            continue
        held = {child.attr for child in children(cls) if child.cls is info}
        found += [hop for hop in hops(cls) if hop.attr in held and hop.owner is cls]
    return found


def _caller(splice: Splice, info: ClassInfo, hop: Hop, gate: str) -> None:
    statement = splice.parent(hop.call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        raise splice.refuse("what the block returns is not simply assigned", hop.call)
    argument = hop.call.args[0] if len(hop.call.args) == 1 else None
    if not isinstance(argument, ast.Name) or hop.call.keywords:
        raise splice.refuse("the block is not called with one name", hop.call)
    target = statement.targets[0]
    if isinstance(target, ast.Tuple) and len(target.elts) == PAIR:
        output, logits = target.elts
        splice.replace(target, splice.code(output))
        checked = False
    elif isinstance(target, ast.Name):
        logits = _unpacked(splice, statement, target.id)
        checked = True
    else:
        raise splice.refuse("what the block returns is not simply assigned", statement)
    if not isinstance(logits, ast.Name):
        raise splice.refuse("the logits have no name", statement)
    _hand_on(splice, hop, statement, argument.id, logits.id, gate, info.name if checked else "")


def _unpacked(splice: Splice, statement: ast.stmt, name: str) -> ast.expr:
    """``if isinstance(x, tuple): x, logits = x`` behind a call goes; the name of the logits."""
    block = splice.block_of(statement)
    after = block[block.index(statement) + 1]
    if (
        isinstance(after, ast.If)
        and ast.unparse(after.test) == f"isinstance({name}, tuple)"
        and len(after.body) == 1
        and isinstance(after.body[0], ast.Assign)
        and isinstance(after.body[0].targets[0], ast.Tuple)
        and len(after.body[0].targets[0].elts) == PAIR
        and ast.unparse(after.body[0].targets[0].elts[0]) == name
        and ast.unparse(after.body[0].value) == name
        and all(_sets_none(s) for s in after.orelse)
    ):
        splice.remove(after)
        return after.body[0].targets[0].elts[1]
    raise splice.refuse("the layer does not expect a pair here", statement)


def _sets_none(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is None
    )


def _hand_on(
    splice: Splice,
    hop: Hop,
    statement: ast.Assign,
    argument: str,
    logits: str,
    gate: str,
    checked: str,
) -> None:
    """Where the layer returned the logits, if it was asked to, it asks the router for them."""
    uses = [
        n
        for n in nodes_of(hop.function)
        if isinstance(n, ast.Name) and n.id == logits and isinstance(n.ctx, ast.Load)
    ]
    if not uses:
        return
    for use in uses:
        conditions = [a for a in splice.ancestors(use) if isinstance(a, ast.If)]
        if not any("router_logits" in ast.unparse(c.test) for c in conditions):
            raise splice.refuse("the layer uses the logits without being asked to", use)
    taken = {n.id for n in nodes_of(hop.function) if isinstance(n, ast.Name)}
    kept = free_name(["moe_input", "block_input"], taken)
    splice.before(statement, f"{kept} = {argument}")
    block = f"self.{hop.attr}"
    asked = f"{logits} = {block}.{gate}({kept}.view(-1, {kept}.shape[-1]))[0]"
    if checked:
        asked = f"{logits} = None\nif isinstance({block}, {checked}):\n    {asked}"
    for place in dict.fromkeys(map(splice.statement_of, uses)):
        if isinstance(place, ast.If):
            raise splice.refuse("the layer asks whether there are logits", place)
        splice.before(place, asked)
