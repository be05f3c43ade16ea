"""Causal masks that an attention module makes itself: a lower triangle of ones, or a part of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name


@dataclass(frozen=True)
class Window:
    """A causal buffer shows the last ``size`` keys only, where the constructor's test holds."""

    test: ast.expr
    size: ast.expr


def _buffers(info: ClassInfo, name: str) -> list[ast.expr]:
    """What is registered, or assigned, under a buffer's name by a class and its ancestors."""
    found = []
    for parent in info.mro:
        for node in ast.walk(parent.node):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "register_buffer"
                and len(node.args) >= 2
                and isinstance(node.args[0], ast.Constant)
                and node.args[0].value == name
            ):
                found.append(node.args[1])
    return found


def is_buffer(info: ClassInfo, name: str) -> bool:
    return bool(_buffers(info, name))


def is_causal_buffer(info: ClassInfo, name: str) -> bool:
    """Is the buffer a lower triangle of ones, and nothing else?"""
    values = _buffers(info, name)
    return bool(values) and all(_is_triangle(info, value) for value in values)


def window_of(info: ClassInfo, name: str) -> Window | None:
    """The window of a causal buffer that the constructor computes in a local."""
    values = _buffers(info, name)
    if len(values) != 1 or not isinstance(values[0], ast.Name):
        return None
    found = _triangle_local(info, values[0].id)
    return found[0] if found else None


def _triangle_local(info: ClassInfo, name: str) -> tuple[Window | None] | None:
    """The window of a local of the constructor that is a triangle; None for any other local."""
    init = info.methods.get("__init__")
    body = init.body if init is not None else []
    stores = [s for s in body if any(_stores_name(n, name) for n in ast.walk(s))]
    match stores:
        case [ast.Assign(value=made)] if _is_triangle(info, made):
            return (None,)
        case [
            ast.Assign(value=made),
            ast.If(
                test=test,
                body=[
                    ast.Assign(
                        value=ast.Call(
                            func=xor,
                            args=[
                                ast.Name(id=one),
                                ast.Call(
                                    func=tril,
                                    args=[
                                        ast.Name(id=two),
                                        ast.UnaryOp(op=ast.USub(), operand=size),
                                    ],
                                ),
                            ],
                        )
                    )
                ],
                orelse=[],
            ),
        ] if _is_triangle(info, made) and one == two == name:
            names = [info.file.qualify(dotted_name(f)) for f in (xor, tril)]
            if names == ["torch.bitwise_xor", "torch.tril"]:
                return (Window(test, size),)
    return None


def makes_triangle(info: ClassInfo, function: FunctionNode) -> bool:
    """Does a method return a lower triangle of ones, or a part of it?"""
    match function.body:
        case [ast.Return(value=ast.expr() as value)]:
            made: ast.expr | None = value
        case [
            ast.Assign(targets=[ast.Name(id=name)], value=made),
            ast.Return(value=ast.Name(id=result) | ast.Subscript(value=ast.Name(id=result))),
        ] if name == result:
            pass
        case _:
            return False
    return made is not None and _is_triangle(info, made)


def _stores_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _is_triangle(info: ClassInfo, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return _triangle_local(info, node.id) is not None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("view", "reshape", "to", "bool", "unsqueeze"):
            return _is_triangle(info, node.func.value)
        name = info.file.qualify(dotted_name(node.func))
        if name == "torch.tril" and len(node.args) == 1 and not node.keywords:
            return _is_ones(info, node.args[0])
    return False


def _is_ones(info: ClassInfo, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("view", "reshape"):
        return _is_ones(info, node.func.value)
    return info.file.qualify(dotted_name(node.func)) == "torch.ones"
