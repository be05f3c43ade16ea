"""Read a config attribute with the default that every transformers 4 configuration had.

``config.pad_token_id`` becomes ``getattr(config, "pad_token_id", None)``, wherever the file reads
it: the value is the same where the attribute exists, and the old one where it does not.
A call of transformers' own that reads the attribute is made only where it is set.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.versions.configs import config_reads


def fix(text: str, finding: Finding) -> str:
    """``text`` with a default at every read of the attribute. Raises `FixRefused`."""
    data = finding.fix.data if finding.fix else {}
    name, default = data.get("name", ""), data.get("default", "")
    splice = Splice(document(text, finding))
    if data.get("call"):
        return _guarded(splice, finding, name, data["call"])
    reads = config_reads(splice.tree, name)
    if not reads:
        raise FixRefused(f"config.{name} is not read here", finding.span.line)
    for node in reads:
        splice.replace(node, f'getattr({splice.code(node.value)}, "{name}", {default})')
    return splice.text()


def _guarded(splice: Splice, finding: Finding, name: str, method: str) -> str:
    """The text with the statements that call a method made conditional on the attribute."""
    calls = [
        node
        for node in nodes_of(splice.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
        and node.lineno == finding.span.line
    ]
    for call in calls:
        statement = splice.statement_of(call)
        if not isinstance(statement, ast.Expr) or statement.value is not call:
            raise splice.refuse(f"the result of {method} is used", call)
        owner = splice.code(call.func.value)  # type: ignore[attr-defined]
        inner = f"{splice.indent(statement)}    {splice.code(call)}"
        test = f'if getattr({owner}.config, "{name}", None) is not None:'
        splice.replace(statement, f"{test}{splice.newline}{inner}")
    if not calls:
        raise FixRefused(f"{method} is not called here", finding.span.line)
    return splice.text()
