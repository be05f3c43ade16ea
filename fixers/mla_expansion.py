"""Expand the latent of MLA in a method of its own: ``key, value = self.expand_kv(latent, k_rope)``.

vLLM caches latent and rotary key, and leaves the call of that method out. The statements that
expand are moved as they are; keys must be (expanded, rotary) in that order, and values the second
part of what the last projection gives, as vLLM's kernels take them to be.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass, field

from fixers.splice import Splice, parameters
from fixers.toolkit import document, free_name
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

METHOD = "expand_kv"
SPREAD = ("expand", "repeat", "expand_as")
PARTS = 2


@dataclass
class _Expansion:
    """The statements to move, and what goes in and out."""

    latent: ast.expr  # the argument of the last projection
    rope: str
    key: str
    value: str
    moved: list[ast.stmt] = field(default_factory=list)


def fix(text: str, finding: Finding) -> str:
    """``text`` with the method. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    info, forward = splice.doc.own_forward(finding)
    found = _expansion(splice, info, forward)
    names = {n.id for n in nodes_of(forward) if isinstance(n, ast.Name)}
    if isinstance(found.latent, ast.Name):
        latent = found.latent.id
    else:
        latent = free_name(["latent", "kv_latent"], names)
    sizes = _check_names(splice, info, forward, found, latent)
    name = free_name([METHOD, "expand_latent"], set(info.methods) | set(info.self_assignments))
    lines = ['"""Keys and values of all heads, from the latent and the rotary key they share."""']
    if sizes:
        lines.append(f"{', '.join(sizes)} = {latent}.shape[:{PARTS}]")
    for statement in found.moved:
        lines.append(_code(splice, statement, found.latent, latent))
    lines.append(f"return {found.key}, {found.value}")
    body = textwrap.indent("\n".join(lines), "    ")
    splice.before(forward, f"def {name}(self, {latent}, {found.rope}):\n{body}")
    top = min([forward.lineno, *(d.lineno for d in forward.decorator_list)])
    splice.insert(splice.offset(top, 0), splice.newline)
    call = f"{found.key}, {found.value} = self.{name}({latent}, {found.rope})"
    for statement in found.moved:
        if statement is found.moved[-1]:
            splice.replace_from(statement, statement, call)
        elif statement is found.moved[0] and not isinstance(found.latent, ast.Name):
            new = f"{latent} = {splice.code(found.latent)}"
            splice.replace_from(statement, statement, new)
        else:
            splice.remove(statement, with_comments=False)
    return splice.text()


def _code(splice: Splice, statement: ast.stmt, latent: ast.expr, name: str) -> str:
    """A moved statement's text, the latent by its name."""
    start, code = splice.span(statement)[0], splice.code(statement)
    if any(node is latent for node in nodes_of(statement)):
        first, last = splice.span(latent)
        code = code[: first - start] + name + code[last - start :]
    return textwrap.dedent(splice.indent(statement) + code.replace("\r\n", "\n"))


# Reading the forward


def _expansion(splice: Splice, info: ClassInfo, forward: FunctionNode) -> _Expansion:
    key, value = _passed(splice, forward)
    body = forward.body
    split = _split(body, value)
    if split is None:
        raise splice.refuse("the values are not half of a split", forward)
    target = split.targets[0]
    assert isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name)
    nope = target.elts[0].id
    moved: list[ast.stmt] = [split]
    projection = _traced(splice, info, body, split, moved)
    keys, rope = _keys(splice, body, key, nope)
    moved += keys
    moved.sort(key=lambda s: s.lineno)
    return _Expansion(projection.args[0], rope, key, value, moved)


def _passed(splice: Splice, forward: FunctionNode) -> tuple[str, str]:
    """The names that the attention interface gets as key and value."""
    for node in nodes_of(forward):
        if not isinstance(node, ast.Call) or len(node.args) < 4:
            continue
        if not (isinstance(node.args[0], ast.Name) and node.args[0].id == "self"):
            continue
        key, value = node.args[2], node.args[3]
        if isinstance(key, ast.Name) and isinstance(value, ast.Name):
            return key.id, value.id
    raise splice.refuse("there is no call of the attention interface", forward)


def _pair(statement: ast.stmt) -> list[str]:
    """The names of ``a, b = …``."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    target = statement.targets[0]
    if not isinstance(target, ast.Tuple) or len(target.elts) != PARTS:
        return []
    return [e.id for e in target.elts if isinstance(e, ast.Name)]


def _split(body: list[ast.stmt], value: str) -> ast.Assign | None:
    """``nope, value = x.split((a, b), dim=-1)``."""
    for statement in body:
        if isinstance(statement, ast.Assign) and value in _pair(statement)[1:]:
            called = statement.value
            name = called.func.attr if _is_method(called) else ""  # type: ignore[attr-defined]
            return statement if name == "split" and _is_last(called) else None
    return None


def _is_method(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


def _is_last(node: ast.expr) -> bool:
    """Is it along the last dimension?"""
    assert isinstance(node, ast.Call)
    axis = [k.value for k in node.keywords if k.arg == "dim"] or node.args[-1:]
    return ast.unparse(axis[0]) == "-1"


def _traced(
    splice: Splice, info: ClassInfo, body: list[ast.stmt], split: ast.Assign, moved: list[ast.stmt]
) -> ast.Call:
    """The projection whose output is split, through views and names used once."""
    current: ast.expr = split.value
    while True:
        if isinstance(current, ast.Call) and is_self_attribute(current.func, "self"):
            break
        if isinstance(current, ast.Call) and isinstance(current.func, ast.Attribute):
            function = info.file.qualify(dotted_name(current.func))
            current = current.args[0] if function == "torch.split" else current.func.value
            continue
        if isinstance(current, ast.Name):
            made = [s for s in body if _makes(s, current.id)]
            if len(made) == 1 and isinstance(made[0], ast.Assign):
                moved.append(made[0])
                current = made[0].value
                continue
        raise splice.refuse("what is split does not come from one projection", split)
    assert isinstance(current, ast.Call) and isinstance(current.func, ast.Attribute)
    made_by = info.self_assignments.get(current.func.attr)
    value = made_by[1] if made_by else None
    plain = isinstance(value, ast.Call) and dotted_name(value.func).endswith("Linear")
    if not plain or len(current.args) != 1 or current.keywords:
        raise splice.refuse("what is split does not come from one projection", split)
    assert isinstance(value, ast.Call)
    bias = [k.value for k in value.keywords if k.arg == "bias"]
    if len(bias) != 1 or not isinstance(bias[0], ast.Constant) or bias[0].value is not False:
        raise splice.refuse("the projection that expands the latent may have a bias", value)
    return current


def _makes(statement: ast.stmt, name: str) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id == name
    )


def _keys(splice: Splice, body: list[ast.stmt], key: str, nope: str) -> tuple[list[ast.stmt], str]:
    """The statements that put the keys together, and the name of the rotary part."""
    made = next((s for s in body if _makes(s, key)), None)
    if made is None:
        raise splice.refuse("the keys are not put together in a statement of their own", body[0])
    assert isinstance(made, ast.Assign)
    statements: list[ast.stmt] = [made]
    called = made.value
    if isinstance(called, ast.Call) and dotted_name(called.func) == "torch.cat":
        parts = called.args[0].elts if isinstance(called.args[0], ast.Tuple | ast.List) else []
        if not _is_last(called):
            raise splice.refuse("the keys are joined along another dimension", made)
    elif _is_method(called) and called.func.attr == "new_empty":  # type: ignore[attr-defined]
        parts = _filled(splice, body, made, key, statements)
    else:
        parts = []
    first = parts[0] if len(parts) == PARTS else None
    if not isinstance(first, ast.Name) or first.id != nope:
        raise splice.refuse("the keys are not (expanded, rotary)", made)
    rope = parts[1]
    while True:
        if _is_method(rope) and rope.func.attr in SPREAD:  # type: ignore[attr-defined]
            rope = rope.func.value  # type: ignore[attr-defined]
            continue
        spread = next(
            (
                s
                for s in body
                if isinstance(rope, ast.Name)
                and _makes(s, rope.id)
                and _is_method(s.value)  # type: ignore[attr-defined]
                and s.value.func.attr in SPREAD  # type: ignore[attr-defined]
            ),
            None,
        )
        if spread is None or spread in statements:
            break
        statements.append(spread)
        assert isinstance(spread, ast.Assign)
        rope = spread.value
    if not isinstance(rope, ast.Name):
        raise splice.refuse("the rotary part of the keys has no name of its own", made)
    return statements, rope.id


def _filled(
    splice: Splice, body: list[ast.stmt], made: ast.stmt, key: str, statements: list[ast.stmt]
) -> list[ast.expr]:
    """``key[..., :n] = nope`` and ``key[..., n:] = rope`` behind ``new_empty``."""
    at = body.index(made)
    parts: list[ast.expr] = []
    bounds: list[ast.expr | None] = []
    for statement in body[at + 1 : at + 1 + PARTS]:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(target, ast.Subscript) or dotted_name(target.value) != key:
            raise splice.refuse("the keys are filled in an unknown way", statement)
        index = target.slice.elts[-1] if isinstance(target.slice, ast.Tuple) else None
        if not isinstance(index, ast.Slice) or index.step is not None:
            raise splice.refuse("the keys are filled in an unknown way", statement)
        bounds += [index.lower, index.upper]
        assert isinstance(statement, ast.Assign)
        parts.append(statement.value)
        statements.append(statement)
    ends = [None if b is None else ast.dump(b) for b in bounds]
    if ends[0] is not None or ends[3] is not None or ends[1] != ends[2]:
        raise splice.refuse("the keys are not (expanded, rotary)", made)
    return parts


# Checks


def _check_names(
    splice: Splice, info: ClassInfo, forward: FunctionNode, found: _Expansion, latent: str
) -> list[str]:
    """The sizes that the method needs, from the latent's shape. Raises `FixRefused`."""
    moved = found.moved
    body = forward.body
    if any(s not in body for s in moved):
        raise splice.refuse("the latent is expanded under a condition", moved[0])
    inside = {node for s in moved for node in nodes_of(s)}
    stored = {n.id for s in moved for n in _names(s, ast.Store)}
    outer = {n.id for n in _names(found.latent, ast.Load)}
    read = {n.id for s in moved for n in _names(s, ast.Load)} - stored
    read -= outer if not isinstance(found.latent, ast.Name) else set()
    first, last = body.index(moved[0]), body.index(moved[-1])
    for statement in body[first : last + 1]:
        used = {n.id for n in nodes_of(statement) if isinstance(n, ast.Name)}
        if statement not in moved and used & stored:
            raise splice.refuse("what is expanded is used before it is complete", statement)
    for index, statement in enumerate(body[first : last + 1], first):
        changed = {n.id for n in _names(statement, ast.Store)} if statement not in moved else set()
        earlier = {n.id for s in body[first:index] if s in moved for n in _names(s, ast.Load)}
        if changed & earlier - outer:
            raise splice.refuse("what the expansion reads is changed before it is used", statement)
    for node in nodes_of(forward):
        mine = isinstance(node, ast.Name) and node.id in stored - {found.key, found.value}
        if mine and node not in inside:
            raise splice.refuse("the expansion leaves more behind than keys and values", node)
    known = {"self", latent, found.rope, *info.file.imports, "torch"}
    sizes = _sizes(forward)
    for name in sorted(read - known - set(sizes)):
        raise splice.refuse(f"the expansion reads {name}", moved[0])
    needed = [name for name in sizes if name in read]
    if not needed:
        return []
    if not _is_row(info, body, found.latent, parameters(forward)[1].arg):
        raise splice.refuse("the shape of the latent is not known", moved[0])
    return [name if name in read else "_" for name in sizes[:PARTS]]


def _is_row(info: ClassInfo, body: list[ast.stmt], latent: ast.expr, tokens: str) -> bool:
    """Is it [batch, length, rank]: a norm of a part of a projection of the tokens?"""
    current: ast.expr = latent
    for _ in range(len(body)):
        if isinstance(current, ast.Name):
            makers = [
                s
                for s in body
                if isinstance(s, ast.Assign)
                and (_makes(s, current.id) or current.id in _pair(s)[:1])
            ]
            if not makers:
                return current.id == tokens
            current = makers[0].value
        elif not isinstance(current, ast.Call):
            return False
        elif _keeps_rows(info, current):
            current = current.args[0]
        elif _is_method(current) and current.func.attr == "split" and _is_last(current):  # type: ignore[attr-defined]
            current = current.func.value  # type: ignore[attr-defined]
        else:
            return False
    return False


def _keeps_rows(info: ClassInfo, call: ast.Call) -> bool:
    """``self.norm(x)``, ``self.projection(x)`` and ``torch.split(x, …, dim=-1)``."""
    if is_self_attribute(call.func, "self"):
        return len(call.args) == 1
    return info.file.qualify(dotted_name(call.func)) == "torch.split" and _is_last(call)


def _names(node: ast.AST, context: type[ast.expr_context]) -> list[ast.Name]:
    return [n for n in nodes_of(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)]


def _sizes(forward: FunctionNode) -> list[str]:
    """``batch, length`` of ``batch, length, _ = hidden_states.shape``."""
    tokens = parameters(forward)[1].arg
    for statement in forward.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
            continue
        made = ast.unparse(statement.value)
        shapes = (f"{tokens}.shape", f"{tokens}.size()", f"{tokens}.shape[:-1]")
        names = [e.id for e in statement.targets[0].elts if isinstance(e, ast.Name)]
        if made in shapes and len(names) in (PARTS, PARTS + 1):
            return names[:PARTS]
    return []
