"""The linear layer that takes a fused module's output, where another module holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.results import FusionResult
from modelcheck.graph.core import Graph, Node
from modelcheck.rules.names import Linear
from modelcheck.rules.plans._models import PlannedModel, graph_of, merged_names
from modelcheck.rules.plans._sharded import QUERY, SAME_SHAPE, attended

RESHAPES = frozenset({"view", "reshape", "flatten", "transpose", "permute"})
DEPTH = 2  # the parent, and a module beside


def taker_elsewhere(
    model: PlannedModel, path: str, result: FusionResult, contract: Contract
) -> Linear | None:
    """The one layer that the parent, or a module beside, puts the output through."""
    owner, _, name = path.rpartition(".")
    parent, instance = model.names.instances.get(owner), model.names.instances.get(path)
    graph = graph_of(instance, contract) if instance is not None else None
    above = graph_of(parent, contract) if parent is not None else None
    if graph is None or above is None or graph.doubt or above.doubt:
        return None
    calls = [n for n in above if n.op == "call_module" and n.target == name]
    positions = list(_returned_at(graph, result))
    if len(calls) != 1 or len(positions) != 1:
        return None
    outputs = [calls[0]]
    if positions[0] is not None:
        outputs = [
            user
            for user in above.users[calls[0]]
            if user.target == "operator.getitem" and user.args[1] == positions[0]
        ]
    found = {
        linear
        for output in outputs
        for linear in _takers(model, owner, above, output, contract, DEPTH)
    }
    return found.pop() if len(found) == 1 else None


def _returned_at(graph: Graph, result: FusionResult) -> Iterator[int | None]:
    """Where in what it returns the cut value is; None: it is all that is returned."""
    value = graph.returned
    if isinstance(value, Node):
        if _is_cut(value, result):
            yield None
    elif isinstance(value, tuple | list):
        yield from (i for i, each in enumerate(value) if _is_cut(each, result))


def _is_cut(value: Any, result: FusionResult) -> bool:
    """Is it the attention's output, or the gated product, in whatever shape?"""
    while isinstance(value, Node) and value.op == "call_method" and value.args:
        if value.target not in SAME_SHAPE | RESHAPES:
            return False
        value = value.args[0]
    if result.fuser in QUERY:
        return attended(value)
    product = isinstance(value, Node) and value.target == "operator.mul"
    return product and any(
        isinstance(side, Node) and side.target in merged_names(result) for side in value.args
    )


def _takers(
    model: PlannedModel, owner: str, graph: Graph, value: Node, contract: Contract, depth: int
) -> Iterator[Linear]:
    """The linear layers that a value of the module at ``owner`` goes into."""
    for user in graph.users[value]:
        if user.op == "call_method" and user.target in SAME_SHAPE | RESHAPES:
            if user.args[0] is value:
                yield from _takers(model, owner, graph, user, contract, depth)
        elif user.op == "call_module" and value in user.args:
            path = f"{owner}.{user.target}" if owner else user.target
            linear, inside = model.names.linears.get(path), model.names.instances.get(path)
            if linear is not None:
                yield linear
            elif inside is not None and depth > 1:
                below = graph_of(inside, contract)
                inputs = [n for n in below if n.op == "placeholder"] if below else []
                position = user.args.index(value)
                if below and not below.doubt and position < len(inputs):
                    yield from _takers(model, path, below, inputs[position], contract, depth - 1)
