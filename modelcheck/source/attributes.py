"""What ``self.<name>`` is on an instance, as far as ``__init__`` shows."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator

from modelcheck.source.bodies import body, callee_name, self_name
from modelcheck.source.classes import (
    MODULE_BASES,
    MODULE_NAMES,
    ClassInfo,
    FileIndex,
    dotted_name,
    is_self_attribute,
)
from modelcheck.source.memory import remembered

_SELF = re.compile(r"\bself\Z")


class Kind(enum.Enum):
    """The kinds of value that matter to vLLM."""

    MISSING = enum.auto()  # nothing assigns it
    NONE = enum.auto()
    NUMBER = enum.auto()
    PARAMETER = enum.auto()
    TENSOR = enum.auto()  # a tensor or buffer that is no parameter
    UNKNOWN = enum.auto()


@remembered(maxsize=512)
def attribute_kind(info: ClassInfo, name: str) -> Kind:
    """What an instance holds under ``name``; UNKNOWN wherever the source leaves it open."""
    if info.find_method(name) is not None or _set_from_outside(info, name):
        return Kind.UNKNOWN
    kinds = set(_assigned_kinds(info, name))
    if not kinds:
        hit = info.find_attribute(name)
        if hit is not None:
            return value_kind(hit[0].file, hit[1])
        return Kind.MISSING if is_visible(info) else Kind.UNKNOWN
    if kinds == {Kind.PARAMETER, Kind.NONE}:
        return Kind.PARAMETER
    return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN


def is_visible(info: ClassInfo) -> bool:
    """Is every class that could assign attributes known (torch's own modules included)?"""
    return info.kind != "pretrained" and all(
        base in MODULE_BASES
        or base.rpartition(".")[2] in MODULE_NAMES
        or base in ("object", "abc.ABC")
        for base in info.external_bases
    )


def value_kind(file: FileIndex, value: ast.expr | None) -> Kind:
    """The kind of an expression, judged without evaluating it."""
    if isinstance(value, ast.Constant):
        if value.value is None:
            return Kind.NONE
        number = isinstance(value.value, int | float) and not isinstance(value.value, bool)
        return Kind.NUMBER if number else Kind.UNKNOWN
    if isinstance(value, ast.BinOp):
        sides = {value_kind(file, value.left), value_kind(file, value.right)}
        if sides & {Kind.TENSOR, Kind.PARAMETER}:
            return Kind.TENSOR
        return Kind.NUMBER if sides == {Kind.NUMBER} else Kind.UNKNOWN
    if isinstance(value, ast.Call):
        return _call_kind(file, value)
    return Kind.UNKNOWN


def _call_kind(file: FileIndex, call: ast.Call) -> Kind:
    if callee_name(call) in ("item", "tolist"):
        return Kind.UNKNOWN
    full = file.qualify(dotted_name(call.func))
    if full == "torch.nn.Parameter":
        return Kind.PARAMETER
    if full == "torch.nn.Buffer":
        return Kind.TENSOR
    if full.startswith("torch.") and full.count(".") == 1:
        return Kind.TENSOR
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        inner = _call_kind(file, call.func.value)  # torch.tensor(x).sqrt()
        return Kind.TENSOR if inner in (Kind.TENSOR, Kind.PARAMETER) else Kind.UNKNOWN
    return Kind.UNKNOWN


def _assigned_kinds(info: ClassInfo, name: str) -> Iterator[Kind]:
    for ancestor in info.mro:
        found = list(_own_kinds(info, ancestor, name))
        yield from found
        if any(a for a in found) and "__init__" in ancestor.methods:
            return  # the nearest class's value is what an instance ends up with


def _own_kinds(instance: ClassInfo, info: ClassInfo, name: str) -> Iterator[Kind]:
    """What one of the classes of an instance's line assigns."""
    run = (info, info.methods.get("__init__")) in instance.constructors
    for method in info.methods.values():
        if method.name == "__init__" and not run:
            continue
        first = self_name(method)
        nodes = body(info.file, method)
        pairs: list[tuple[ast.expr, ast.expr | None]] = [
            (t, a.value) for a in nodes.all(ast.Assign) for t in a.targets
        ]
        pairs += [(a.target, a.value) for a in nodes.all(ast.AnnAssign) if a.value]
        pairs += [(a.target, None) for a in nodes.all(ast.AugAssign)]
        for target, value in pairs:
            if isinstance(target, ast.Tuple | ast.List):
                if any(_is(t, name, first) for t in target.elts):
                    yield Kind.UNKNOWN
            elif _is(target, name, first):
                yield value_kind(info.file, value) if method.name == "__init__" else Kind.UNKNOWN
        for call in nodes.all(ast.Call):
            yield from _registered(call, name, first)


def _registered(call: ast.Call, name: str, first: str) -> Iterator[Kind]:
    """``self.register_buffer("name", …)`` and ``setattr(self, …)``."""
    register = callee_name(call)
    if register == "setattr" and call.args and getattr(call.args[0], "id", "") == first:
        yield Kind.UNKNOWN
    named = call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == name
    if not named or not is_self_attribute(call.func, first):
        return
    if register == "register_buffer":
        yield Kind.TENSOR
    elif register == "register_parameter":
        value = call.args[1] if len(call.args) > 1 else None
        empty = isinstance(value, ast.Constant) and value.value is None
        yield Kind.NONE if empty else Kind.PARAMETER
    elif register in ("add_module", "register_module"):
        yield Kind.UNKNOWN


def _is(node: ast.expr, name: str, first: str) -> bool:
    return is_self_attribute(node, first) and getattr(node, "attr", "") == name


def _set_from_outside(info: ClassInfo, name: str) -> bool:
    """Does the file assign the attribute on something else than self?"""
    return any(_is_set_on_others(c.file, name) for c in info.mro)


@remembered(maxsize=256)
def _is_set_on_others(file: FileIndex, name: str) -> bool:
    text = file.source.text
    return any(
        not _SELF.search(text, max(0, match.start() - 5), match.start())
        for match in re.finditer(rf"\.{re.escape(name)}\s*=(?!=)", text)
    )
