"""The words vLLM's matchers use for nodes (contract section 2.3), over our `Graph`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeGuard

from modelcheck.fusers.facts import Facts
from modelcheck.graph.core import Graph, Node
from modelcheck.graph.symbolic import Sym

HOMES = ("torch", "torch.nn.functional", "operator")
CASTS = frozenset({"to", "float", "double", "half", "bfloat16", "type_as"})
COMPUTED = frozenset({"call_function", "call_method"})


def is_op(node: Any, name: str) -> TypeGuard[Node]:
    """Is it ``torch.name``, ``F.name``, ``operator.name`` or ``Tensor.name``?"""
    if not isinstance(node, Node):
        return False
    if node.op == "call_function":
        return node.target in _targets(name)
    return node.op == "call_method" and node.target == name


@cache
def _targets(name: str) -> frozenset[str]:
    return frozenset(f"{home}.{name}" for home in HOMES)


def is_method(node: Any, name: str) -> TypeGuard[Node]:
    """Is it ``x.name(...)``?"""
    return isinstance(node, Node) and node.op == "call_method" and node.target == name


def is_number(value: Any) -> bool:
    """A Python number (as vLLM asks: bool counts), or one known by name only."""
    return isinstance(value, int | float | Sym)


def peel(node: Any) -> Any:
    """The value below dtype casts such as ``.to(...)`` and ``.float()``."""
    while isinstance(node, Node) and node.op == "call_method" and node.target in CASTS:
        node = node.args[0]
    return node


def operand(node: Node, index: int, name: str) -> Any:
    """An operand passed by position or as ``name=``."""
    return node.args[index] if len(node.args) > index else node.kwargs.get(name)


def is_linear(node: Any, facts: Facts) -> TypeGuard[Node]:
    """Is it the call of an ``nn.Linear`` child?"""
    return (
        isinstance(node, Node) and node.op == "call_module" and facts.child(node.target).is_linear
    )


def reads_placeholder(node: Node) -> bool:
    """Is its one positional argument an input of the forward?"""
    return (
        len(node.args) == 1 and isinstance(node.args[0], Node) and node.args[0].op == "placeholder"
    )


def linears_by_input(graph: Graph, facts: Facts) -> dict[Node, list[Node]]:
    """Linears applied to an input of the forward and nothing else, grouped by input."""
    groups: dict[Node, list[Node]] = {}
    for node in graph:
        if is_linear(node, facts) and reads_placeholder(node) and not node.kwargs:
            groups.setdefault(node.args[0], []).append(node)
    return groups


def upstream_linear(value: Any, facts: Facts) -> Node | None:
    """The Linear a value comes from, through functions, methods and other children.

    Positional arguments only, the last one first; never through the attention interface.
    """
    pending = [value]
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        if not isinstance(node, Node) or node in seen:
            continue
        seen.add(node)
        if is_linear(node, facts):
            return node
        if (node.op in COMPUTED or node.op == "call_module") and not node.leaf:
            pending.extend(node.args)
    return None


def downstream_linear(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """The nearest Linear that reads a value, through functions and methods."""
    pending = deque(graph.users[node])
    seen: set[Node] = set()
    while pending:
        current = pending.popleft()
        if current in seen:
            continue
        seen.add(current)
        if is_linear(current, facts):
            return current
        if current.op in COMPUTED and not current.leaf:
            pending.extend(graph.users[current])
    return None


def returned_linear(graph: Graph, facts: Facts) -> str | None:
    """The name of the Linear that makes the (first) returned value."""
    value = graph.returned
    if isinstance(value, tuple | list) and value:
        value = value[0]
    linear = upstream_linear(value, facts)
    return None if linear is None else linear.target


def ancestors(node: Node) -> Iterator[Node]:
    """The node and everything it is computed from."""
    pending, seen = [node], set()
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            yield current
            pending.extend(current.inputs)


def descendants(graph: Graph, node: Node) -> set[Node]:
    """The node and everything computed from it."""
    pending, seen = [node], set()
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            pending.extend(graph.users[current])
    return seen
