"""Norms that vLLM fuses although its fused norm gives other numbers (contract section 2.11).

The fuser does not look at the axis of the mean, at what is normalised, or at what the result is
scaled with: it keeps the attribute ``weight`` (or 1 + weight) and eps, and drops the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from modelcheck.fusers.facts import Facts
from modelcheck.fusers.vocabulary import is_number, is_op, operand, peel
from modelcheck.graph.core import Graph, Node

RESHAPES = frozenset({"view", "reshape", "unsqueeze", "expand", "contiguous", "view_as"})
LAST = (-1, [-1], (-1,))


@dataclass(frozen=True)
class Chain:
    """The nodes of a norm written out: input, reciprocal root, normalised, scaled."""

    x: Node
    root: Node
    normalised: Node
    scaled: Node


def chain_wrong(graph: Graph, chain: Chain, facts: Facts) -> str:
    """How a written-out norm differs from what replaces it, "" when it does not."""
    return _axis(chain) or _numerator(chain) or _scale(graph, chain, facts)


def native_wrong(graph: Graph, native: Node, facts: Facts) -> str:
    """The same for a call of ``rms_norm``."""
    weight = operand(native, 2, "weight")
    if weight is None:
        return _unused_weight(facts)
    kind = _weight_kind(weight)
    if kind == "one plus weight":
        return "1 + weight is passed to rms_norm: vLLM keeps weight alone, the 1 is lost"
    if kind != "weight":
        return _other_scale(weight, facts)
    return ""


def _axis(chain: Chain) -> str:
    mean = _mean_below(chain.root)
    if mean is None:
        return ""
    axis = operand(mean, 1, "dim")
    if axis in LAST or (is_number(axis) and not isinstance(axis, bool) and axis >= 2):
        return ""
    where = "all axes" if axis is None else f"axis {axis}"
    return f"the mean is taken over {where}: vLLM's norm is always over the last"


def _mean_below(root: Node) -> Node | None:
    total = peel(operand(root, 0, "input"))
    if not isinstance(total, Node):
        return None
    for part in (operand(total, 0, "input"), operand(total, 1, "other")):
        if is_op(peel(part), "mean"):
            found: Node = peel(part)
            return found
    return None


def _numerator(chain: Chain) -> str:
    factor = peel(_other_factor(chain.normalised, chain.root))
    if factor is chain.x:
        return ""
    if is_op(factor, "mul"):
        parts = [peel(operand(factor, 0, "input")), peel(operand(factor, 1, "other"))]
        if chain.x in parts and any(_weight_kind(part) == "weight" for part in parts):
            return ""
    return "what is multiplied by the reciprocal root is not the input itself, as in vLLM's norm"


def _other_factor(product: Node, factor: Node) -> Any:
    first, second = operand(product, 0, "input"), operand(product, 1, "other")
    return second if peel(first) is factor else first


def _scale(graph: Graph, chain: Chain, facts: Facts) -> str:
    if chain.scaled is chain.normalised:
        factor = peel(_other_factor(chain.normalised, chain.root))
        # Where the trace stops, the scale may come after it.
        return "" if factor is not chain.x or graph.stopped else _unused_weight(facts)
    weight = _other_factor(chain.scaled, chain.normalised)
    if _weight_kind(weight) in ("weight", "one plus weight"):
        return ""
    return _other_scale(weight, facts)


def _other_scale(weight: Any, facts: Facts) -> str:
    node = _plain(weight)
    if isinstance(node, Node) and node.op == "get_attr":
        return f"the scale is called {node.target}: vLLM only knows weight, the scale is lost"
    kept = "keeps weight alone" if facts.has_parameter("weight") else "drops it"
    return f"the result is scaled with more than the parameter weight: vLLM {kept}"


def _weight_kind(value: Any) -> str:
    node = _plain(value)
    if not isinstance(node, Node):
        return ""
    if node.op == "get_attr":
        return "weight" if node.target == "weight" else ""
    if is_op(node, "add"):
        parts = (operand(node, 0, "input"), operand(node, 1, "other"))
        ones = [p for p in parts if is_number(p) and p == 1]
        rest = [p for p in parts if _weight_kind(p) == "weight"]
        return "one plus weight" if ones and rest else ""
    return ""


def _plain(value: Any) -> Any:
    """Below casts and reshapes, which change no number."""
    node = peel(value)
    while isinstance(node, Node):
        is_reshape = node.op == "call_method" and node.target in RESHAPES
        if not is_reshape and not (is_op(node, "getitem") and _only_adds_axes(node.args[1])):
            break
        node = peel(node.args[0])
    return node


def _only_adds_axes(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None or part is Ellipsis or (isinstance(part, slice) and part == slice(None))
        for part in parts
    )


def _unused_weight(facts: Facts) -> str:
    if facts.has_parameter("weight"):
        return "the parameter weight is not applied here: vLLM's norm applies it"
    return ""
