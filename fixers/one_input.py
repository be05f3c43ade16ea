"""Give an attention its input once, instead of once for each projection.

``forward(self, v, k, q, ...)`` becomes ``forward(self, hidden_states, ...)`` where every call in
the file gives one value three times. Other code that calls the class would fail: that nobody does
is what this fix rests on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers import FixRefused
from fixers.splice import Splice, names, parameters
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, is_self_attribute

INPUT = "hidden_states"


def fix(text: str, finding: Finding) -> str:
    """``text`` with one input. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    info = splice.doc.class_info(finding.class_name)
    gone = finding.fix.data.get("arguments", "").split(",") if finding.fix else []
    forward = info.methods.get("forward")
    known = [] if forward is None else [p.arg for p in parameters(forward)]
    if forward is None or known[1 : len(gone) + 1] != gone or len(gone) < 2:
        raise FixRefused(f"there is no forward of {', '.join(gone)} here", finding.span.line)
    if len(known) <= len(gone) + 1 or forward.args.posonlyargs:
        raise splice.refuse("its inputs are not followed by another parameter", forward)
    if len(forward.args.defaults) >= len(forward.args.args) - len(gone):
        raise splice.refuse("its inputs may be left out", forward)
    if INPUT in known or names(forward, INPUT):
        raise splice.refuse(f"{INPUT} is another thing here", forward)
    for name in gone:
        _read_from_input(splice, forward, name)
    first = parameters(forward)[1]
    annotation = f": {splice.code(first.annotation)}" if first.annotation is not None else ""
    splice.replace(first, INPUT + annotation)
    splice.cut(splice.span(first)[1], splice.span(parameters(forward)[len(gone)])[1])
    for call in _calls(splice, info):
        _give_once(splice, call, len(gone))
    return splice.text()


def _read_from_input(splice: Splice, forward: FunctionNode, name: str) -> None:
    """Read the input instead of a parameter, until the parameter is something else."""
    stores = [n for n in names(forward, name) if not isinstance(n.ctx, ast.Load)]
    bound = next((s for s in forward.body if any(n in nodes_of(s) for n in stores)), None)
    if bound is not None and not isinstance(bound, ast.Assign):
        raise splice.refuse(f"{name} is first given another value in a branch", bound)
    for function in nodes_of(forward):
        inner = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(function, inner) and function is not forward and names(function, name):
            raise splice.refuse(f"{name} is read in an inner function", function)
    last = forward.body.index(bound) if bound is not None else len(forward.body)
    for statement in forward.body[: last + 1]:
        for use in names(statement, name):
            if isinstance(use.ctx, ast.Load):
                splice.replace(use, INPUT)


def _calls(splice: Splice, info: ClassInfo) -> Iterator[ast.Call]:
    """The calls of what is built from the class; a use that is none is refused."""
    attributes: dict[str, set[str]] = {}
    for node in names(splice.tree, info.name):
        call = splice.parent(node)
        assigned = splice.parent(call)
        owner = next((n for n in splice.ancestors(node) if isinstance(n, ast.ClassDef)), None)
        match assigned:
            case ast.Assign(targets=[target]) if (
                owner is not None
                and isinstance(call, ast.Call)
                and call.func is node
                and isinstance(target, ast.Attribute)
                and is_self_attribute(target)
            ):
                attributes.setdefault(owner.name, set()).add(target.attr)
            case _:
                raise splice.refuse(f"{info.name} is used in a way not understood", node)
    everywhere = set().union(*attributes.values())
    for use in nodes_of(splice.tree):
        if not isinstance(use, ast.Attribute) or use.attr not in everywhere:
            continue
        owner = next((n for n in splice.ancestors(use) if isinstance(n, ast.ClassDef)), None)
        parent = splice.parent(use)
        called = isinstance(parent, ast.Call) and parent.func is use
        own = owner is not None and use.attr in attributes.get(owner.name, ())
        if is_self_attribute(use) and not own:
            continue  # another class has something else of that name
        if own and called and is_self_attribute(use):
            assert isinstance(parent, ast.Call)
            yield parent
        elif called or not (isinstance(use.ctx, ast.Store) or isinstance(parent, ast.Attribute)):
            raise splice.refuse(f"{use.attr} is used in a way not understood", use)


def _give_once(splice: Splice, call: ast.Call, count: int) -> None:
    """Take out all but the first of the values that a call begins with."""
    given = call.args[:count]
    alike = {each.id if isinstance(each, ast.Name) else "" for each in given}
    if len(given) != count or len(alike) != 1 or "" in alike:
        raise splice.refuse("this call does not begin with one value for each input", call)
    splice.cut(splice.span(given[0])[1], splice.span(given[-1])[1])
