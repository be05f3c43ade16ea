"""Move the scale of an interface call into ``__init__``: ``scaling=self.scaling``.

vLLM from 0.30 reads ``scaling=`` when the model is built: a literal or an attribute of the
module, nothing that has to be computed. The expression is moved only if ``__init__`` can
compute the same number: numbers, ``math``, configuration values, and attributes that
``__init__`` sets to such values and nothing changes later.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fixers.toolkit import (
    Change,
    Document,
    comments_of,
    document,
    find,
    free_name,
    loads,
    self_attribute,
    simple_assignment,
)
from modelcheck.findings import Finding
from modelcheck.source.classes import ClassInfo, dotted_name

NAMES = ("scaling", "attention_scaling", "softmax_scaling")
PURE_CALLS = ("math.sqrt", "math.pow", "float", "int", "min", "max", "abs")
MAX_DEPTH = 20  # attributes defined by one another


@dataclass(frozen=True)
class _Local:
    """A local that only holds the scale."""

    statement: cst.SimpleStatementLine
    value: cst.BaseExpression
    uses: int


def fix(text: str, finding: Finding) -> str:
    """``text`` with the scale in an attribute. Raises `FixRefused`."""
    doc = document(text, finding)
    owner = doc.class_def(finding.class_name)
    info = doc.class_info(finding.class_name)
    function = doc.method_at(owner, finding.span)
    keyword = finding.fix.data.get("keyword", "scaling") if finding.fix else "scaling"
    argument = _argument(doc, finding, function, keyword)
    changes: dict[cst.CSTNode, Change] = {}
    value = argument.value
    local = _local(doc, function, value)
    if local is not None:
        value = local.value
        if local.uses == 1:
            changes |= _dropped(doc, function, local)
    tree = doc.as_ast(value)
    _check(doc, info, tree, argument)
    name = _existing(info, tree)
    if name is None:
        name = free_name(NAMES, doc.taken_names(finding.class_name))
        changes |= doc.append_to_init(owner, f"self.{name} = {doc.statement_value(value)}")
    attribute = cst.Attribute(cst.Name("self"), cst.Name(name))
    return doc.rewrite({**changes, argument.value: lambda node: attribute})


def _argument(doc: Document, finding: Finding, function: cst.FunctionDef, keyword: str) -> cst.Arg:
    arguments = [
        arg
        for arg in find(function, m.Arg(keyword=m.Name(keyword)))
        if isinstance(arg, cst.Arg)
        and not self_attribute(arg.value)
        and not isinstance(arg.value, cst.Integer | cst.Float)
    ]
    arguments = doc.chosen(arguments, finding.span)
    if len(arguments) != 1:
        found = f"{len(arguments)} calls" if arguments else "no call"
        raise doc.refuse(f"{function.name.value} has {found} with a computed {keyword}=", function)
    return arguments[0]


def _local(doc: Document, function: cst.FunctionDef, value: cst.BaseExpression) -> _Local | None:
    """What a bare name stands for: assigned once, at the top of the function's body."""
    if not isinstance(value, cst.Name):
        return None
    name = value.value
    stores = find(
        function,
        m.AssignTarget(target=m.Name(name))
        | m.AnnAssign(target=m.Name(name))
        | m.AugAssign(target=m.Name(name))
        | m.Param(name=m.Name(name))
        | m.NamedExpr(target=m.Name(name))
        | m.Element(value=m.Name(name))
        | m.CompFor(target=m.Name(name))
        | m.For(target=m.Name(name)),
    )
    assert isinstance(function.body, cst.IndentedBlock)
    for statement in function.body.body:
        assigned = simple_assignment(statement)
        if assigned and assigned[0] == name and len(stores) == 1:
            assert isinstance(statement, cst.SimpleStatementLine)
            return _Local(statement, assigned[1], loads(function, name))
    raise doc.refuse(f"{name} is not assigned exactly once", value)


def _dropped(doc: Document, function: cst.FunctionDef, local: _Local) -> dict[cst.CSTNode, Change]:
    """Remove the local's statement; its comments go to the statement below."""
    block = function.body
    assert isinstance(block, cst.IndentedBlock)
    place = list(block.body).index(local.statement)
    follower = block.body[place + 1]
    lines = comments_of(local.statement)

    def keep(node: cst.CSTNode) -> cst.CSTNode:
        return node.with_changes(leading_lines=[*lines, *getattr(node, "leading_lines", ())])

    changes: dict[cst.CSTNode, Change] = {local.statement: lambda node: cst.RemoveFromParent()}
    return {**changes, follower: keep} if lines else changes


def _check(doc: Document, info: ClassInfo, tree: ast.expr, at: cst.Arg) -> None:
    """Raise `FixRefused` unless ``__init__`` can compute the same number."""
    problem = _problem(info, tree, set(), inside_init=False)
    if problem:
        raise doc.refuse(problem, at)


def _problem(info: ClassInfo, tree: ast.expr, names: set[str], *, inside_init: bool) -> str:
    """Why an expression cannot be moved, "" if it can."""
    if len(names) > MAX_DEPTH:
        return "its attributes are defined by too many others"
    if isinstance(tree, ast.Constant):
        number = isinstance(tree.value, int | float)
        return "" if number or inside_init else f"{ast.unparse(tree)} is not a number"
    if isinstance(tree, ast.BinOp):
        sides = (tree.left, tree.right)
        return _first(info, sides, names, inside_init)
    if isinstance(tree, ast.UnaryOp):
        return _problem(info, tree.operand, names, inside_init=inside_init)
    if isinstance(tree, ast.IfExp | ast.BoolOp | ast.Compare) and inside_init:
        parts = [n for n in ast.iter_child_nodes(tree) if isinstance(n, ast.expr)]
        return _first(info, tuple(parts), names, inside_init)
    if isinstance(tree, ast.Call):
        called = dotted_name(tree.func)
        if called == "getattr" and inside_init:
            return ""
        if called not in PURE_CALLS or tree.keywords:
            return f"{called or 'a call'}() may be more than arithmetic"
        return _first(info, tuple(tree.args), names, inside_init)
    name = dotted_name(tree)
    if name.startswith("self.") and name.count(".") == 1:
        return _attribute_problem(info, name[5:], names)
    if name.startswith("self.config.") or (inside_init and name.startswith("config.")):
        return ""
    if inside_init and isinstance(tree, ast.Name):
        key = f"local {tree.id}"
        values = () if key in names else _local_values(info, tree.id)
        return _first(info, values, names | {key}, inside_init)
    return f"{ast.unparse(tree)} is not known in __init__"


def _local_values(info: ClassInfo, name: str) -> tuple[ast.expr, ...]:
    """What the ``__init__`` methods assign to a local of this name."""
    inits = [c.methods["__init__"] for c in info.mro if "__init__" in c.methods]
    return tuple(
        node.value
        for init in inits
        for node in ast.walk(init)
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    )


def _first(info: ClassInfo, parts: tuple[ast.expr, ...], names: set[str], inside_init: bool) -> str:
    problems = (_problem(info, part, names, inside_init=inside_init) for part in parts)
    return next(filter(None, problems), "")


def _attribute_problem(info: ClassInfo, name: str, names: set[str]) -> str:
    """Why ``self.name`` is not a fixed number once ``__init__`` is done, "" if it is."""
    if name in names:
        return f"self.{name} is defined by itself"
    if name not in info.self_assignments:
        return f"__init__ does not set self.{name}"
    _, value = info.self_assignments[name]
    if value is None or _store_count(info, name) != 1:
        return f"self.{name} is assigned more than once"
    problem = _problem(info, value, names | {name}, inside_init=True)
    return f"self.{name} may not be a number: {problem}" if problem else ""


def _store_count(info: ClassInfo, name: str) -> int:
    """How often any object's attribute of this name is assigned by this class or its kin."""
    family = {parent.name: parent for parent in info.mro}
    family |= {c.name: c for c in info.file.classes.values() if info in c.mro}
    return sum(
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)
        for member in family.values()
        for node in ast.walk(member.node)
    )


def _existing(info: ClassInfo, tree: ast.expr) -> str | None:
    """An attribute that ``__init__`` always sets to the very same expression."""
    wanted = _normal(tree)
    always = [s for c in info.mro if (init := c.methods.get("__init__")) for s in init.body]
    for name, (statement, value) in info.self_assignments.items():
        if value is not None and _normal(value) == wanted and statement in always:
            return name if _store_count(info, name) == 1 else None
    return None


def _normal(tree: ast.expr) -> str:
    return ast.unparse(tree).replace("self.config.", "config.")
