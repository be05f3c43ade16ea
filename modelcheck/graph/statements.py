"""Statements for the interpreter."""

from __future__ import annotations

import ast
from typing import Any

from modelcheck.fusers.match import Undecided
from modelcheck.graph.base import Frame, LoopExit, Raised, Returned, line_of
from modelcheck.graph.expressions import MAX_ITERATIONS, Expressions
from modelcheck.graph.operators import BINARY
from modelcheck.graph.values import External, Function, Instance, Unknown
from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode

MAX_DEPTH = 24
MAX_RECURSION = 3


class Statements(Expressions):
    """The statements of a function body."""

    def run_function(
        self,
        function: FunctionNode,
        file: FileIndex,
        names: dict[str, Any],
        defined_in: ClassInfo | None,
        depth: int,
    ) -> Any:
        """Execute a body and give what it returns. Raises `Undecided` when nested too deeply."""
        recurses = self.recorder is None and self.running.count(function) >= MAX_RECURSION
        if recurses and not any(isinstance(value, Instance) for value in names.values()):
            # It walks something unseen; only what is handed to it could change.
            return Unknown(f"{function.name} calls itself", function.lineno)
        if depth > MAX_DEPTH:
            raise Undecided("calls are nested too deeply", function.lineno)
        frame = Frame(file, names, defined_in, depth)
        self.running.append(function)
        try:
            self.block(function.body, frame)
        except Returned as result:
            return result.value
        finally:
            self.running.pop()
        return None

    def block(self, statements: list[ast.stmt], frame: Frame) -> None:
        """Execute statements in order."""
        for statement in statements:
            self.statement(statement, frame)

    def statement(self, node: ast.stmt, frame: Frame) -> None:
        """Execute one statement."""
        match node:
            case ast.Expr():
                self.expression(node.value, frame)
            case ast.Assign():
                value = self.expression(node.value, frame)
                for target in node.targets:
                    self.assign(target, value, frame)
            case ast.AnnAssign():
                if node.value is not None:
                    self.assign(node.target, self.expression(node.value, frame), frame)
            case ast.AugAssign():
                name, apply = BINARY[type(node.op)]
                old = self.expression(as_load(node.target), frame)
                new = self.binary(name, apply, old, self.expression(node.value, frame), node)
                self.assign(node.target, new, frame)
            case ast.Return():
                raise Returned(self.expression(node.value, frame) if node.value else None)
            case ast.If():
                taken = node.body if self.truth(node.test, frame) else node.orelse
                self.block(taken, frame)
            case ast.For():
                self.loop(node, frame)
            case ast.While():
                for _ in range(MAX_ITERATIONS):
                    if not self.truth(node.test, frame):
                        break
                    try:
                        self.block(node.body, frame)
                    except LoopExit as exit_:
                        if exit_.done:
                            break
            case ast.With():
                for item in node.items:
                    value = self.expression(item.context_expr, frame)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, value, frame)
                self.block(node.body, frame)
            case ast.Try():
                self.block(node.body, frame)
                self.block(node.orelse, frame)
                self.block(node.finalbody, frame)
            case ast.Raise():
                raise Raised(f"line {node.lineno}")
            case ast.Break():
                raise LoopExit(True)
            case ast.Continue():
                raise LoopExit(False)
            case ast.Assert():
                self.truth(node.test, frame)
            case ast.FunctionDef():
                frame.names[node.name] = Function(
                    node, frame.file, closure=frame.names, defined_in=frame.defined_in
                )
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        frame.names.pop(target.id, None)
            case ast.Import():
                for alias in node.names:
                    full = alias.name if alias.asname else alias.name.partition(".")[0]
                    frame.names[alias.asname or full] = External(full)
            case ast.ImportFrom():
                for alias in node.names:
                    full = f"{'.' * node.level}{node.module or ''}.{alias.name}"
                    frame.names[alias.asname or alias.name] = External(full)
            case _:
                pass  # pass, global, nonlocal, class definitions

    def loop(self, node: ast.For, frame: Frame) -> None:
        """A for loop, over what is known to be finite."""
        values = self.iterate(self.expression(node.iter, frame), node.iter)
        if len(values) > MAX_ITERATIONS:
            raise Undecided("a loop is too long to follow", node.lineno)
        for value in values:
            self.assign(node.target, value, frame)
            try:
                self.block(node.body, frame)
            except LoopExit as exit_:
                if exit_.done:
                    return
        self.block(node.orelse, frame)

    def assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Bind a target."""
        match target:
            case ast.Name():
                frame.names[target.id] = value
            case ast.Tuple() | ast.List():
                self.unpack(target.elts, value, target, frame)
            case ast.Starred():
                self.assign(target.value, value, frame)
            case ast.Attribute():
                owner = self.expression(target.value, frame)
                self.set_attribute(owner, target.attr, value, target)
            case ast.Subscript():
                owner = self.expression(target.value, frame)
                self.set_item(owner, self.expression(target.slice, frame), value, target)

    def unpack(self, targets: list[ast.expr], value: Any, node: ast.AST, frame: Frame) -> None:
        """``a, b = value``: of a traced value the number of targets tells the length."""
        starred = [i for i, t in enumerate(targets) if isinstance(t, ast.Starred)]
        values = self.iterate(value, node, None if starred else len(targets))
        if starred:
            index = starred[0]
            after = len(targets) - index - 1
            if len(values) < len(targets) - 1:
                raise Undecided("too few values to unpack", line_of(node))
            end = len(values) - after
            values = [*values[:index], values[index:end], *values[end:]]
        elif len(values) != len(targets):
            raise Undecided("a wrong number of values to unpack", line_of(node))
        for target, part in zip(targets, values, strict=True):
            self.assign(target, part, frame)


def as_load(node: ast.expr) -> ast.expr:
    """The same target, read."""
    if isinstance(node, ast.Name):
        return ast.copy_location(ast.Name(node.id, ast.Load()), node)
    if isinstance(node, ast.Attribute):
        return ast.copy_location(ast.Attribute(node.value, node.attr, ast.Load()), node)
    if isinstance(node, ast.Subscript):
        return ast.copy_location(ast.Subscript(node.value, node.slice, ast.Load()), node)
    return node
