"""Walks over syntax trees: each function's nodes are listed once, whoever asks."""

from __future__ import annotations

import ast
from functools import cache, lru_cache

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
    for current in found:  # grows while it is read
        for name in _fields(type(current)):  # type: ignore[arg-type]
            value = getattr(current, name, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


@cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    if kind in (ast.Constant, ast.Global, ast.Nonlocal):
        return ()
    return tuple(name for name in kind._fields if name not in _PLAIN)


@lru_cache(maxsize=1024)
def nodes_of(node: ast.AST) -> tuple[ast.AST, ...]:
    """`walk`, done once for a node."""
    return tuple(walk(node))
