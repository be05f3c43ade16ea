"""Attention that could take its keys from another sequence, in a file that never does."""

from __future__ import annotations

import ast

from modelcheck.findings import Fix, Safety
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, callee_name, nodes_of
from modelcheck.source.classes import ClassInfo, dotted_name

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
    if any(k.arg == ARGUMENT for f in functions for k in body(context.file, f).all(ast.keyword)):
        return None
    built = {
        name
        for owner in classes
        for name, (_, value) in owner.self_assignments.items()
        if any(_builds(context, node, info) for node in nodes_of(value or ast.Pass()))
    }
    for owner in classes:
        for function in owner.methods.values():
            for call in body(context.file, function).all(ast.Call):
                if callee_name(call) in built and len(call.args) > 1:
                    return None  # by position
    title = f"take out {ARGUMENT}, which nothing in this file gives"
    return Fix("own_sequence", title, Safety.UNSAFE, {"argument": ARGUMENT})


def _builds(context: Context, node: ast.AST, info: ClassInfo) -> bool:
    """May the call build the class, by name or from a table?"""
    if not isinstance(node, ast.Call):
        return False
    target = context.file.resolve(dotted_name(node.func)) if dotted_name(node.func) else None
    return isinstance(node.func, ast.Subscript) or (
        isinstance(target, ClassInfo) and info in target.mro
    )
