"""Write a GLU in one expression: ``self.act_fn(self.gate_proj(x)) * self.up_proj(x)``.

vLLM's GLU fuser rewrites the source of ``forward`` and wants the gate's call inside the
activation's and the product as ``*`` of the two calls. Temporaries that are used once are put
where they are used, and ``torch.mul(a, b)``, ``a.mul(b)`` and ``a *= b`` become ``a * b``. The
calls then run in another order, which changes nothing: the projections are Linears.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fixers import FixRefused
from fixers.functional_activation import ENTRIES
from fixers.toolkit import (
    Change,
    Document,
    comments_of,
    document,
    find,
    is_inplace_name,
    loads,
    parenthesized,
    self_attribute,
)
from modelcheck.findings import Finding
from modelcheck.source.classes import ClassInfo, dotted_name

PRODUCTS = ("torch.mul", "torch.multiply")


@dataclass(frozen=True)
class _Place:
    """Where a product stands: ``block.body[index]`` holds it."""

    function: cst.FunctionDef
    block: cst.IndentedBlock
    index: int

    @property
    def statement(self) -> cst.SimpleStatementLine:
        statement = self.block.body[self.index]
        assert isinstance(statement, cst.SimpleStatementLine)
        return statement


@dataclass
class _Temporaries:
    """The names that were followed to their values, and where they are assigned."""

    doc: Document
    place: _Place
    used: set[tuple[str, int]] = field(default_factory=set)

    def value(self, node: cst.BaseExpression, before: int) -> tuple[cst.BaseExpression, int]:
        """What a name stands for just before a statement, and the statement that says so."""
        if not isinstance(node, cst.Name):
            return node, before
        for index in range(before - 1, -1, -1):
            assigned = _assignments(self.place.block.body[index])
            if node.value in assigned:
                self._single_use(node, index)
                self.used.add((node.value, index))
                return assigned[node.value], index
        return node, before

    def _single_use(self, name: cst.Name, index: int) -> None:
        block, function = self.place.block, self.place.function
        uses = 0
        for statement in block.body[index + 1 :]:
            uses += loads(statement, name.value)
            if name.value in _assignments(statement) or _augments(statement, name.value):
                break
        else:
            if block is not function.body:
                uses += loads(function, name.value) - loads(block, name.value)
        for inner in find(function.body, m.FunctionDef() | m.Lambda() | m.ClassDef()):
            uses += loads(inner, name.value)
        if uses != 1:
            raise self.doc.refuse(f"{name.value} is used {uses} times", block.body[index])


@dataclass(frozen=True)
class _Glu:
    """``activation(gate(x)) * up(x)``, the two factors as they will be written."""

    factors: tuple[cst.BaseExpression, cst.BaseExpression]  # in the source's order
    removed: tuple[int, ...]  # statements that only held temporaries
    first: int  # the earliest statement that is evaluated later than it was


def fix(text: str, finding: Finding) -> str:
    """``text`` with the GLU in one expression. Raises `FixRefused`."""
    doc = document(text, finding)
    function = doc.method_at(doc.class_def(finding.class_name), finding.span)
    info = doc.class_info(finding.class_name)
    products = [p for p in find(function, _PRODUCT) if _operands(doc, p) is not None]
    refusals: list[FixRefused] = []
    for product in doc.chosen(products, finding.span):
        try:
            return doc.rewrite(_changes(doc, info, function, product))
        except FixRefused as refusal:
            refusals.append(refusal)
    raise refusals[0] if refusals else doc.refuse("there is no product here", function)


_PRODUCT = (
    m.BinaryOperation(operator=m.Multiply())
    | m.AugAssign(target=m.Name(), operator=m.MultiplyAssign())
    | m.Call()
)


def _operands(
    doc: Document, product: cst.CSTNode
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    if isinstance(product, cst.BinaryOperation):
        return product.left, product.right
    if isinstance(product, cst.AugAssign):
        return product.target, product.value
    assert isinstance(product, cst.Call)
    if any(arg.keyword or arg.star for arg in product.args):
        return None
    if doc.qualified(product.func) in PRODUCTS and len(product.args) == 2:
        return product.args[0].value, product.args[1].value
    method = m.Attribute(attr=m.Name("mul") | m.Name("multiply"))
    if m.matches(product.func, method) and len(product.args) == 1:
        assert isinstance(product.func, cst.Attribute)
        return product.func.value, product.args[0].value
    return None


def _changes(
    doc: Document, info: ClassInfo, function: cst.FunctionDef, product: cst.CSTNode
) -> dict[cst.CSTNode, Change]:
    place = _place(doc, function, product)
    operands = _operands(doc, product)
    assert operands is not None
    glu = _glu(doc, info, place, operands)
    if not glu.removed and isinstance(product, cst.BinaryOperation):
        raise doc.refuse("it is one expression already", product)
    _check_between(doc, place, glu)
    return {
        **_moved_comments(place, glu.removed),
        **{place.block.body[i]: _remove for i in glu.removed},
        product: lambda node: _written(node, glu.factors, _stands_alone(place, product)),
    }


def _remove(node: cst.CSTNode) -> cst.RemovalSentinel:
    return cst.RemoveFromParent()


def _place(doc: Document, function: cst.FunctionDef, product: cst.CSTNode) -> _Place:
    for loop in find(function, m.For() | m.While()):
        if product in find(loop, _PRODUCT):
            raise doc.refuse("the product is in a loop", product)
    assert isinstance(function.body, cst.IndentedBlock)
    for block in [function.body, *find(function.body, m.IndentedBlock())]:
        assert isinstance(block, cst.IndentedBlock)
        for index, statement in enumerate(block.body):
            simple = isinstance(statement, cst.SimpleStatementLine)
            if simple and product in find(statement, _PRODUCT):
                return _Place(function, block, index)
    raise doc.refuse("the product is not in a simple statement", product)


def _assignments(statement: cst.CSTNode) -> dict[str, cst.BaseExpression]:
    """Names and values of ``a = x``, ``a: T = x`` and ``a, b = x, y`` on a line of its own."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return {}
    item = statement.body[0]
    if isinstance(item, cst.AnnAssign) and isinstance(item.target, cst.Name) and item.value:
        return {item.target.value: item.value}
    if not isinstance(item, cst.Assign) or len(item.targets) != 1:
        return {}
    target, value = item.targets[0].target, item.value
    if isinstance(target, cst.Name):
        return {target.value: value}
    if not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
        return {}
    names = [e.value.value for e in target.elements if m.matches(e, m.Element(m.Name()))]  # type: ignore[attr-defined]
    values = [e.value for e in value.elements if isinstance(e, cst.Element)]
    if not len(target.elements) == len(names) == len(values) == len(value.elements):
        return {}
    return dict(zip(names, values, strict=True))


def _augments(statement: cst.CSTNode, name: str) -> bool:
    augmented = m.AugAssign(target=m.Name(name))
    return m.matches(statement, m.SimpleStatementLine(body=[augmented]))


def _glu(
    doc: Document,
    info: ClassInfo,
    place: _Place,
    operands: tuple[cst.BaseExpression, cst.BaseExpression],
) -> _Glu:
    temporaries = _Temporaries(doc, place)
    found = [temporaries.value(operand, place.index) for operand in operands]
    for activated, other in ((0, 1), (1, 0)):
        act, at = found[activated]
        up, up_at = found[other]
        if not _is_activation(doc, info, act) or not _is_linear(info, up):
            continue
        assert isinstance(act, cst.Call) and isinstance(up, cst.Call)
        gate, gate_at = temporaries.value(act.args[0].value, at)
        if not _is_linear(info, gate):
            continue
        assert isinstance(gate, cst.Call)
        gate_input, up_input = gate.args[0].value, up.args[0].value
        if not isinstance(gate_input, cst.Name) or not doc.same(gate_input, up_input):
            raise doc.refuse("the two projections do not take the same name", gate)
        bare = _bare(gate)
        act = act.with_changes(args=[act.args[0].with_changes(value=bare)])
        pair = {activated: _bare(act), other: _bare(up)}
        used = temporaries.used
        removed = tuple(sorted({index for _, index in used}))
        for index in removed:
            if not {(name, index) for name in _assignments(place.block.body[index])} <= used:
                raise doc.refuse("a temporary is assigned together with others", gate)
        return _Glu((pair[0], pair[1]), removed, min(gate_at, up_at))
    raise doc.refuse("the product is not activation(gate(x)) * up(x)", place.statement)


def _is_linear(info: ClassInfo, node: cst.BaseExpression) -> bool:
    """Is it ``self.x(one argument)`` where ``__init__`` makes ``self.x`` a Linear?"""
    if not _is_unary_call(node):
        return False
    assert isinstance(node, cst.Call)
    assigned = info.self_assignments.get(self_attribute(node.func))
    value = assigned[1] if assigned else None
    return isinstance(value, ast.Call) and dotted_name(value.func).endswith("Linear")


def _is_activation(doc: Document, info: ClassInfo, node: cst.BaseExpression) -> bool:
    if not _is_unary_call(node) or _is_linear(info, node):
        return False
    assert isinstance(node, cst.Call)
    known = self_attribute(node.func) in info.self_assignments
    return known or doc.qualified(node.func) in ENTRIES


def _is_unary_call(node: cst.BaseExpression) -> bool:
    return (
        isinstance(node, cst.Call)
        and len(node.args) == 1
        and not node.args[0].star
        and node.args[0].keyword is None
    )


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[], rpar=[])


def _check_between(doc: Document, place: _Place, glu: _Glu) -> None:
    """Raise `FixRefused` if a statement in between may write what the projections read."""
    read = {n.value for f in glu.factors for n in find(f, m.Name()) if isinstance(n, cst.Name)}
    for index in range(glu.first + 1, place.index):
        statement = place.block.body[index]
        if index in glu.removed:
            continue
        written = _assignments(statement)  # empty for all but plain assignments
        methods = [n.attr.value for n in find(statement, m.Attribute()) if hasattr(n, "attr")]
        inplace = any(map(is_inplace_name, methods))
        outputs = find(statement, m.Arg(keyword=m.Name("out") | m.Name("inplace")))
        if not written or inplace or outputs or read & set(written):
            raise doc.refuse("a statement in between may change the input", statement)


def _moved_comments(place: _Place, removed: Sequence[int]) -> dict[cst.CSTNode, Change]:
    """Comments of removed statements go above the statement that takes their place."""
    if not removed:
        return {}
    body = place.block.body
    lines: list[cst.EmptyLine] = []
    for index in removed:
        statement = body[index]
        assert isinstance(statement, cst.SimpleStatementLine)
        lines += comments_of(statement)
    own = list(place.statement.leading_lines)
    if len(removed) == place.index - removed[0]:  # nothing stays in between: close the gap
        own = [line for line in own if line.comment is not None]
        above = body[removed[0]]
        assert isinstance(above, cst.SimpleStatementLine)
        blank = [line for line in above.leading_lines if line.comment is None]
        lines = [*blank, *lines]

    def change(node: cst.CSTNode) -> cst.CSTNode:
        return node.with_changes(leading_lines=[*lines, *own])

    return {place.statement: change}


def _stands_alone(place: _Place, product: cst.CSTNode) -> bool:
    """Is the product a whole argument or value, so that it needs no parentheses?"""
    arguments = find(place.statement, m.Arg())
    values = [getattr(item, "value", None) for item in (*place.statement.body, *arguments)]
    return any(value is product for value in values)


def _written(
    node: cst.CSTNode, factors: tuple[cst.BaseExpression, cst.BaseExpression], alone: bool
) -> cst.CSTNode:
    if isinstance(node, cst.BinaryOperation):
        return node.with_changes(left=factors[0], right=factors[1])
    product = cst.BinaryOperation(factors[0], cst.Multiply(), factors[1])
    if isinstance(node, cst.AugAssign):
        target = cst.AssignTarget(node.target)
        return cst.Assign(targets=[target], value=product, semicolon=node.semicolon)
    return product if alone else parenthesized(product)
