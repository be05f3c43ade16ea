"""Which parts of a function run whenever it is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from modelcheck.source.classes import FunctionNode
from modelcheck.source.memory import remembered

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_OPTIONAL = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@remembered(maxsize=256)
def runs_always(function: FunctionNode) -> frozenset[ast.AST]:
    """The nodes of `certain_nodes` of a function's body."""
    return frozenset(certain_nodes(function.body))


def certain_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes that certainly run: not behind a condition, a loop, a ``try`` or an early return.

    Of a condition, the first operand of ``and``/``or`` and the test of ``a if b else c`` count.
    """
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _expression(statement.test)
            if any(isinstance(n, ast.Return) for n in ast.walk(statement)):
                return
        elif isinstance(statement, ast.For):
            yield from _expression(statement.iter)
        elif isinstance(statement, ast.With):
            for item in statement.items:
                yield from _expression(item.context_expr)
            yield from certain_nodes(statement.body)
        elif isinstance(statement, ast.Return | ast.Raise):
            yield from _expression(statement)
            return
        elif not isinstance(statement, ast.Try | ast.While | ast.Match | ast.Assert | _Definition):
            yield from _expression(statement)


def _expression(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, _Definition | ast.Lambda):
        return
    yield node
    if isinstance(node, ast.BoolOp):
        yield from _expression(node.values[0])
    elif isinstance(node, ast.IfExp):
        yield from _expression(node.test)
    elif isinstance(node, _OPTIONAL):
        yield from _expression(node.generators[0].iter)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _expression(child)
