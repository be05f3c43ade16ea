"""Take out of an attention the keys of another sequence, which nothing in the file gives it.

The argument goes, with the branches that run only with it; what the others compute alike comes in
front of them. Other code that calls the class with the argument would fail: that nobody does is
what this fix rests on.
"""

from __future__ import annotations

import ast
import textwrap

from fixers import FixRefused
from fixers.splice import Splice, names, parameters
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import FunctionNode, is_self_attribute


def fix(text: str, finding: Finding) -> str:
    """``text`` without the other sequence. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    argument = finding.fix.data.get("argument", "") if finding.fix else ""
    forward = splice.doc.class_info(finding.class_name).methods.get("forward")
    known = [] if forward is None else [p.arg for p in parameters(forward)]
    if forward is None or argument not in known:
        raise FixRefused(f"there is no forward with {argument} here", finding.span.line)
    flags = [s for s in forward.body if _is_flag(s, argument)]
    branches = [s for s in forward.body if isinstance(s, ast.If) and _crosses(s.test, flags)]
    if len(flags) != 1 or len(branches) != 1:
        raise splice.refuse(f"{argument} is tested for in a way not understood", forward)
    kept = _without(splice, branches[0], flags)
    gone = set(nodes_of(branches[0])) - {n for s in kept for n in nodes_of(s)}
    gone |= set(nodes_of(flags[0]))
    flag = _flag_name(flags[0])
    for name in (argument, flag):
        left = [n for n in names(forward, name) if n not in gone]
        if left:
            raise splice.refuse(f"{name} is read here", left[0])
    _replace_branches(splice, forward, branches[0], kept)
    splice.remove(flags[0])
    _remove_parameter(splice, forward, argument)
    return splice.text()


def _is_flag(statement: ast.stmt, argument: str) -> bool:
    """Is it ``crosses = argument is not None``?"""
    match statement:
        case ast.Assign(
            targets=[ast.Name()],
            value=ast.Compare(
                left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(None)]
            ),
        ):
            return name == argument
    return False


def _flag_name(statement: ast.stmt) -> str:
    assert isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    return statement.targets[0].id


def _crosses(test: ast.expr, flags: list[ast.stmt]) -> bool:
    """Is the condition false without the other sequence?"""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_crosses(value, flags) for value in test.values)
    return isinstance(test, ast.Name) and test.id in [_flag_name(f) for f in flags]


def _without(splice: Splice, branch: ast.If, flags: list[ast.stmt]) -> list[ast.stmt]:
    """What is left of a chain of branches: an ``if`` of its own, or the last ``else``."""
    current = branch
    while _crosses(current.test, flags):
        match current.orelse:
            case [ast.If() as following]:
                current = following
            case []:
                raise splice.refuse("there is no branch for the own sequence", branch)
            case rest:
                return rest
    return [current]


def _replace_branches(
    splice: Splice, forward: FunctionNode, branch: ast.If, kept: list[ast.stmt]
) -> None:
    """Write what is left, the statements that both branches begin with in front of them.

    A scale of the query waits until they ran: between the projections vLLM wants nothing.
    """
    scaled = _scaled_later(splice, forward, branch)
    match kept:
        case [ast.If(test=test, body=body, orelse=[*other])] if other:
            common = 0
            for one, two in zip(body, other, strict=False):
                if ast.dump(one) != ast.dump(two):
                    break
                common += 1
            parts = [_projected_first(splice, other[:common])] if common else []
            parts += scaled
            rest, otherwise = body[common:], other[common:]
            if rest:
                parts.append(f"if {splice.code(test)}:\n{_indented(splice, rest)}")
            if otherwise:
                head = "else" if rest else f"if not ({splice.code(test)})"
                parts.append(f"{head}:\n{_indented(splice, otherwise)}")
            new = "\n".join(parts)
        case _:
            new = "\n".join([_projected_first(splice, kept), *scaled])
    splice.replace_from(branch, branch, new)


def _projected_first(splice: Splice, statements: list[ast.stmt]) -> str:
    """``key = self.heads(self.k(x))`` for each: all projections first, then what takes them."""
    first, second = [], []
    for statement in statements:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=helper,
                    args=[ast.Call(func=layer, args=[ast.Name(id=given)]) as inner, *rest],
                    keywords=[],
                ),
            ) if is_self_attribute(helper) and is_self_attribute(layer) and given != name:
                first.append(f"{name} = {splice.code(inner)}")
                others = "".join(f", {splice.code(each)}" for each in rest)
                second.append(f"{name} = {splice.code(helper)}({name}{others})")
            case _:
                return _text(splice, statements)
    if "#" in _text(splice, statements):
        return _text(splice, statements)
    return "\n".join([*first, *second])


def _scaled_later(splice: Splice, forward: FunctionNode, branch: ast.If) -> list[str]:
    """Take the scale out of ``query = self.q(x) * self.scale`` in front of the branch."""
    place = forward.body.index(branch)
    for at, statement in enumerate(forward.body[:place]):
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.BinOp(left=ast.Call() as call, op=ast.Mult(), right=scale) as product,
            ) if is_self_attribute(call.func) and is_self_attribute(scale):
                between = [n for s in forward.body[at + 1 : place] for n in names(s, name)]
                if not between and not names(branch, name):
                    splice.replace(product, splice.code(call))
                    return [f"{name} = {name} * {splice.code(scale)}"]
    return []


def _text(splice: Splice, statements: list[ast.stmt]) -> str:
    """Neighbouring statements as they are, with the comments between them."""
    if not statements:
        return ""
    start, end = splice.span(statements[0])[0], splice.span(statements[-1])[1]
    text = splice.indent(statements[0]) + splice.doc.text[start:end]
    return textwrap.dedent(text.replace("\r\n", "\n"))


def _indented(splice: Splice, statements: list[ast.stmt]) -> str:
    return textwrap.indent(_text(splice, statements), splice.doc.module.default_indent)


def _remove_parameter(splice: Splice, forward: FunctionNode, argument: str) -> None:
    known = parameters(forward)
    place = [p.arg for p in known].index(argument)
    if place == 0 or place + 1 >= len(known) or forward.args.vararg or forward.args.kwonlyargs:
        raise splice.refuse(f"{argument} is not between two other parameters", forward)
    splice.cut(splice.span(known[place])[0], splice.span(known[place + 1])[0])
