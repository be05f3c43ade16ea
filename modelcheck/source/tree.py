"""Walks over syntax trees: each function's nodes are listed once, whoever asks."""

from __future__ import annotations

import ast
from ast import AST, Attribute, Call, Constant, Name, keyword
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from modelcheck.source.memory import remembered

# Fields that never hold a node a reader of code looks for by walking: plain values, and the
# operators and contexts, which are read off the node that has them.
_PLAIN = frozenset(
    (
        *("arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "level"),
        *("module", "op", "ops", "rest", "simple", "str", "tag", "type_comment", "type_ignores"),
    )
)


def walk(node: ast.AST) -> list[ast.AST]:
    """All nodes below one, itself first, in the order of `ast.walk`.

    Left out are the singletons for operators (``ast.Add``) and contexts (``ast.Load``).
    """
    found = [node]
    add, extend = found.append, found.extend
    for current in found:  # grows while it is read
        kind = current.__class__
        # Five kinds of node are two thirds of a program.
        if kind is Name or kind is Constant:
            continue
        if kind is Attribute or kind is keyword:
            add(current.value)  # type: ignore[attr-defined]
            continue
        if kind is Call:
            add(current.func)  # type: ignore[attr-defined]
            extend(current.args)  # type: ignore[attr-defined]
            extend(current.keywords)  # type: ignore[attr-defined]
            continue
        read = _CHILDREN[kind]
        if read is None:
            continue
        for value in read(current):
            if value.__class__ is list:
                for item in value:
                    if isinstance(item, AST):
                        add(item)
            elif isinstance(value, AST):
                add(value)
    return found


_Reader = Callable[[ast.AST], Iterable[Any]] | None


def _reader(kind: type[ast.AST]) -> _Reader:
    """What reads the fields of a kind of node that may hold nodes; None where none does."""
    leaf = kind in (ast.Constant, ast.Global, ast.Nonlocal)
    names = () if leaf else tuple(name for name in kind._fields if name not in _PLAIN)
    # With one name attrgetter gives the value itself: a plain field makes it a pair.
    plain = [name for name in (*kind._fields, *kind._attributes) if name in _PLAIN | {"lineno"}]
    if len(names) == 1 and not plain:
        return lambda node: (getattr(node, names[0]),)
    return attrgetter(*names, *plain[: len(names) == 1]) if names else None


class _Readers(dict[type[ast.AST], _Reader]):
    def __missing__(self, kind: type[ast.AST]) -> _Reader:
        self[kind] = reader = _reader(kind)
        return reader


_CHILDREN = _Readers()


@remembered(maxsize=8192)
def nodes_of(node: ast.AST) -> tuple[ast.AST, ...]:
    """`walk`, done once for a node."""
    return tuple(walk(node))
