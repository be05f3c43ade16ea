"""What is inside a function: its nodes by type, and the methods that it reaches."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache
from typing import TypeVar

from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode, is_self_attribute

Node = TypeVar("Node", bound=ast.AST)


@lru_cache(maxsize=512)
def nodes_of(node: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes below one, itself first, in the order of `ast.walk`; walked once."""
    return tuple(ast.walk(node))


class Body:
    """The nodes of a function, by type and in source order."""

    def __init__(self, function: ast.AST) -> None:
        self._nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self._sorted: dict[type[ast.AST], list[ast.AST]] = {}
        for node in nodes_of(function):
            self._nodes[type(node)].append(node)

    def all(self, kind: type[Node]) -> list[Node]:
        """Every node of exactly this type; statements and expressions by position."""
        if kind not in self._sorted:
            self._sorted[kind] = sorted(
                self._nodes.get(kind, ()),
                key=lambda n: (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)),
            )
        return self._sorted[kind]  # type: ignore[return-value]

    def called(self) -> frozenset[str]:
        """Last names of all callees: "softmax" for ``F.softmax(x)`` and ``x.softmax()``."""
        return frozenset(callee_name(c) for c in self.all(ast.Call))

    def mentions(self, names: frozenset[str]) -> bool:
        """Is one of these a name or an attribute here?"""
        return any(n.id in names for n in self.all(ast.Name)) or any(
            a.attr in names for a in self.all(ast.Attribute)
        )


@lru_cache(maxsize=64)
def _bodies(file: FileIndex) -> dict[ast.AST, Body]:
    return {}


def body(file: FileIndex, function: ast.AST) -> Body:
    """The nodes of a function of ``file``, walked once whoever asks."""
    known = _bodies(file)
    if function not in known:
        known[function] = Body(function)
    return known[function]


def callee_name(call: ast.Call) -> str:
    """The last name of what is called, "" for a call of a call or an element."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def self_name(function: FunctionNode) -> str:
    """The first parameter's name."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    return arguments[0].arg if arguments else "self"


def headline(node: ast.ClassDef | FunctionNode) -> ast.expr:
    """A stand-in node that covers "class Name" or "def name" only, for a finding's span."""
    word = {ast.ClassDef: "class", ast.FunctionDef: "def"}.get(type(node), "async def")
    end = node.col_offset + len(f"{word} {node.name}".encode())
    return ast.Name(
        node.name,
        lineno=node.lineno,
        col_offset=node.col_offset,
        end_lineno=node.lineno,
        end_col_offset=end,
    )


def reached_methods(
    info: ClassInfo, start: str = "forward"
) -> list[tuple[ClassInfo, FunctionNode]]:
    """A method and the methods of the same object that it calls, nearest first."""
    found: dict[FunctionNode, ClassInfo] = {}
    names, seen = [start], {start}
    while names:
        hit = info.find_method(names.pop(0))
        if hit is None or hit[1] in found:
            continue
        owner, function = hit
        found[function] = owner
        first = self_name(function)
        for call in body(owner.file, function).all(ast.Call):
            if is_self_attribute(call.func, first):
                name = callee_name(call)
                if name not in seen:
                    seen.add(name)
                    names.append(name)
    return [(owner, function) for function, owner in found.items()]
