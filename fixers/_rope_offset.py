"""Bring position_ids to an attention that rotates by an offset, the length of its cache.

``rotate(q, k, cos, sin, offset=offset)`` cuts the rows of its table from the offset on: right for
one sequence at a time, and blind to positions. The function gets the positions themselves,
``cos[position_ids]``; each forward from the base model down to the attention hands them on; the
attention counts from the offset where it is given none.
"""

from __future__ import annotations

import ast

from fixers.splice import Splice, names, parameters
from modelcheck.source.bodies import nodes_of
from modelcheck.source.callpath import children, hops
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

OFFSET, POSITIONS = "offset", "position_ids"


def hand_positions_down(splice: Splice, base: ClassInfo) -> bool:
    """Edit all of a file; False when nothing in it rotates by an offset. Raises `FixRefused`.

    ``base`` is the model whose forward has, or is about to get, position_ids.
    """
    functions = splice.doc.index.functions.values()
    rotating = [f for f in functions if OFFSET in {p.arg for p in parameters(f)}]
    cuts = [(f, found) for f in rotating if (found := _cuts(f))]
    if len(cuts) != 1:
        return False
    function, statements = cuts[0]
    calls = [splice.parent(use) for use in names(splice.tree, function.name)]
    owners = set()
    for call in calls:
        around = splice.function_of(call)
        owner = splice.parent(around) if around is not None else None
        info = splice.doc.index.classes.get(getattr(owner, "name", ""))
        if not isinstance(call, ast.Call) or around is None or info is None:
            raise splice.refuse(f"{function.name} is used in a way not understood", call)
        _rotate_by_position(splice, around, call)
        owners.add(info)
    if len(owners) != 1:
        raise splice.refuse(f"{function.name} is called by more than one class", function)
    for statement in statements:
        name = splice.code(statement.targets[0])
        splice.replace(statement, f"{name} = {name}[{POSITIONS}].unsqueeze(1)")
    _rename_parameter(splice, function)
    _descend(splice, base, owners.pop(), set())
    return True


def _cuts(function: FunctionNode) -> list[ast.Assign]:
    """The statements ``cos = cos[..., offset : q.shape[-2] + offset, :]``, if nothing else."""
    found, inside = [], set()
    for statement in function.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Subscript(
                    value=ast.Name(id=source),
                    slice=ast.Tuple(
                        elts=[
                            ast.Constant(value=value),
                            ast.Slice(lower=ast.Name(id=first), upper=ast.BinOp() as end),
                            ast.Slice(lower=None, upper=None, step=None),
                        ]
                    ),
                ),
            ) if value is ... and name == source and first == OFFSET:
                wanted = {f"q.shape[-2] + {OFFSET}", f"{OFFSET} + q.shape[-2]"}
                if ast.unparse(end) in wanted:
                    found.append(statement)
                    inside |= set(nodes_of(statement))
    uses = set(names(function, OFFSET))
    return found if len(found) == 2 and uses <= inside else []


def _rename_parameter(splice: Splice, function: FunctionNode) -> None:
    arguments = function.args
    last = arguments.args[-1]
    if last.arg != OFFSET or len(arguments.defaults) > 1 or arguments.kwonlyargs:
        raise splice.refuse(f"the parameters of {function.name} are not understood", function)
    end = splice.span(arguments.defaults[0] if arguments.defaults else last)[1]
    splice.cut(splice.span(last)[0], end)
    splice.insert(end, POSITIONS)


def _rotate_by_position(splice: Splice, forward: FunctionNode, call: ast.Call) -> None:
    """Give a call positions; where there are none, they are counted from the offset."""
    given = [k for k in call.keywords if k.arg == OFFSET]
    table = _table_call(forward)
    if not given or table is None or len(call.keywords) != 1:
        raise splice.refuse("the rotation is called in a way not understood", call)
    value, length = table.args[0], table.keywords[0].value
    default = (
        f"if {POSITIONS} is None:\n"
        f"    {POSITIONS} = torch.arange({splice.code(given[0].value)}, {splice.code(length)}, "
        f"device={splice.code(value)}.device)[None]"
    )
    if splice.doc.index.imports.get("torch") != "torch":
        raise splice.refuse("torch is not imported under its own name", call)
    splice.before(splice.statement_of(table), default)
    start = splice.offset(given[0].lineno, given[0].col_offset)
    splice.cut(start, splice.span(given[0].value)[1])
    splice.insert(splice.span(given[0].value)[1], POSITIONS)


def _table_call(forward: FunctionNode) -> ast.Call | None:
    """``self.rotary_emb(x, seq_len=n)``."""
    found = [
        node
        for node in nodes_of(forward)
        if isinstance(node, ast.Call)
        and len(node.args) == 1
        and [k.arg for k in node.keywords] == ["seq_len"]
        and dotted_name(node.func).startswith("self.")
    ]
    return found[0] if len(found) == 1 else None


def _descend(splice: Splice, info: ClassInfo, target: ClassInfo, done: set[ClassInfo]) -> None:
    """Hand positions on to the submodules that hold the attention."""
    if info in done:
        return
    done.add(info)
    forward = info.methods.get("forward")
    if forward is None:
        raise splice.refuse(f"{info.name} has no forward of its own", info.node)
    below = {c.attr: c.cls for c in children(info) if isinstance(c.cls, ClassInfo)}
    handed = False
    for hop in hops(info):
        child = below.get(hop.attr)
        if hop.function is not forward or child is None or not _holds(child, target, set()):
            continue
        call = hop.call
        last = [*call.args, *(k.value for k in call.keywords)]
        if any(k.arg == POSITIONS for k in call.keywords):
            raise splice.refuse(f"{POSITIONS} are handed on already", call)
        named = [k.value for k in call.keywords if k.arg is not None]
        end = max(splice.span(each)[1] for each in ([*call.args, *named] or last))
        starts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        gap = ", "
        if starts[-1].lineno != starts[0].lineno:
            gap = f",{splice.newline}{' ' * starts[-1].col_offset}"
        splice.insert(end, f"{gap}{POSITIONS}={POSITIONS}")
        handed = True
        _take_positions(splice, child)
        if child is not target:
            _descend(splice, child, target, done)
    if not handed:
        raise splice.refuse(f"{info.name} calls its attention in a way not understood", forward)


def _take_positions(splice: Splice, info: ClassInfo) -> None:
    forward = info.methods.get("forward")
    if forward is None:
        raise splice.refuse(f"{info.name} has no forward of its own", info.node)
    known = parameters(forward)
    if POSITIONS in {p.arg for p in known} or forward.args.kwonlyargs or forward.args.vararg:
        raise splice.refuse(f"the parameters of {info.name}.forward are not understood", forward)
    last: ast.arg | ast.expr = known[-1]
    if forward.args.defaults:
        last = forward.args.defaults[-1]
    gap = ", "
    if known[-1].lineno != known[0].lineno:
        gap = f",{splice.newline}{' ' * known[-1].col_offset}"
    splice.insert(splice.span(last)[1], f"{gap}{POSITIONS}=None")


def _holds(info: ClassInfo, target: ClassInfo, seen: set[ClassInfo]) -> bool:
    if info is target:
        return True
    seen.add(info)
    inner = [c.cls for c in children(info) if isinstance(c.cls, ClassInfo)]
    return any(_holds(c, target, seen) for c in inner if c not in seen)
