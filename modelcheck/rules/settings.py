"""Settings that a fix depends on: what the configuration says, and how certain that is."""

from __future__ import annotations

import ast
import json
from typing import Any

from modelcheck.findings import Fix, Safety
from modelcheck.fusers.match import Undecided
from modelcheck.fusers.roots import Roots
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body
from modelcheck.source.classes import ClassInfo, dotted_name, is_self_attribute

TABLE = "ACT2FN"
SLICES = "pretraining_tp"


def value_of(context: Context, info: ClassInfo, name: str) -> tuple[Any, bool]:
    """A setting's value, None where it is not known; is it that of this repository's config.json?

    Without a config.json it is the configuration class's default, which another may change.
    """
    given = dict(context.repo.config) if context.repo is not None else {}
    if name in given:
        return given[name], True
    read = Roots(context.file, context.contract, given, 1).root(info).env.config
    try:
        value = read(name) if read is not None else None
    except Undecided:
        value = None
    return value, bool(given) and value is not None


def compared(context: Context, info: ClassInfo | None) -> dict[str, str]:
    """Data for a fix: what the configuration says of the attributes that a forward compares with
    texts, ``{"settings": JSON}``; {} where there are none, or nothing is known of them."""
    forward = info.methods.get("forward") if info is not None else None
    if info is None or forward is None:
        return {}
    found: dict[str, str] = {}
    for node in body(context.file, forward).all(ast.Compare):
        name = getattr(node.left, "attr", "") if is_self_attribute(node.left) else ""
        texts = all(isinstance(getattr(c, "value", None), str) for c in node.comparators)
        if texts and name in info.self_assignments and name not in found:
            value, _ = value_of(context, info, name)
            found |= {name: value} if isinstance(value, str) else {}
    return {"settings": json.dumps(found, sort_keys=True)} if found else {}


def activation_setting(info: ClassInfo) -> str:
    """ "hidden_act" for ``ACT2FN[config.hidden_act]`` in a class, "" for none."""
    for _, value in info.self_assignments.values():
        if isinstance(value, ast.Subscript) and dotted_name(value.value) == TABLE:
            name = dotted_name(value.slice)
            if "config." in name:
                return name.rpartition(".")[2]
    return ""


def is_sliced(test: ast.expr) -> bool:
    """Is a condition certainly false where ``pretraining_tp`` is 1?"""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(is_sliced(value) for value in test.values)
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.Gt)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == 1
        and dotted_name(test.left).rpartition(".")[2] == SLICES
    )


def unsliced(context: Context, info: ClassInfo) -> Fix | None:
    """The fix for a forward that computes its projections in slices for ``pretraining_tp > 1``."""
    forward = info.methods.get("forward")
    if forward is None or SLICES not in context.file.source.text:
        return None
    if not any(is_sliced(node.test) for node in body(context.file, forward).all(ast.If)):
        return None
    value, certain = value_of(context, info, SLICES)
    title = f"take out the slices for {SLICES} > 1"
    same = certain and value == 1
    return Fix("pretraining_tp", title, Safety.SAFE if same else Safety.UNSAFE)
