"""Operators, comparisons and truth for the interpreter."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from modelcheck.graph.base import Base, Frame, is_traced, line_of, text_of
from modelcheck.graph.core import Node
from modelcheck.graph.symbolic import Sym, decide
from modelcheck.graph.values import (
    AttributeOf,
    Config,
    External,
    Instance,
    Module,
    Parameter,
    Stop,
    Tensor,
    Unknown,
)

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


class Operators(Base):
    """What operators give."""

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
