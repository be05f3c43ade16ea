"""Attention that could take its keys from another sequence, in a file that never does."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Set

from modelcheck.findings import Fix, Safety
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

ARGUMENT = "key_value_states"


def own_sequence(context: Context, info: ClassInfo) -> Fix | None:
    """The fix for branches on keys of another sequence that no call in the file gives."""
    forward = info.methods.get("forward")
    if forward is None or ARGUMENT not in [a.arg for a in forward.args.args]:
        return None
    classes = context.file.classes.values()
    functions = [
        *context.file.functions.values(),
        *(f for c in classes for f in c.methods.values()),
    ]
    built = {
        name
        for owner in classes
        for name, (_, value) in owner.self_assignments.items()
        if any(_builds(context, node, info) for node in nodes_of(value or ast.Pass()))
    }
    calls = [
        (name, call)
        for f in functions
        for name, call in body(context.file, f).calls
        if name in built
    ]
    if any(k.arg == ARGUMENT for f in functions for k in body(context.file, f).all(ast.keyword)):
        return _class_of_its_own(info, forward, built, calls)
    if any(len(call.args) > 1 for _, call in calls):
        return _class_of_its_own(info, forward, built, calls)  # it may be given by position
    title = f"take out {ARGUMENT}, which nothing in this file gives"
    return Fix("own_sequence", title, Safety.UNSAFE, {"argument": ARGUMENT})


def _class_of_its_own(
    info: ClassInfo, forward: FunctionNode, built: Set[str], calls: Iterable[tuple[str, ast.Call]]
) -> Fix | None:
    """The fix where some attributes are always given the keys of another sequence, some never."""
    place = [a.arg for a in forward.args.args].index(ARGUMENT) - 1
    given: dict[str, set[bool]] = {name: set() for name in built}
    for name, call in calls:
        words = [k.arg for k in call.keywords]
        given[name].add(ARGUMENT in words or len(call.args) > place)
    if {frozenset(each) for each in given.values()} != {frozenset({True}), frozenset({False})}:
        return None
    cross = sorted(name for name, each in given.items() if True in each)
    title = f"give {', '.join(cross)} a class of its own, and take {ARGUMENT} out of {info.name}"
    data = {"argument": ARGUMENT, "attributes": ",".join(cross)}
    return Fix("cross_attention_class", title, Safety.UNSAFE, data)


def _builds(context: Context, node: ast.AST, info: ClassInfo) -> bool:
    """May the call build the class, by name or from a table?"""
    if not isinstance(node, ast.Call):
        return False
    target = context.file.resolve(dotted_name(node.func)) if dotted_name(node.func) else None
    return isinstance(node.func, ast.Subscript) or (
        isinstance(target, ClassInfo) and info in target.mro
    )
