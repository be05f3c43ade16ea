"""Take out the branches for ``config.pretraining_tp > 1``.

They compute a projection in slices, as the training run did over several devices, and read the
projections' weights: no fuser takes a module that does. What stays is the branch for 1, the same
numbers in one product.
"""

from __future__ import annotations

import ast
import textwrap

from fixers import FixRefused
from fixers.splice import Splice, without_idle_imports
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.rules.settings import SLICES, is_sliced
from modelcheck.source.bodies import nodes_of


def fix(text: str, finding: Finding) -> str:
    """``text`` without the branches in one class. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    info = splice.doc.class_info(finding.class_name)
    found = [n for n in nodes_of(info.node) if isinstance(n, ast.If) and is_sliced(n.test)]
    if not found:
        raise FixRefused(f"{info.name} has no branch on {SLICES}", finding.span.line)
    for branch in found:
        parent = splice.parent(branch)
        if isinstance(parent, ast.If) and branch in parent.orelse and len(parent.orelse) == 1:
            raise splice.refuse("the branch is one of several", branch)
        if any(isinstance(a, ast.If) and a in found for a in splice.ancestors(branch)):
            raise splice.refuse("one branch is inside another", branch)
        if not branch.orelse:
            splice.remove(branch)
            continue
        _unwrap(splice, branch)
    return without_idle_imports(splice.doc, splice.text())


def _unwrap(splice: Splice, branch: ast.If) -> None:
    """The else side in the place of the whole, with its comments."""
    first, last = branch.orelse[0], branch.orelse[-1]
    lines = splice.source.lines
    top = first.lineno
    while lines[top - 2].lstrip().startswith("#"):
        top -= 1
    code = splice.doc.text[splice.offset(top, 0) : splice.span(last)[1]].replace("\r\n", "\n")
    if any(isinstance(n, ast.JoinedStr | ast.Constant) and _has_lines(n) for n in _all(branch)):
        raise splice.refuse("the branch holds a text of several lines", branch)
    splice.replace_from(branch, branch, textwrap.dedent(code))


def _all(branch: ast.If) -> list[ast.AST]:
    return [n for statement in branch.orelse for n in nodes_of(statement)]


def _has_lines(node: ast.AST) -> bool:
    return getattr(node, "end_lineno", 0) != getattr(node, "lineno", 0)
