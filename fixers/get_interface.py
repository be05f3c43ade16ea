"""Look the attention function up by ``ALL_ATTENTION_FUNCTIONS.get_interface(name, eager)``.

The subscript form calls the same function, but vLLM's tracer cannot pass it, so the output
projection is lost, and its gate reads the file's text for ``get_interface``. ``get_interface``
returns the default for "eager" and raises KeyError for an unknown name, as the usual
``if ... != "eager"`` around a subscript does; that form becomes one assignment. Whatever else
surrounds the lookup stays: only the subscript is replaced then.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fixers.toolkit import (
    Change,
    Document,
    document,
    dotted,
    find,
    simple_assignment,
)
from modelcheck.findings import Finding

TABLE = "ALL_ATTENTION_FUNCTIONS"
WIDTH = 100

_LOOKUP = m.Subscript(value=m.Name(TABLE), slice=[m.SubscriptElement(slice=m.Index())])


@dataclass(frozen=True)
class _Choice:
    """Statements of one block that between them choose the function, and do nothing else."""

    statements: tuple[cst.SimpleStatementLine | cst.If, ...]  # the last becomes the assignment
    target: str
    eager: str


def fix(text: str, finding: Finding) -> str:
    """``text`` with the lookup in the recognised form. Raises `FixRefused`."""
    doc = document(text, finding)
    function = doc.method_at(doc.class_def(finding.class_name), finding.span)
    lookups = [n for n in find(function, _LOOKUP) if isinstance(n, cst.Subscript)]
    lookups = doc.chosen(lookups, finding.span)
    if len(lookups) != 1:
        found = f"{len(lookups)} lookups" if lookups else "no lookup"
        raise doc.refuse(f"{function.name.value} has {found} by {TABLE}[...] here", function)
    lookup = lookups[0]
    for block in [function.body, *find(function.body, m.IndentedBlock())]:
        assert isinstance(block, cst.IndentedBlock)
        choice = _choice(doc, block, lookup)
        if choice is not None:
            return doc.rewrite(_collapse(doc, choice, lookup))
    target, statement = _target(doc, function, lookup)
    eager = _eager(doc, finding, function, target)
    call = _call(doc, lookup, eager, doc.column(statement) + len(f"{target} = "))
    return doc.rewrite({lookup: lambda node: call})


def _choice(doc: Document, block: cst.IndentedBlock, lookup: cst.Subscript) -> _Choice | None:
    """The statements of ``block`` that choose between the lookup and an eager default, only."""
    before: tuple[cst.CSTNode, ...] = (block, *block.body)
    for previous, statement in zip(before, block.body, strict=False):
        assigned = simple_assignment(statement)
        if assigned and isinstance(assigned[1], cst.IfExp):
            assert isinstance(statement, cst.SimpleStatementLine)
            value = assigned[1]
            eager = _eager_branch(doc, value.test, value.body, value.orelse, lookup)
            if eager:
                return _Choice((statement,), _annotated(doc, statement), eager)
        if not isinstance(statement, cst.If):
            continue
        chosen, other = _only(statement.body), simple_assignment(previous)
        statements: tuple[cst.SimpleStatementLine | cst.If, ...] = (statement,)
        if isinstance(statement.orelse, cst.Else):
            other = _only(statement.orelse.body)
        elif statement.orelse is not None:
            continue
        elif isinstance(previous, cst.SimpleStatementLine):
            statements = (previous, statement)
        if chosen is None or other is None or chosen[0] != other[0]:
            continue
        eager = _eager_branch(doc, statement.test, chosen[1], other[1], lookup)
        if eager:
            return _Choice(statements, _annotated(doc, statements[0]) or chosen[0], eager)
    return None


def _only(suite: cst.BaseSuite) -> tuple[str, cst.BaseExpression] | None:
    return simple_assignment(suite.body[0]) if len(suite.body) == 1 else None


def _annotated(doc: Document, statement: cst.CSTNode) -> str:
    """The assigned name with its annotation, "" for a compound statement."""
    assigned = simple_assignment(statement)
    if assigned is None or not isinstance(statement, cst.SimpleStatementLine):
        return ""
    item = statement.body[0]
    if isinstance(item, cst.AnnAssign):
        return f"{assigned[0]}: {doc.code(item.annotation.annotation)}"
    return assigned[0]


def _eager_branch(
    doc: Document,
    test: cst.BaseExpression,
    if_true: cst.BaseExpression,
    if_false: cst.BaseExpression,
    lookup: cst.Subscript,
) -> str:
    """The name in the branch for "eager" where ``test`` asks for it and the other looks up."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return ""
    operator = test.comparisons[0].operator
    if not isinstance(operator, cst.Equal | cst.NotEqual):
        return ""
    sides = (test.left, test.comparisons[0].comparator)
    literals = [s for s in sides if isinstance(s, cst.SimpleString)]
    keys = [s for s in sides if not isinstance(s, cst.SimpleString)]
    if len(literals) != 1 or literals[0].evaluated_value != "eager":
        return ""
    eager, other = (if_true, if_false) if isinstance(operator, cst.Equal) else (if_false, if_true)
    return dotted(eager) if other is lookup and doc.same(keys[0], _key(lookup)) else ""


def _key(lookup: cst.Subscript) -> cst.BaseExpression:
    index = lookup.slice[0].slice
    assert isinstance(index, cst.Index)
    return index.value


def _call(doc: Document, lookup: cst.Subscript, eager: str, column: int) -> cst.BaseExpression:
    arguments = f"{doc.code(_key(lookup))}, {eager}"
    line = f"{TABLE}.get_interface({arguments})"
    if column + len(line) > WIDTH:
        line = f"{TABLE}.get_interface(\n{doc.module.default_indent}{arguments}\n)"
    return doc.expression(line)


def _collapse(doc: Document, choice: _Choice, lookup: cst.Subscript) -> dict[cst.CSTNode, Change]:
    """One assignment in place of the statements, under all of their comments."""
    *earlier, last = choice.statements
    first = choice.statements[0]
    assignment = f"{choice.target} = "
    call = _call(doc, lookup, choice.eager, doc.column(first) + len(assignment))
    lines = list(first.leading_lines)
    for comment in find_in_order(choice.statements):
        if all(line.comment is not comment for line in lines):
            lines.append(cst.EmptyLine(comment=comment))
    new = doc.statement(assignment + doc.code(call)).with_changes(leading_lines=lines)
    changes: dict[cst.CSTNode, Change] = {s: lambda node: cst.RemoveFromParent() for s in earlier}
    return {**changes, last: lambda node: new}


def find_in_order(statements: tuple[cst.CSTNode, ...]) -> list[cst.Comment]:
    """All comments of some statements."""
    found = [c for s in statements for c in find(s, m.Comment())]
    return [c for c in found if isinstance(c, cst.Comment)]


def _target(
    doc: Document, function: cst.FunctionDef, lookup: cst.Subscript
) -> tuple[str, cst.SimpleStatementLine]:
    """The local name that holds the lookup, and its statement. Raises `FixRefused`."""
    for statement in find(function, m.SimpleStatementLine()):
        assigned = simple_assignment(statement)
        if assigned and assigned[1] is lookup and "." not in assigned[0]:
            assert isinstance(statement, cst.SimpleStatementLine)
            return assigned[0], statement
    raise doc.refuse("the lookup is not the whole value of a local name", lookup)


def _eager(doc: Document, finding: Finding, function: cst.FunctionDef, target: str) -> str:
    """The eager default: from the rule, from the local's other value, or the file's only one.

    Raises `FixRefused` when there is none, or a choice.
    """
    known = set(doc.index.functions) | set(doc.index.imports)
    named = finding.fix.data.get("eager", "") if finding.fix else ""
    if named in known:
        return named
    values = [simple_assignment(s) for s in find(function, m.SimpleStatementLine())]
    names = {dotted(v[1]) for v in values if v and v[0] == target} & known
    names = names or {name for name in known if name.startswith("eager_")}
    if len(names) != 1:
        found = "more than one eager function" if names else "no eager function"
        raise doc.refuse(f"this file has {found} for the default", function)
    return names.pop()
