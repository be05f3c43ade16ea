"""Count positions only where ``position_ids`` is None, and use it.

``positions = torch.arange(...)[None]`` becomes the default of ``position_ids``, whose name takes
the place of the other. The counted positions must be one row: [1, tokens].
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice, names, parameters
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import callee_name, nodes_of
from modelcheck.source.classes import FunctionNode

POSITIONS = "position_ids"


def fix(text: str, finding: Finding) -> str:
    """``text`` with the positions that are given. Raises `FixRefused`."""
    doc = document(text, finding)
    splice = Splice(doc)
    forward = doc.class_info(finding.class_name).methods.get("forward")
    if forward is None or POSITIONS not in {p.arg for p in parameters(forward)}:
        raise FixRefused(f"there is no forward with {POSITIONS} here", finding.span.line)
    statement = _counted(splice, forward, finding)
    default_positions(splice, forward, statement)
    return splice.text()


def _counted(splice: Splice, forward: FunctionNode, finding: Finding) -> ast.Assign:
    start = (finding.span.line, finding.span.column)
    end = (finding.span.end_line, finding.span.end_column)
    for statement in forward.body:
        if not isinstance(statement, ast.Assign):
            continue
        first = (statement.lineno, statement.col_offset + 1)
        last = (statement.end_lineno or 0, (statement.end_col_offset or 0) + 1)
        if first <= start and end <= last:
            return statement
    raise FixRefused("the positions are not counted in one plain statement", finding.span.line)


def default_positions(splice: Splice, forward: FunctionNode, statement: ast.Assign) -> None:
    """Make an assignment of counted positions the default of ``position_ids``."""
    target = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(target, ast.Name):
        raise splice.refuse("the positions are not one local name", statement)
    if not is_one_row(statement.value):
        raise splice.refuse("the counted positions are not one row, as position_ids is", statement)
    if target.id != POSITIONS:
        for use in names(forward, target.id):
            if isinstance(use.ctx, ast.Load):
                splice.replace(use, POSITIONS)
            elif use is not target:
                raise splice.refuse(f"{target.id} is assigned again", use)
    indent, newline = splice.indent(statement), splice.newline
    inner = splice.doc.module.default_indent
    value = splice.code(statement.value).split(newline)
    rest = [f"{inner}{line}" if line.strip() else line for line in value[1:]]
    first = f"if {POSITIONS} is None:{newline}{indent}{inner}{POSITIONS} = {value[0]}"
    splice.replace(statement, newline.join([first, *rest]))


def is_one_row(value: ast.expr) -> bool:
    """Is it ``torch.arange(...)``, or another counted row, with an axis in front?"""
    if isinstance(value, ast.Subscript):
        index = value.slice.elts[0] if isinstance(value.slice, ast.Tuple) else value.slice
        return isinstance(index, ast.Constant) and index.value is None
    if isinstance(value, ast.BinOp):  # offset + row
        return is_one_row(value.left) or is_one_row(value.right)
    if isinstance(value, ast.Call) and callee_name(value) in ("unsqueeze", "view", "reshape"):
        first = value.args[0] if value.args else None
        wanted = 0 if callee_name(value) == "unsqueeze" else 1
        return isinstance(first, ast.Constant) and first.value == wanted
    if isinstance(value, ast.Call) and callee_name(value) in ("to", "long", "expand"):
        return isinstance(value.func, ast.Attribute) and is_one_row(value.func.value)
    return False


def counts(node: ast.AST) -> bool:
    """Does it call ``arange``?"""
    return any(isinstance(n, ast.Call) and callee_name(n) == "arange" for n in nodes_of(node))
