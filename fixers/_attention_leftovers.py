"""Imports and functions that a rewrite left without a use."""

from __future__ import annotations

import ast

import libcst as cst

from fixers.splice import Splice, names
from fixers.toolkit import Document, document
from modelcheck.findings import Finding
from modelcheck.source.classes import FunctionNode


def without_leftovers(old: str, new: str, finding: Finding) -> str:
    """``new`` without the imports that ``old`` used and ``new`` no longer does."""
    used_before = _used(ast.parse(old))
    while True:
        doc = document(new, finding)
        unused = {name for name in doc.index.imports if name in used_before} - _used(ast.parse(new))
        if not unused:
            return new
        trimmed = doc.module.visit(_Trimmer(unused)).code
        if trimmed == new:
            return new
        new = trimmed


def without_idle_locals(doc: Document, name: str) -> str:
    """The text without sizes that the forward of a class computes and no longer reads."""
    forward = doc.class_info(name).methods.get("forward")
    splice = Splice(doc)
    idle = [s for s in forward.body if _is_idle_size(s, forward)] if forward is not None else []
    for statement in idle:
        splice.remove(statement, with_comments=False)
    return splice.text() if idle else doc.text


def _is_idle_size(statement: ast.stmt, forward: FunctionNode) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            pass
        case _:
            return False
    if len(names(forward, name)) > 1:
        return False
    calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)]
    reads = {n.attr for n in ast.walk(value) if isinstance(n, ast.Attribute)}
    sized = all(isinstance(c.func, ast.Attribute) and c.func.attr == "size" for c in calls)
    return sized and bool(reads & {"shape", "size"})


def _used(tree: ast.Module) -> set[str]:
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    for node in ast.walk(tree):  # names in __all__ and in string annotations count
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= _names_in(node.value)
    return names


def _names_in(text: str) -> set[str]:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return set()
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


class _Trimmer(cst.CSTTransformer):
    def __init__(self, unused: set[str]) -> None:
        super().__init__()
        self.unused = unused

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        return self._trimmed(updated_node)  # type: ignore[return-value]

    def leave_Import(
        self, original_node: cst.Import, updated_node: cst.Import
    ) -> cst.Import | cst.RemovalSentinel:
        return self._trimmed(updated_node)  # type: ignore[return-value]

    def _trimmed(self, node: cst.Import | cst.ImportFrom) -> cst.CSTNode | cst.RemovalSentinel:
        if isinstance(node.names, cst.ImportStar):
            return node
        keep = [a for a in node.names if not self._is_unused(a)]
        if len(keep) == len(node.names):
            return node
        if not keep:
            return cst.RemoveFromParent()
        last = node.names[-1].comma if isinstance(node, cst.ImportFrom) and node.lpar else None
        comma = last if last is not None else cst.MaybeSentinel.DEFAULT
        return node.with_changes(names=[*keep[:-1], keep[-1].with_changes(comma=comma)])

    def _is_unused(self, alias: cst.ImportAlias) -> bool:
        if alias.asname is not None:
            return alias.evaluated_alias in self.unused
        return alias.evaluated_name.partition(".")[0] in self.unused

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If | cst.RemovalSentinel:
        body = updated_node.body.body
        empty = not body or (
            len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) and not body[0].body
        )
        if empty and original_node.body.body and updated_node.orelse is None:
            return cst.RemoveFromParent()
        return updated_node
