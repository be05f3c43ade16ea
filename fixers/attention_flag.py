"""Set ``_supports_attention_backend = True`` on the ``PreTrainedModel`` class of the finding.

vLLM up to 0.29 accepts a model only with the flag; from 0.30 it also accepts one whose file
holds a ``get_interface`` lookup. The flag promises that attention goes through the interface:
the rule offers this fix only where it does.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fixers import FixRefused
from fixers.toolkit import Change, document, simple_assignment
from modelcheck.findings import Finding

FLAG = "_supports_attention_backend"


def fix(text: str, finding: Finding) -> str:
    """``text`` with the flag set. Raises `FixRefused`."""
    doc = document(text, finding)
    owner = doc.class_def(finding.class_name)
    for statement in owner.body.body:
        assigned = simple_assignment(statement)
        if assigned and assigned[0] == FLAG:
            value = assigned[1]
            if doc.code(value) == "True":
                raise doc.refuse(f"{FLAG} is True already", statement)
            if doc.code(value) != "False":
                raise doc.refuse(f"{FLAG} is neither True nor False", statement)
            return doc.rewrite({value: lambda node: cst.Name("True")})
    if not isinstance(owner.body, cst.IndentedBlock):
        raise doc.refuse(f"the body of {finding.class_name} is on the line of its header", owner)
    flag = doc.statement(f"{FLAG} = True")
    return doc.rewrite({owner.body: _inserter(flag)})


def _inserter(flag: cst.SimpleStatementLine) -> Change:
    def change(node: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(node, cst.IndentedBlock):
            raise FixRefused("the class body is not a block")
        body = list(node.body)
        if len(body) == 1 and _is_filler(body[0]):
            assert isinstance(body[0], cst.SimpleStatementLine)
            return node.with_changes(body=[body[0].with_changes(body=flag.body)])
        place = _place(body)
        new = flag
        after = body[place - 1] if place else None
        if after is not None and _is_docstring(after):
            new = flag.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
        follower = body[place] if place < len(body) else None
        if isinstance(follower, cst.FunctionDef | cst.ClassDef) and not follower.leading_lines:
            body[place] = follower.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
        return node.with_changes(body=[*body[:place], new, *body[place:]])

    return change


def _place(body: Sequence[cst.CSTNode]) -> int:
    """The index to insert at: after the ``_supports_*`` lines, the attributes, the docstring."""
    names = {i: a[0] for i, s in enumerate(body) if (a := simple_assignment(s))}
    flags = [i for i, name in names.items() if name.startswith("_supports_")]
    if flags:
        return flags[-1] + 1
    if names:
        return max(names) + 1
    return 1 if body and _is_docstring(body[0]) else 0


def _is_docstring(statement: cst.CSTNode) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def _is_filler(statement: cst.CSTNode) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    item = statement.body[0]
    return isinstance(item, cst.Pass) or (
        isinstance(item, cst.Expr) and isinstance(item.value, cst.Ellipsis)
    )
