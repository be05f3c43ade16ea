"""Statistics that a decoder layer takes over the tokens of its input."""

from __future__ import annotations

import ast

from modelcheck.source.bodies import Body, body, callee_name
from modelcheck.source.classes import ClassInfo, Signature

INPUT = "hidden_states"  # of a layer: (batch, tokens, width)
TOKENS = (1, -2)
STATISTICS = frozenset(("mean", "sum", "std", "var", "amax", "amin", "cumsum", "cumprod", "cummax"))
SHAPING = frozenset(
    ("view", "reshape", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "split", "chunk")
)


def over_tokens(layer: ClassInfo) -> tuple[ast.AST, str] | None:
    """The call that takes such a statistic, and what it does in words."""
    function = layer.methods.get("forward")
    if function is None or not Signature.of(function).names(INPUT):
        return None
    nodes = body(layer.file, function)
    if nodes.called().isdisjoint(STATISTICS):
        return None
    end = _reshaped(nodes)
    for call in nodes.all(ast.Call):
        if callee_name(call) not in STATISTICS or call.lineno >= end:
            continue
        on = call.func.value if isinstance(call.func, ast.Attribute) else None
        if any(_is_input(n) for n in (on, *call.args)) and _axis(call) in TOKENS:
            return call, f"takes the {callee_name(call)} of its input over the tokens, which"
    return None


def _reshaped(nodes: Body) -> int:
    """The first line on which the input may get another shape."""
    lines = [
        assignment.lineno
        for assignment in nodes.all(ast.Assign)
        if any(_is_input(n) for t in assignment.targets for n in ast.walk(t))
        and any(
            isinstance(n, ast.Subscript) or (isinstance(n, ast.Call) and callee_name(n) in SHAPING)
            for n in ast.walk(assignment.value)
        )
    ]
    return min(lines, default=10**9)


def _axis(call: ast.Call) -> object:
    """The one axis that is named as a number, None for anything else."""
    given = [a for a in call.args if not _is_input(a)][:1]
    given += [k.value for k in call.keywords if k.arg == "dim"]
    try:
        return ast.literal_eval(given[0]) if len(given) == 1 else None
    except ValueError:
        return None


def _is_input(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Name) and node.id == INPUT
