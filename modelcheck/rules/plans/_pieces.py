"""A projection's output taken apart by the widths of the whole, of which a rank has its part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from modelcheck.findings import Severity
from modelcheck.graph.core import Node
from modelcheck.rules.names import Linear
from modelcheck.rules.plans._sharded import Forward

SPLITS = ("split", "split_with_sizes")
LAST = (-1, 2)  # of what a projection makes of [batch, tokens, width]


@dataclass(frozen=True)
class Taken:
    """A cut output that is taken apart: what is said of it."""

    linear: Linear
    problem: str
    severity: Severity


def taken_apart(forward: Forward, node: Node) -> Taken | None:
    """What a split, a chunk or a slice of a cut output does, None where nothing is known."""
    if node.target == "operator.getitem" and node.op == "call_function":
        return _sliced(forward, node)
    name = node.target.rpartition(".")[2]
    is_torch = node.op == "call_function" and node.target.startswith("torch.")
    if not (node.op == "call_method" or is_torch) or not node.args:
        return None
    linear = forward.source(node.args[0])
    if linear is None or linear.outputs is None or _dimension(node) not in LAST:
        return None
    if linear.name in forward.packed:
        return None
    if name in SPLITS:
        return _split(forward, linear, _pieces(node), node)
    if name == "chunk" and linear.name in forward.merged:
        return _parts(linear, _pieces(node))
    return None


def _split(forward: Forward, linear: Linear, sizes: Any, node: Node) -> Taken | None:
    width = linear.outputs or 0
    if isinstance(sizes, tuple | list):
        plain = all(type(size) is int for size in sizes)
        if not plain or len(sizes) < 2 or sum(sizes) != width:
            return None
        if len(set(sizes)) == 1 and len(sizes) == 2 and linear.name not in forward.merged:
            return None  # two halves of a layer of the plan are MC801's
        shown = " + ".join(map(str, sizes))
        return _taken(linear, f"is split into {shown}", Severity.ERROR)
    if type(sizes) is not int or node.target.rpartition(".")[2] != "split":
        return None
    if not 0 < sizes < width or width % sizes:
        return None
    unpacked = any(
        user.target == "operator.getitem" and user.args[1] == width // sizes - 1
        for user in forward.graph.users[node]
    )
    return _taken(linear, f"is split into pieces of {sizes}", Severity.ERROR) if unpacked else None


def _parts(linear: Linear, parts: Any) -> Taken | None:
    if type(parts) is not int or parts < 2:
        return None
    return _taken(linear, f"is cut into {parts} parts, others in each rank", Severity.WRONG)


def _sliced(forward: Forward, node: Node) -> Taken | None:
    key = node.args[1]
    linear = forward.source(node.args[0])
    if linear is None or linear.outputs is None or not isinstance(key, tuple) or not key:
        return None
    reaches = key[0] is Ellipsis or (len(key) == 3 and key[:2] == (slice(None), slice(None)))
    last = key[-1]
    if not reaches or len(key) < 2 or not isinstance(last, slice) or last.step is not None:
        return None
    bounds = [bound for bound in (last.start, last.stop) if bound is not None]
    if not bounds or any(type(b) is not int or abs(b) >= linear.outputs for b in bounds):
        return None
    if last.start == 0 and last.stop is None:
        return None
    shown = f"{'' if last.start is None else last.start}:{'' if last.stop is None else last.stop}"
    return _taken(linear, f"is sliced by [{shown}], other columns in each rank", Severity.WRONG)


def _taken(linear: Linear, what: str, severity: Severity) -> Taken:
    problem = (
        f"the output of {linear.name} {what}: with tensor parallelism a rank has its part of "
        f"the {linear.outputs} columns only"
    )
    return Taken(linear, problem, severity)


def _dimension(node: Node) -> Any:
    return node.args[2] if len(node.args) > 2 else node.kwargs.get("dim")


def _pieces(node: Node) -> Any:
    if len(node.args) > 1:
        return node.args[1]
    names = ("split_size", "split_sizes", "split_size_or_sections", "chunks", "sections")
    return next((node.kwargs[name] for name in names if name in node.kwargs), None)
