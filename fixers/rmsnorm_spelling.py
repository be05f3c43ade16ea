"""Write an RMSNorm as vLLM's fuser reads it: ``x * torch.rsqrt(mean(x ** 2) + eps)``.

Divisions by a square root, reciprocals of one and powers of -0.5 (which vLLM reads only from
0.31) become ``torch.rsqrt``; ``.type(dtype)`` becomes ``.to(dtype)``; in-place arithmetic on a
fresh tensor becomes plain arithmetic. The mathematics is the same; the last bit of a result may
differ, as ``rsqrt`` rounds once where a root and a division round twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
import libcst.matchers as m

from fixers.toolkit import (
    Change,
    Document,
    document,
    dotted,
    find,
    free_name,
    is_number,
    loads,
    local_names,
    methods,
    parenthesized,
    self_attribute,
    simple_assignment,
)
from modelcheck.findings import Finding

DIVISIONS = ("div", "divide", "true_divide")
DTYPES = ("float", "float32", "float64", "double", "half", "float16", "bfloat16")
# In-place methods that keep the numbers and the dtype of their plain form.
INPLACE = {"sqrt_": "sqrt", "rsqrt_": "rsqrt", "square_": "square", "reciprocal_": "reciprocal"}
MAKES_A_TENSOR = ("mean", "pow", "square", "add", "mul", "sqrt", "rsqrt", "sum")


def fix(text: str, finding: Finding) -> str:
    """``text`` with the class's norm in the recognised spelling. Raises `FixRefused`."""
    doc = document(text, finding)
    owner = doc.class_def(finding.class_name)
    _check_is_rmsnorm(doc, owner)
    changes: dict[cst.CSTNode, Change] = {}
    for function in methods(owner):
        if not function.name.value.startswith("__"):
            changes |= _Norm(doc, function).changes()
    if not changes:
        raise doc.refuse("it holds no spelling that has a recognised equivalent", owner)
    new = doc.rewrite(changes)
    needs_torch = new.count("torch.rsqrt") > text.count("torch.rsqrt")
    if needs_torch and doc.index.imports.get("torch") != "torch":
        raise doc.refuse("torch is not imported by that name", owner)
    return new


def _check_is_rmsnorm(doc: Document, owner: cst.ClassDef) -> None:
    """Raise `FixRefused` for a norm that the recognised spelling would be mistaken for.

    vLLM (0.25 to 0.33) checks neither the numerator nor the axis of the mean nor the name of
    the scale: with ``rsqrt`` it would replace a LayerNorm by an RMSNorm.
    """
    for parameter in find(owner, m.Call(func=m.Attribute(attr=m.Name("Parameter")))):
        targets = [
            self_attribute(assign.targets[0].target)
            for assign in find(owner, m.Assign())
            if isinstance(assign, cst.Assign) and assign.value is parameter
        ]
        if targets != ["weight"]:
            name = targets[0] if targets else "its parameter"
            raise doc.refuse(f"vLLM knows no parameter but weight, and here is {name}", parameter)
    for function in methods(owner):
        for node in find(function, m.BinaryOperation(operator=m.Subtract()) | _SUBTRACTS):
            raise doc.refuse("something is subtracted, so it is no RMSNorm", node)
        for node in find(function, m.Call(func=m.Attribute(attr=m.Name("mean")))):
            if not re.search(r"(\(|,|=)[\s(\[]*-1\b(?!\s*,\s*-)", doc.code(node)):
                raise doc.refuse("the mean is not over the last axis", node)


_SUBTRACTS = m.Call(func=m.Attribute(attr=m.OneOf(*map(m.Name, ("sub", "sub_", "var", "std")))))


@dataclass(frozen=True, eq=False)
class _Norm:
    """One method that may compute a norm."""

    doc: Document
    function: cst.FunctionDef

    @cached_property
    def values(self) -> dict[str, list[cst.BaseExpression]]:
        """What each local is assigned, in order."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for statement in find(self.function, m.SimpleStatementLine()):
            assigned = simple_assignment(statement)
            if assigned and "." not in assigned[0]:
                found.setdefault(assigned[0], []).append(assigned[1])
        return found

    def changes(self) -> dict[cst.CSTNode, Change]:
        """All rewrites of this method."""
        changes = self._named_roots()
        for node in find(self.function, m.BinaryOperation() | m.Call()):
            inverse = self._inverse_root(node)
            divided = self._quotient(node)
            if node in changes:
                continue
            if inverse is not None and self._is_mean(inverse):
                changes[node] = self._to_rsqrt
            elif divided is not None and self._is_mean(divided[1]):
                changes[node] = self._to_product_with_rsqrt
            elif isinstance(node, cst.Call) and self._is_dtype_cast(node):
                changes[node] = _renamed("to")
            elif isinstance(node, cst.Call) and (plain := self._plain_name(node)):
                changes[node] = _renamed(plain)
        for statement in find(self.function, m.SimpleStatementLine()):
            if self._adds_in_place(statement):
                changes[statement] = _to_assignment
        return changes

    # ---- what a node computes

    def _root(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """``v`` where the node is the square root of ``v``."""
        called = self._called(node, ("sqrt",), 0)
        if called is not None:
            return called[0]
        power = self._power(node)
        return power[0] if power and is_number(power[1], 0.5) else None

    def _inverse_root(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """``v`` where the node is one over the square root of ``v``, but not ``rsqrt``."""
        if _is_division(node) and is_number(node.left, 1):  # type: ignore[attr-defined]
            return self._root(node.right)  # type: ignore[attr-defined]
        called = self._called(node, ("reciprocal",), 0)
        if called is not None:
            return self._root(called[0])
        power = self._power(node)
        if power and is_number(power[1], -0.5):
            return power[0]
        return self._root(power[0]) if power and is_number(power[1], -1) else None

    def _quotient(self, node: cst.CSTNode) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
        """``n`` and ``v`` where the node is ``n`` over the square root of ``v``."""
        sides: tuple[cst.BaseExpression, ...] | None = self._called(node, DIVISIONS, 1)
        if isinstance(node, cst.BinaryOperation) and _is_division(node):
            sides = (node.left, node.right)
        if sides is None:
            return None
        root = self._root(sides[1])
        return (sides[0], root) if root is not None else None

    def _power(self, node: cst.CSTNode) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power):
            return node.left, node.right
        called = self._called(node, ("pow",), 1)
        return (called[0], called[1]) if called else None

    def _called(
        self, node: cst.CSTNode, names: tuple[str, ...], more: int
    ) -> tuple[cst.BaseExpression, ...] | None:
        """The operands of ``torch.name(a, ...)`` or ``a.name(...)``, with ``more`` after ``a``."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return None
        if node.func.attr.value not in names:
            return None
        given = tuple(arg.value for arg in node.args)
        is_function = self.doc.qualified(node.func).startswith("torch.")
        operands = given if is_function else (node.func.value, *given)
        allowed = ("exponent", "other") if more else ()
        odd = [a for a in node.args if a.star or (a.keyword and a.keyword.value not in allowed)]
        return operands if len(operands) == 1 + more and not odd else None

    def _is_mean(self, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> bool:
        """Is it computed from a tensor's mean (and so a tensor), through locals?"""
        if find(node, m.Call(func=m.Attribute(attr=m.Name("mean")))):
            return True
        names = {n.value for n in find(node, m.Name()) if isinstance(n, cst.Name)} - seen
        return any(
            self._is_mean(value, seen | {name})
            for name in names
            for value in self.values.get(name, ())
        )

    def _is_fresh(self, node: cst.CSTNode) -> bool:
        """Is it a tensor that no other name can refer to?"""
        if isinstance(node, cst.Name):
            values = self.values.get(node.value, [])
            aliases = [v for vs in self.values.values() for v in vs if dotted(v) == node.value]
            return len(values) == 1 and self._is_fresh(values[0]) and not aliases
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            return name in MAKES_A_TENSOR or (
                name.removesuffix("_") in MAKES_A_TENSOR and self._is_fresh(node.func.value)
            )
        return isinstance(node, cst.BinaryOperation)

    def _is_dtype_cast(self, call: cst.Call) -> bool:
        """Is it ``x.type(dtype)``?"""
        if not m.matches(call, m.Call(func=m.Attribute(attr=m.Name("type")), args=[m.Arg()])):
            return False
        argument = call.args[0].value
        name = dotted(argument)
        values = self.values.get(name, [])
        known = self.doc.qualified(argument).removeprefix("torch.") in DTYPES
        return (
            known
            or name.endswith(".dtype")
            or (len(values) == 1 and dotted(values[0]).endswith(".dtype"))
        )

    def _plain_name(self, call: cst.Call) -> str:
        """The plain name of an in-place method on a fresh tensor, "" for anything else."""
        if not isinstance(call.func, cst.Attribute) or not self._is_fresh(call.func.value):
            return ""
        if isinstance(call.func.value, cst.Name):
            return ""  # the name would keep the old value
        name = call.func.attr.value
        if name == "add_" and self._adds_a_number(call):
            return "add"
        return INPLACE.get(name, "") if not call.args else ""

    def _adds_a_number(self, call: cst.Call) -> bool:
        if len(call.args) != 1 or call.args[0].keyword or call.args[0].star:
            return False
        value = call.args[0].value
        attribute = self_attribute(value)
        return is_number(value) or "eps" in attribute

    def _adds_in_place(self, statement: cst.CSTNode) -> bool:
        """Is it the statement ``variance.add_(eps)``?"""
        if not m.matches(statement, _IN_PLACE):
            return False
        assert isinstance(statement, cst.SimpleStatementLine)
        item = statement.body[0]
        assert isinstance(item, cst.Expr) and isinstance(item.value, cst.Call)
        assert isinstance(item.value.func, cst.Attribute)
        return self._is_fresh(item.value.func.value) and self._adds_a_number(item.value)

    # ---- the rewrites

    def _to_rsqrt(self, node: cst.CSTNode) -> cst.CSTNode:
        inside = self._inverse_root(node)
        assert inside is not None
        return _rsqrt(inside)

    def _to_product_with_rsqrt(self, node: cst.CSTNode) -> cst.CSTNode:
        sides = self._quotient(node)
        assert sides is not None
        if isinstance(node, cst.BinaryOperation):
            return _times(node, _rsqrt(sides[1]))
        left = sides[0]
        if isinstance(left, cst.BinaryOperation | cst.UnaryOperation | cst.IfExp):
            left = parenthesized(left)
        return parenthesized(cst.BinaryOperation(left, cst.Multiply(), _rsqrt(sides[1])))

    def _named_roots(self) -> dict[cst.CSTNode, Change]:
        """``rms = sqrt(v)`` whose every use divides by it: name the inverse instead."""
        changes: dict[cst.CSTNode, Change] = {}
        taken = local_names(self.function)
        for statement in find(self.function, m.SimpleStatementLine()):
            assigned = simple_assignment(statement)
            root = self._root(assigned[1]) if assigned else None
            if assigned is None or root is None or not self._is_mean(root):
                continue
            name, value = assigned
            uses = [
                node
                for node in find(self.function, m.BinaryOperation(operator=m.Divide()))
                if isinstance(node, cst.BinaryOperation) and dotted(node.right) == name
            ]
            if "." in name or len(self.values[name]) != 1:
                continue
            if not uses or loads(self.function, name) != len(uses):
                continue
            inverse = cst.Name(free_name([f"inv_{name}"], taken))
            for target in find(statement, m.Name(name))[:1]:
                changes[target] = lambda node, new=inverse: new  # type: ignore[misc]
            changes[value] = self._root_to_rsqrt
            for use in uses:
                one = is_number(use.left, 1)
                changes[use] = _by_inverse(inverse, one)
        return changes

    def _root_to_rsqrt(self, node: cst.CSTNode) -> cst.CSTNode:
        inside = self._root(node)
        assert inside is not None
        return _rsqrt(inside)


_IN_PLACE = m.SimpleStatementLine(
    body=[m.Expr(m.Call(func=m.Attribute(value=m.Name(), attr=m.Name("add_"))))]
)


def _is_division(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide)


def _rsqrt(inside: cst.BaseExpression) -> cst.Call:
    if not isinstance(inside, cst.Tuple | cst.GeneratorExp):
        inside = inside.with_changes(lpar=[], rpar=[])
    function = cst.Attribute(cst.Name("torch"), cst.Name("rsqrt"))
    return cst.Call(function, [cst.Arg(inside)])


def _times(node: cst.BinaryOperation, right: cst.BaseExpression) -> cst.CSTNode:
    """``left * right`` laid out as ``left / ...`` was."""
    old = node.operator
    assert isinstance(old, cst.Divide)
    times = cst.Multiply(old.whitespace_before, old.whitespace_after)
    return node.with_changes(operator=times, right=right)


def _by_inverse(inverse: cst.Name, alone: bool) -> Change:
    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.BinaryOperation)
        return inverse if alone else _times(node, inverse)

    return change


def _renamed(name: str) -> Change:
    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
        return node.with_changes(func=node.func.with_changes(attr=cst.Name(name)))

    return change


def _to_assignment(node: cst.CSTNode) -> cst.CSTNode:
    """``v.add_(e)`` to ``v = v + e``."""
    assert isinstance(node, cst.SimpleStatementLine)
    item = node.body[0]
    assert isinstance(item, cst.Expr) and isinstance(item.value, cst.Call)
    assert isinstance(item.value.func, cst.Attribute)
    name, value = item.value.func.value, item.value.args[0].value
    total = cst.BinaryOperation(name, cst.Add(), value)
    assert isinstance(name, cst.Name)
    assign = cst.Assign([cst.AssignTarget(name)], total, item.semicolon)
    return node.with_changes(body=[assign])
