"""What is inside a function: its nodes by type, and the methods that it reaches."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Set
from functools import cached_property
from operator import attrgetter
from typing import TypeVar

from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode, is_self_attribute
from modelcheck.source.memory import remembered
from modelcheck.source.tree import nodes_of

__all__ = [
    "Body",
    "body",
    "body_of",
    "callee_name",
    "headline",
    "nodes_of",
    "reached_methods",
    "self_name",
]

Node = TypeVar("Node", bound=ast.AST)


class Body:
    """The nodes of a function, by type and in source order."""

    def __init__(self, function: ast.AST) -> None:
        self._nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self._sorted: dict[type[ast.AST], list[ast.AST]] = {}
        for node in nodes_of(function):
            self._nodes[node.__class__].append(node)

    def all(self, kind: type[Node]) -> list[Node]:
        """Every node of exactly this type; statements and expressions by position."""
        found = self._sorted.get(kind)
        if found is None:
            found = self.some(kind)
            if len(found) > 1 and kind._attributes:  # a comprehension has no position
                found = sorted(found, key=_POSITION)
            self._sorted[kind] = found
        return found  # type: ignore[return-value]

    @property
    def kinds(self) -> Set[type[ast.AST]]:
        """The types of node that there are."""
        return self._nodes.keys()

    @cached_property
    def calls(self) -> tuple[tuple[str, ast.Call], ...]:
        """Every call with the last name of its callee, by position."""
        return tuple((callee_name(call), call) for call in self.all(ast.Call))

    @property
    def words(self) -> list[str]:
        """Every mention of a name and of an attribute."""
        return [
            *[n.id for n in self.some(ast.Name)],
            *[a.attr for a in self.some(ast.Attribute)],
        ]

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that is read or written."""
        return frozenset([n.id for n in self.some(ast.Name)])

    @cached_property
    def attributes(self) -> frozenset[str]:
        """Every attribute that is read or written, of whatever value."""
        return frozenset([attribute for _, attribute in self._attributes])

    @cached_property
    def _attributes(self) -> frozenset[tuple[str, str]]:
        """Every attribute after the name that it is of, "" for any other value."""
        return frozenset(
            [
                (a.value.id if a.value.__class__ is ast.Name else "", a.attr)
                for a in self.some(ast.Attribute)
            ]
        )

    def reads_of(self, names: Set[str]) -> list[ast.Attribute]:
        """Every attribute with one of these names, of whatever value, by position."""
        if self.attributes.isdisjoint(names):
            return []
        found = [node for node in self.some(ast.Attribute) if node.attr in names]
        return sorted(found, key=_POSITION)

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Every name and attribute that is read or written."""
        return self.names | self.attributes

    @cached_property
    def operators(self) -> tuple[type[ast.operator], ...]:
        """What kind of operator each binary operation or augmented assignment has."""
        assigned = (n.op.__class__ for n in self.some(ast.AugAssign))
        return (*(n.op.__class__ for n in self.some(ast.BinOp)), *assigned)

    def foreign(self, first: str) -> frozenset[str]:
        """The same without the attributes of ``first``, the object itself."""
        return self.names.union([a for owner, a in self._attributes if owner != first or not owner])

    def some(self, kind: type[Node]) -> list[Node]:
        """Every node of exactly this type, in the order of `nodes_of`."""
        return self._nodes.get(kind, [])  # type: ignore[return-value]

    @cached_property
    def _called(self) -> frozenset[str]:
        return frozenset(callee_name(call) for call in self.some(ast.Call))

    def called(self) -> frozenset[str]:
        """Last names of all callees: "softmax" for ``F.softmax(x)`` and ``x.softmax()``."""
        return self._called

    def mentions(self, names: frozenset[str]) -> bool:
        """Is one of these a name or an attribute here?"""
        return not names.isdisjoint(self.identifiers)


_POSITION = attrgetter("lineno", "col_offset")


@remembered(maxsize=8192)
def body(file: FileIndex, function: ast.AST) -> Body:
    """The nodes of a function of ``file``, walked once whoever asks."""
    return body_of(function)


@remembered(maxsize=8192)
def body_of(function: ast.AST) -> Body:
    """`body`, for those who do not know the file."""
    return Body(function)


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


@remembered(maxsize=512)
def reached_methods(
    info: ClassInfo, start: str = "forward"
) -> tuple[tuple[ClassInfo, FunctionNode], ...]:
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
        for name, call in body(owner.file, function).calls:
            if name not in seen and is_self_attribute(call.func, first):
                seen.add(name)
                names.append(name)
    return tuple((owner, function) for function, owner in found.items())
