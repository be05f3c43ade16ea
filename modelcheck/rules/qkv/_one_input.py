"""Attention that is given its input once for each projection, by a file that gives one value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from modelcheck.findings import Fix, Safety
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, callee_name, nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

PROJECTIONS = 3


def one_input(context: Context, info: ClassInfo) -> Fix | None:
    """The fix for ``forward(v, k, q)`` where every call in the file gives one value thrice."""
    forward = info.methods.get("forward")
    if forward is None:
        return None
    known = [a.arg for a in forward.args.args]
    inputs = _projected(context, forward) & set(known)
    # They come first, one after another, in the order of the parameters.
    if len(inputs) != PROJECTIONS or set(known[1 : PROJECTIONS + 1]) != inputs:
        return None
    calls = list(_calls(context, info))
    if not calls or not all(_gives_one_value(call) for call in calls):
        return None
    names = known[1 : PROJECTIONS + 1]
    title = f"take one input instead of {', '.join(names)}, which are the same in this file"
    return Fix("one_input", title, Safety.UNSAFE, {"arguments": ",".join(names)})


def _projected(context: Context, forward: FunctionNode) -> set[str]:
    """The names that statements of forward give to ``self.layer(name)``."""
    found: set[str] = set()
    calls = body(context.file, forward).some(ast.Call)
    if sum(len(call.args) == 1 and is_self_attribute(call.func) for call in calls) < PROJECTIONS:
        return found
    for statement in forward.body:
        for node in nodes_of(statement) if isinstance(statement, ast.Assign) else ():
            match node:
                case ast.Call(func=layer, args=[ast.Name(id=name)], keywords=[]):
                    if is_self_attribute(layer):
                        found.add(name)
    return found


def _calls(context: Context, info: ClassInfo) -> Iterator[ast.Call]:
    """The calls of what the file builds from the class."""
    for owner in context.file.classes.values():
        attributes = {
            name
            for name, (_, value) in owner.self_assignments.items()
            if isinstance(value, ast.Call)
            and dotted_name(value.func)
            and context.file.resolve(dotted_name(value.func)) is info
        }
        for function in owner.methods.values() if attributes else ():
            for call in body(context.file, function).all(ast.Call):
                if is_self_attribute(call.func) and callee_name(call) in attributes:
                    yield call


def _gives_one_value(call: ast.Call) -> bool:
    given = call.args[:PROJECTIONS]
    names = {each.id for each in given if isinstance(each, ast.Name)}
    return (
        len(given) == PROJECTIONS
        and all(isinstance(g, ast.Name) for g in given)
        and (len(names) == 1)
    )
