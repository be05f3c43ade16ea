"""Call ``self.post_init()`` at the end of a constructor.

It stands in the place of ``self.init_weights()`` or ``self.apply(self._init_weights)``, which it
does itself.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of

CALL = "self.post_init()"
OLD = ("self.init_weights()", "self.apply(self._init_weights)")


def fix(text: str, finding: Finding) -> str:
    """``text`` with the call. Raises `FixRefused`."""
    doc = document(text, finding)
    splice = Splice(doc)
    init = doc.class_info(finding.class_name).methods.get("__init__")
    if init is None:
        raise FixRefused(f"{finding.class_name} has no __init__ of its own", finding.span.line)
    for node in nodes_of(init):
        if isinstance(node, ast.Return):
            raise splice.refuse("__init__ returns before its end", node)
        if isinstance(node, ast.Call) and ast.unparse(node) == CALL:
            raise splice.refuse(f"{CALL} is called already", node)
    old = [s for s in nodes_of(init) if isinstance(s, ast.Expr) and ast.unparse(s) in OLD]
    nested = [statement for statement in old if statement not in init.body]
    if nested:
        raise splice.refuse("the weights are initialized below a condition", nested[0])
    last = init.body[-1]
    if last in old:
        splice.replace(last, CALL)
    else:
        splice.after(last, CALL)
    for statement in old:
        if statement is not last:
            splice.remove(statement, with_comments=False)
    return splice.text()
