"""An abstract interpreter of Python source, enough for constructors and forwards.

Nothing is imported or run. An expression gives a value of `modelcheck.graph.values`; where a
`Recorder` is present (a forward is traced), operations on traced values become nodes.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterator
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Undecided
from modelcheck.graph.core import Node
from modelcheck.graph.recorder import Recorder
from modelcheck.graph.symbolic import Sym, decide
from modelcheck.graph.values import (
    AttributeOf,
    ClassValue,
    Config,
    External,
    Function,
    Instance,
    Module,
    Parameter,
    Stop,
    Tensor,
    Unknown,
)
from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode

MAX_ITERATIONS = 256
BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("truediv", operator.truediv),
    ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("mod", operator.mod),
    ast.Pow: ("pow", operator.pow),
    ast.MatMult: ("matmul", operator.matmul),
    ast.BitAnd: ("and_", operator.and_),
    ast.BitOr: ("or_", operator.or_),
    ast.BitXor: ("xor", operator.xor),
    ast.LShift: ("lshift", operator.lshift),
    ast.RShift: ("rshift", operator.rshift),
}
COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
}
PLAIN = (int, float, str, bool, type(None), Sym, bytes, complex)


class Returned(Exception):
    """A return statement was reached."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class LoopExit(Exception):
    """``break`` (done) or ``continue``."""

    def __init__(self, done: bool) -> None:
        super().__init__()
        self.done = done


class Raised(Exception):
    """A raise statement was reached."""


class Frame:
    """One function call: where its names are looked up."""

    def __init__(
        self, file: FileIndex, names: dict[str, Any], defined_in: ClassInfo | None, depth: int
    ) -> None:
        self.file = file
        self.names = names
        self.defined_in = defined_in
        self.depth = depth


def is_traced(value: Any) -> bool:
    """Is it, or does it hold, a traced value?"""
    if isinstance(value, Node | AttributeOf):
        return True
    if isinstance(value, tuple | list):
        return any(is_traced(v) for v in value)
    if isinstance(value, dict):
        return any(is_traced(v) for v in value.values())
    if isinstance(value, slice):
        return is_traced((value.start, value.stop, value.step))
    return False


class Expressions:
    """Expressions; statements, calls, attributes and items are added by its subclasses."""

    def __init__(self, contract: Contract, recorder: Recorder | None = None) -> None:
        self.contract = contract
        self.recorder = recorder
        self.globals: dict[tuple[int, str], Any] = {}
        self.constructed: list[Module] = []
        self.running: list[FunctionNode] = []  # the calls being followed, outermost first

    # Filled in by the classes that make up the interpreter -----------------------------------

    def call(
        self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        """Call a value."""
        raise NotImplementedError

    def call_function(
        self,
        function: Function,
        args: list[Any],
        kwargs: dict[str, Any],
        node: ast.AST,
        frame: Frame,
    ) -> Any:
        """Follow a function of the scanned files."""
        raise NotImplementedError

    def run_function(
        self,
        function: FunctionNode,
        file: FileIndex,
        names: dict[str, Any],
        defined_in: ClassInfo | None,
        depth: int,
    ) -> Any:
        """Execute a function body."""
        raise NotImplementedError

    def opaque(self, reason: str, inputs: list[Any], node: ast.AST) -> Any:
        """A call that cannot be seen into."""
        raise NotImplementedError

    def attribute(self, value: Any, name: str, node: ast.AST, frame: Frame) -> Any:
        """``value.name``."""
        raise NotImplementedError

    def instance_attribute(self, owner: Instance, name: str, node: ast.AST, prefix: str) -> Any:
        """``self.name``."""
        raise NotImplementedError

    def has_attribute(self, owner: Instance, name: str) -> bool | None:
        """``hasattr(self, name)``."""
        raise NotImplementedError

    def instance_of(self, module: Module) -> Instance:
        """What a child has, by running its constructor."""
        raise NotImplementedError

    def traced_operator(self, name: str, args: list[Any], node: ast.AST) -> Any:
        """An operator on traced values."""
        raise NotImplementedError

    def traced_call(
        self, op: str, target: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> Any:
        """Record an operation on traced values."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Bind a target."""
        raise NotImplementedError

    def iterate(self, value: Any, node: ast.AST, count: int | None = None) -> list[Any]:
        """The elements of a value."""
        raise NotImplementedError

    def iterate_traced(self, value: Any, node: ast.AST, count: int | None) -> list[Any]:
        """The elements of a traced value."""
        raise NotImplementedError

    def item(self, value: Any, key: Any, node: ast.AST, file: FileIndex | None = None) -> Any:
        """``value[key]``."""
        raise NotImplementedError

    def set_attribute(self, value: Any, name: str, new: Any, node: ast.AST) -> None:
        """``value.name = new``."""
        raise NotImplementedError

    def set_item(self, value: Any, key: Any, new: Any, node: ast.AST) -> None:
        """``value[key] = new``."""
        raise NotImplementedError

    def materialise(self, value: Any, node: ast.AST) -> Any:
        """``x.shape`` as a node."""
        raise NotImplementedError

    # Truth ---------------------------------------------------------------------------------

    def truth(self, node: ast.expr, frame: Frame) -> bool:
        """The truth of a condition. Raises `Stop` where it hangs on a traced value."""
        return self.truth_of(self.expression(node, frame), node)

    def truth_of(self, value: Any, node: ast.AST) -> bool:
        """The truth of a value; what cannot be told is asked of the oracle."""
        if isinstance(value, Node | AttributeOf):
            raise Stop("a branch depends on the value of an input", line_of(node))
        if isinstance(value, Unknown | Tensor):
            return decide(text_of(node))
        if isinstance(value, (*PLAIN, tuple, list, dict, set)):
            return bool(value)
        return True

    # Expressions ---------------------------------------------------------------------------

    def expression(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self.name(node.id, node, frame)
            case ast.Attribute():
                return self.attribute(self.expression(node.value, frame), node.attr, node, frame)
            case ast.Call():
                return self.call_expression(node, frame)
            case ast.BinOp():
                name, apply = BINARY[type(node.op)]
                left = self.expression(node.left, frame)
                return self.binary(name, apply, left, self.expression(node.right, frame), node)
            case ast.UnaryOp():
                return self.unary(node, frame)
            case ast.BoolOp():
                return self.bool_op(node, frame)
            case ast.Compare():
                return self.compare(node, frame)
            case ast.IfExp():
                return self.expression(
                    node.body if self.truth(node.test, frame) else node.orelse, frame
                )
            case ast.Tuple():
                return tuple(self.elements(node.elts, frame))
            case ast.List():
                return self.elements(node.elts, frame)
            case ast.Set():
                members = self.elements(node.elts, frame)
                plain = all(isinstance(m, str | int | float | type(None)) for m in members)
                return set(members) if plain else members
            case ast.Dict():
                return self.dictionary(node, frame)
            case ast.Subscript():
                key = self.expression(node.slice, frame)
                return self.item(self.expression(node.value, frame), key, node, frame.file)
            case ast.Slice():
                return slice(
                    *[
                        self.expression(part, frame) if part is not None else None
                        for part in (node.lower, node.upper, node.step)
                    ]
                )
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                over = self.expression(node.generators[0].iter, frame)
                members = list(self.comprehension(node.elt, node.generators, over, frame))
                if isinstance(over, Sym | Unknown | Tensor) and not any(
                    isinstance(m, Module) for m in members
                ):
                    return Unknown("a list of unknown length", node.lineno)
                return members
            case ast.DictComp():
                pairs = ast.Tuple([node.key, node.value], ast.Load())
                over = self.expression(node.generators[0].iter, frame)
                try:
                    return dict(self.comprehension(pairs, node.generators, over, frame))
                except TypeError:
                    return Unknown("a dict with unknown keys", node.lineno)
            case ast.JoinedStr():
                return self.text(node, frame)
            case ast.Lambda():
                return Function(node, frame.file, closure=frame.names, defined_in=frame.defined_in)
            case ast.NamedExpr():
                value = self.expression(node.value, frame)
                self.assign(node.target, value, frame)
                return value
            case ast.Starred():
                return self.expression(node.value, frame)
        return Unknown(f"{type(node).__name__} is not followed", line_of(node))

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
        if name in file.classes:
            return ClassValue(file.classes[name])
        if name in file.functions:
            return Function(file.functions[name], file)
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

    def binary(
        self, name: str, apply: Callable[[Any, Any], Any], left: Any, right: Any, node: ast.AST
    ) -> Any:
        """A binary operator."""
        if is_traced(left) or is_traced(right):
            return self.traced_operator(name, [left, right], node)
        if isinstance(left, Tensor | Parameter) or isinstance(right, Tensor | Parameter):
            return Tensor()
        for value in (left, right):
            if isinstance(value, Unknown):
                return value
        try:
            return apply(left, right)
        except (TypeError, ValueError, ArithmeticError):
            return Unknown(f"{text_of(node)} is not known", line_of(node))

    def unary(self, node: ast.UnaryOp, frame: Frame) -> Any:
        """``-x``, ``not x``, ``+x``, ``~x``."""
        value = self.expression(node.operand, frame)
        if isinstance(node.op, ast.Not):
            return not self.truth_of(value, node.operand)
        if is_traced(value):
            name = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}[type(node.op)]
            return self.traced_operator(name, [value], node)
        if isinstance(value, Sym | int | float):
            if isinstance(node.op, ast.USub):
                return -value
            if isinstance(node.op, ast.UAdd):
                return value
            if isinstance(value, int):
                return ~value
        if isinstance(value, Tensor):
            return Tensor(value.rank)
        return Unknown(f"{text_of(node)} is not known", node.lineno)

    def bool_op(self, node: ast.BoolOp, frame: Frame) -> Any:
        """``and``/``or`` give an operand, as in Python."""
        wanted = isinstance(node.op, ast.Or)
        for operand in node.values[:-1]:
            value = self.expression(operand, frame)
            if self.truth_of(value, operand) is wanted:
                return value
        return self.expression(node.values[-1], frame)

    def compare(self, node: ast.Compare, frame: Frame) -> Any:
        """A (chained) comparison."""
        left = self.expression(node.left, frame)
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.expression(right_node, frame)
            result = self.compare_one(op, left, right, node)
            if len(node.ops) > 1 and not self.truth_of(result, node):
                return False
            left = right
        return result

    def compare_one(self, op: ast.cmpop, left: Any, right: Any, node: ast.AST) -> Any:
        """One comparison of two values."""
        if isinstance(op, ast.Is | ast.IsNot):
            same = self.identical(left, right, node)
            return same if isinstance(op, ast.Is) else not same
        if isinstance(op, ast.In | ast.NotIn):
            inside = self.contains(right, left, node)
            return inside if isinstance(op, ast.In) else not inside
        name, apply = COMPARE[type(op)]
        if is_traced(left) or is_traced(right):
            return self.traced_operator(name, [left, right], node)
        if isinstance(left, Unknown | Tensor) or isinstance(right, Unknown | Tensor):
            return decide(text_of(node))
        if isinstance(left, Sym) or isinstance(right, Sym):
            other = right if isinstance(left, Sym) else left
            if isinstance(other, str | bool):
                answer = decide(f"{left} == {right}")
                return answer if name == "eq" else not answer
        try:
            return bool(apply(left, right))
        except TypeError:
            return decide(text_of(node))

    def identical(self, left: Any, right: Any, node: ast.AST) -> bool:
        """``is``: a traced value is never None."""
        for a, b in ((left, right), (right, left)):
            if b is None:
                if a is None:
                    return True
                if isinstance(a, Sym):
                    return not decide(f"{a} is not None")
                if isinstance(a, Unknown):
                    return not decide(f"not ({text_of(node)})")
                return False
        if isinstance(left, bool) and isinstance(right, bool):
            return left is right
        if isinstance(left, External) and isinstance(right, External):
            return left.dotted == right.dotted
        if isinstance(left, Node | Instance | Module | Config) or is_traced(right):
            return left is right
        return decide(text_of(node))

    def contains(self, container: Any, value: Any, node: ast.AST) -> bool:
        """``in``."""
        if is_traced(container) and isinstance(container, Node):
            return any(self.truth_of(v, node) for v in self.iterate(container, node))
        if isinstance(container, tuple | list | dict | set | str) and isinstance(
            value, str | int | float | type(None)
        ):
            if isinstance(container, str):
                return isinstance(value, str) and value in container
            if all(isinstance(c, str | int | float | type(None)) for c in container):
                return value in container
        return decide(text_of(node))

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


def text_of(node: ast.AST) -> str:
    try:
        return ast.unparse(node)
    except (AttributeError, ValueError, RecursionError):
        return type(node).__name__


def line_of(node: ast.AST) -> int | None:
    """The line of a node."""
    return getattr(node, "lineno", None)


def short(node: ast.AST) -> str:
    try:
        text = ast.unparse(node)
    except (AttributeError, ValueError, RecursionError):
        return type(node).__name__
    return text if len(text) <= 60 else text[:57] + "..."
