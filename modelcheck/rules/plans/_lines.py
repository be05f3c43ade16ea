"""Findings on the line of a node of a module's forward."""

from __future__ import annotations

import ast

from modelcheck.findings import Finding, Severity
from modelcheck.graph.core import Node
from modelcheck.rules.base import Context
from modelcheck.rules.plans._sharded import Forward


def node_finding(
    context: Context,
    code: str,
    severity: Severity,
    forward: Forward,
    node: Node,
    message: str,
    advice: str,
) -> Finding:
    """A finding for tensor parallelism only, on the whole line that makes the node."""
    info = forward.instance.info
    line = node.line or info.node.lineno
    text = context.file.source.lines[line - 1]
    start = len(text) - len(text.lstrip())
    where = ast.Name(
        "",
        lineno=line,
        col_offset=len(text[:start].encode()),
        end_lineno=line,
        end_col_offset=len(text.rstrip().encode()),
    )
    return context.finding(code, severity, info, where, message, advice, tp_only=True)
