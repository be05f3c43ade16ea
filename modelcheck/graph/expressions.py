"""An abstract interpreter of Python source, enough for constructors and forwards.

Nothing is imported or run. An expression gives a value of `modelcheck.graph.values`; where a
`Recorder` is present (a forward is traced), operations on traced values become nodes.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from typing import Any

from modelcheck.fusers.match import Undecided
from modelcheck.graph.base import Frame, Raised, line_of
from modelcheck.graph.core import Node
from modelcheck.graph.operators import BINARY, Operators
from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import (
    ClassValue,
    External,
    Function,
    Module,
    Stop,
    Tensor,
    Unknown,
)
from modelcheck.source.classes import FileIndex
from modelcheck.source.memory import remembered

MAX_ITERATIONS = 256


class Expressions(Operators):
    """Expressions; statements, calls, attributes and items are added by other parts."""

    def expression(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""
        read = _READERS.get(node.__class__)
        if read is None:
            return Unknown(f"{type(node).__name__} is not followed", line_of(node))
        return read(self, node, frame)

    def _constant(self, node: ast.Constant, frame: Frame) -> Any:
        return node.value

    def _name(self, node: ast.Name, frame: Frame) -> Any:
        return self.name(node.id, node, frame)

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        return self.attribute(self.expression(node.value, frame), node.attr, node, frame)

    def _operation(self, node: ast.BinOp, frame: Frame) -> Any:
        name, apply = BINARY[node.op.__class__]
        left = self.expression(node.left, frame)
        return self.binary(name, apply, left, self.expression(node.right, frame), node)

    def _choice(self, node: ast.IfExp, frame: Frame) -> Any:
        taken = node.body if self.truth(node.test, frame) else node.orelse
        return self.expression(taken, frame)

    def _tuple(self, node: ast.Tuple, frame: Frame) -> Any:
        return tuple(self.elements(node.elts, frame))

    def _list(self, node: ast.List, frame: Frame) -> Any:
        return self.elements(node.elts, frame)

    def _set(self, node: ast.Set, frame: Frame) -> Any:
        members = self.elements(node.elts, frame)
        plain = all(isinstance(m, str | int | float | type(None)) for m in members)
        return set(members) if plain else members

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        key = self.expression(node.slice, frame)
        return self.item(self.expression(node.value, frame), key, node, frame.file)

    def _slice(self, node: ast.Slice, frame: Frame) -> Any:
        parts = (node.lower, node.upper, node.step)
        return slice(*[None if part is None else self.expression(part, frame) for part in parts])

    def _comprehended(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, frame: Frame
    ) -> Any:
        over = self.expression(node.generators[0].iter, frame)
        members = list(self.comprehension(node.elt, node.generators, over, frame))
        if isinstance(over, Sym | Unknown | Tensor) and not any(
            isinstance(m, Module) for m in members
        ):
            return Unknown("a list of unknown length", node.lineno)
        return members

    def _comprehended_dict(self, node: ast.DictComp, frame: Frame) -> Any:
        pairs = ast.Tuple([node.key, node.value], ast.Load())
        over = self.expression(node.generators[0].iter, frame)
        try:
            return dict(self.comprehension(pairs, node.generators, over, frame))
        except TypeError:
            return Unknown("a dict with unknown keys", node.lineno)

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Any:
        return Function(node, frame.file, closure=frame.names, defined_in=frame.defined_in)

    def _named(self, node: ast.NamedExpr, frame: Frame) -> Any:
        value = self.expression(node.value, frame)
        self.assign(node.target, value, frame)
        return value

    def _starred(self, node: ast.Starred, frame: Frame) -> Any:
        return self.expression(node.value, frame)

    def elements(self, nodes: list[ast.expr], frame: Frame) -> list[Any]:
        """List elements, ``*parts`` spread."""
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values += self.iterate(self.expression(node.value, frame), node)
            else:
                values.append(self.expression(node, frame))
        return values

    def dictionary(self, node: ast.Dict, frame: Frame) -> Any:
        """A dict display; unknown keys make it unknown."""
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            item = self.expression(value, frame)
            if key is None:
                if not isinstance(item, dict):
                    return Unknown("a dict of unknown contents", node.lineno)
                found |= item
                continue
            name = self.expression(key, frame)
            if not isinstance(name, str | int | float | tuple | type(None)):
                return Unknown("a dict with unknown keys", node.lineno)
            found[name] = item
        return found

    def text(self, node: ast.JoinedStr, frame: Frame) -> Any:
        """An f-string of known parts."""
        parts = []
        for value in node.values:
            if isinstance(value, ast.Constant):
                parts.append(str(value.value))
            elif isinstance(value, ast.FormattedValue):
                inner = self.expression(value.value, frame)
                if not isinstance(inner, str | int | float):
                    return Unknown("a text of unknown parts", node.lineno)
                parts.append(str(inner))
        return "".join(parts)

    def comprehension(
        self, element: ast.expr, generators: list[ast.comprehension], over: Any, frame: Frame
    ) -> Iterator[Any]:
        """The elements of a comprehension over a value, in a scope of its own."""
        inner = Frame(frame.file, dict(frame.names), frame.defined_in, frame.depth)
        first, *rest = generators
        for value in self.iterate(over, first.iter)[:MAX_ITERATIONS]:
            self.assign(first.target, value, inner)
            if not all(self.truth(condition, inner) for condition in first.ifs):
                continue
            if rest:
                deeper = self.expression(rest[0].iter, inner)
                yield from self.comprehension(element, rest, deeper, inner)
            else:
                yield self.expression(element, inner)

    def name(self, name: str, node: ast.AST, frame: Frame) -> Any:
        """A local, global or builtin name."""
        if name in frame.names:
            return frame.names[name]
        return self.global_name(name, frame.file)

    def global_name(self, name: str, file: FileIndex) -> Any:
        """A name at module level: a function, class, import or constant."""
        key = (id(file), name)
        if key in self.globals:
            return self.globals[key]
        self.globals[key] = Unknown(f"{name} is defined in terms of itself")
        self.globals[key] = value = self._global(name, file)
        return value

    def _global(self, name: str, file: FileIndex) -> Any:
        defined = _definition(name, file)
        if defined is not None:
            return defined
        if name in file.assignments:
            frame = Frame(file, {}, None, 0)
            try:
                return self.expression(file.assignments[name], frame)
            except (Undecided, Stop, Raised, TypeError, ValueError, ArithmeticError):
                return Unknown(f"the value of {name} is not known")
        if name in file.imports:
            full = file.imports[name]
            last = full.rpartition(".")[2]
            other = file.project.sibling(file, full)
            if other is not None and other is not file:
                if last in other.classes:
                    return ClassValue(other.classes[last])
                if last in other.functions:
                    return Function(other.functions[last], other)
            return External(full)
        if not hasattr(builtins, name):
            return Unknown(f"the value of {name} is not known")
        return External(f"builtins.{name}")

    def call_expression(self, node: ast.Call, frame: Frame) -> Any:
        """A call: arguments left to right, ``*`` and ``**`` spread."""
        function = self.callee(node.func, frame)
        args = self.elements(node.args, frame)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.expression(keyword.value, frame)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs |= {str(k): v for k, v in value.items()}
            elif isinstance(value, Node):
                self.iterate(value, node)  # an empty **kwargs, or the trace ends
            elif not isinstance(value, Unknown | Sym):
                raise Undecided("a call with arguments that are not known", node.lineno)
        return self.call(function, args, kwargs, node, frame)

    def callee(self, node: ast.expr, frame: Frame) -> Any:
        """What is called; ``x.method`` of a traced value is not recorded by itself."""
        return self.expression(node, frame)


@remembered(maxsize=1024)
def _definition(name: str, file: FileIndex) -> ClassValue | Function | None:
    """A class or function of the file itself."""
    if name in file.classes:
        return ClassValue(file.classes[name])
    return Function(file.functions[name], file) if name in file.functions else None


_Reader = Callable[[Any, Any, Frame], Any]
_READERS: dict[type[ast.AST], _Reader] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Call: Expressions.call_expression,
    ast.BinOp: Expressions._operation,
    ast.UnaryOp: Expressions.unary,
    ast.BoolOp: Expressions.bool_op,
    ast.Compare: Expressions.compare,
    ast.IfExp: Expressions._choice,
    ast.Tuple: Expressions._tuple,
    ast.List: Expressions._list,
    ast.Set: Expressions._set,
    ast.Dict: Expressions.dictionary,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.ListComp: Expressions._comprehended,
    ast.GeneratorExp: Expressions._comprehended,
    ast.SetComp: Expressions._comprehended,
    ast.DictComp: Expressions._comprehended_dict,
    ast.JoinedStr: Expressions.text,
    ast.Lambda: Expressions._lambda,
    ast.NamedExpr: Expressions._named,
    ast.Starred: Expressions._starred,
}
