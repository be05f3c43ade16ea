"""Small readings of Python syntax: signatures, dotted names, nested statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from modelcheck.source.memory import remembered

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Signature:
    """The parameters of a forward as a caller sees them (without self)."""

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    var_positional: str | None
    var_keyword: str | None
    required: tuple[str, ...] = field(default=())

    @staticmethod
    def of(function: FunctionNode) -> Signature:
        """Read it off a method."""
        return _signature(function)

    def accepts(self, name: str) -> bool:
        """May a caller pass ``name=``?"""
        return name in self.positional or name in self.keyword_only or self.var_keyword is not None

    def names(self, name: str) -> bool:
        """Is ``name`` written in the signature?"""
        return name in self.positional or name in self.keyword_only


@remembered(maxsize=512)
def _signature(function: FunctionNode) -> Signature:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1:]
    with_default = len(arguments.defaults)
    keyword_required = [
        a.arg
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    return Signature(
        positional=tuple(names),
        keyword_only=tuple(a.arg for a in arguments.kwonlyargs),
        var_positional=arguments.vararg.arg if arguments.vararg else None,
        var_keyword=arguments.kwarg.arg if arguments.kwarg else None,
        required=tuple(names[: len(names) - with_default] + keyword_required),
    )


def dotted_name(node: ast.AST) -> str:
    """ "a.b.c" for a chain of names, else ""."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return ".".join([node.id, *reversed(parts)])
    return ""


def is_self_attribute(node: ast.AST, self_name: str = "self") -> bool:
    """Is it ``self.<name>``?"""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == self_name
    )


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, those in ``if``/``try``/``with`` included, in order."""
    for node in body:
        if isinstance(node, ast.If):
            yield from statements(node.body)
            yield from statements(node.orelse)
        elif isinstance(node, ast.Try):
            yield from statements(node.body)
            for handler in node.handlers:
                yield from statements(handler.body)
            yield from statements(node.orelse)
            yield from statements(node.finalbody)
        elif isinstance(node, ast.With):
            yield from statements(node.body)
        else:
            yield node
