"""Give the attention that takes its keys from another sequence a class of its own.

The class that both kinds were built from keeps the attention of a sequence to itself, which vLLM
can merge the projections of. The other kind becomes a subclass with the forward as it was, so both
compute what they did, with the same weights. Other code that calls the class with another sequence
would fail: that nobody does is what this fix rests on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from fixers import FixRefused, own_sequence
from fixers.splice import Splice, names, used_names
from fixers.toolkit import document, free_name
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, is_self_attribute

DOCSTRING = '"""Attention whose keys and values come from another sequence."""'


def fix(text: str, finding: Finding) -> str:
    """``text`` with two classes. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    info, forward = splice.doc.own_forward(finding)
    attributes = finding.fix.data.get("attributes", "").split(",") if finding.fix else []
    if info.node not in splice.tree.body or not attributes:
        raise FixRefused(f"there is no {info.name} to make two of", finding.span.line)
    private = [n for n in nodes_of(forward) if _needs_its_class(n)]
    if private:
        raise splice.refuse("its forward cannot move to a subclass", private[0])
    built = list(_built(splice, info, attributes))
    if not built:
        raise splice.refuse(f"{', '.join(attributes)} is not built here", info.node)
    new = free_name(_new_names(info.name), used_names(splice.tree) | set(splice.doc.index.classes))
    for use in built:
        splice.replace(use, new)
    following = splice.tree.body[splice.tree.body.index(info.node) + 1 :]
    if not following:
        raise splice.refuse("no code follows this class", info.node)
    first = min([forward.lineno, *(d.lineno for d in forward.decorator_list)])
    start = splice.offset(first, 0)
    method = splice.doc.text[start : splice.span(forward)[1]].replace("\r\n", "\n")
    indent = splice.indent(forward)
    subclass = f"class {new}({info.name}):\n{indent}{DOCSTRING}\n\n{method}"
    splice.above(following[0], subclass)
    return own_sequence.fix(splice.text(), finding)


def _new_names(name: str) -> list[str]:
    return [re.sub(r"(Self)?(Attention|Attn)?$", r"Cross\2", name, count=1)]


def _needs_its_class(node: ast.AST) -> bool:
    """Does code mean another thing in a subclass: ``super()``, ``__class__``, ``self.__x``?"""
    name = getattr(node, "id", getattr(node, "attr", ""))
    private = name.startswith("__") and not name.endswith("__")
    return name in ("super", "__class__") or private


def _built(splice: Splice, info: ClassInfo, attributes: Collection[str]) -> Iterator[ast.Name]:
    """The class where it is built for one of some attributes; an unknown use of it is refused."""
    for use in names(splice.tree, info.name):
        call = splice.parent(use)
        if isinstance(call, ast.Call) and _tests(call, use):
            continue  # the subclass passes as well
        match splice.statement_of(use):
            case ast.Assign(targets=[ast.Attribute() as target]) if (
                is_self_attribute(target) and isinstance(call, ast.Call) and call.func is use
            ):
                if target.attr in attributes:
                    yield use
            case _:
                raise splice.refuse(f"{info.name} is used in a way not understood", use)


def _tests(call: ast.Call, use: ast.Name) -> bool:
    """Is it ``isinstance(module, Class)``?"""
    return isinstance(call.func, ast.Name) and call.func.id == "isinstance" and use in call.args
