"""Values of a forward that tensor parallelism cuts into columns, with the width before the cut.

Followed from the projections through what keeps every element in its place; a change of shape
ends the way, so that a finding is about the projection's own output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.results import FusionResult
from modelcheck.graph.core import Graph, Node
from modelcheck.graph.values import Instance
from modelcheck.rules.names import Linear
from modelcheck.rules.plans._models import (
    SHARDING,
    Fate,
    PlannedModel,
    graph_of,
    head_size,
    merged_names,
)
from modelcheck.source.plans import COLUMNS

SAME_SHAPE = frozenset(
    {"to", "float", "double", "half", "bfloat16", "type_as", "contiguous", "clone"}
)
QUERY = ("QKV", "PackedQKV")


@dataclass(frozen=True, eq=False)
class Forward:
    """The forward of one module with sharded projections.

    ``sharded`` are those whose output the forward sees in pieces, ``merged`` the ones that a
    fused projection replaces, ``packed`` those whose split PackedQKV writes anew. ``heads`` says
    whether they are query, key and value of one, whose attention output is in pieces as well.
    """

    path: str
    instance: Instance
    graph: Graph
    linears: dict[str, Linear]
    sharded: dict[str, Linear]
    merged: frozenset[str]
    packed: frozenset[str]
    heads: bool

    @property
    def certain(self) -> tuple[Node, ...]:
        """The nodes before anything in the graph is in doubt."""
        return self.graph.nodes[: self.graph.doubt_at] if self.graph.doubt else self.graph.nodes

    def source(self, value: Any) -> Linear | None:
        """The sharded projection whose output a value is, element for element."""
        while isinstance(value, Node):
            if value.op == "call_module":
                return self.sharded.get(value.target)
            if value.op != "call_method" or value.target not in SAME_SHAPE or not value.args:
                return None
            value = value.args[0]
        return None


def attended(value: Any) -> bool:
    """Is it the attention interface's result, with the axes possibly in another order?"""
    while isinstance(value, Node):
        if value.op == "call_function" and value.target == "operator.getitem":
            inner = value.args[0]
            return isinstance(inner, Node) and inner.leaf and value.args[1] == 0
        moved = value.op == "call_method" and value.target in (*SAME_SHAPE, "transpose")
        if not moved or not value.args:
            return False
        value = value.args[0]
    return False


def forwards(model: PlannedModel, contract: Contract) -> Iterator[Forward]:
    """The forwards with sharded projections, one for each class and set of children."""
    by_owner: dict[str, dict[str, Linear]] = {}
    for linear in model.names.linears.values():
        by_owner.setdefault(linear.owner_path, {})[linear.name] = linear
    for path, instance in model.members():
        linears = by_owner.get(path, {})
        results = model.fused_of(instance)
        if not linears or results is None or any(r.fuser == "MLA" for r in results):
            continue
        merged = {n for r in results if r.fuser in SHARDING for n in merged_names(r)}
        whole = {n for r in results for n in _copied(model, instance, r, linears)}
        sharded = {
            name: linear
            for name, linear in linears.items()
            if (name in merged and name not in whole) or _by_plan(model, linear)
        }
        if not sharded:
            continue
        graph = graph_of(instance, contract)
        if graph is not None:
            heads = any(r.fuser in QUERY for r in results)
            packed = {n for r in results if r.fuser == "PackedQKV" for n in merged_names(r)}
            yield Forward(
                path,
                instance,
                graph,
                linears,
                sharded,
                frozenset(merged),
                frozenset(packed),
                heads,
            )


def _copied(
    model: PlannedModel, instance: Instance, result: FusionResult, linears: dict[str, Linear]
) -> Iterator[str]:
    """Keys and values of a single head, which every rank has whole."""
    if result.fuser != "QKV":
        return
    size = instance.attributes.get("head_dim") or head_size(model)
    for name, shard in result.shards:
        if shard in ("k", "v") and name in linears and linears[name].outputs in (None, size):
            yield name


def _by_plan(model: PlannedModel, linear: Linear) -> bool:
    return model.fate(linear) is Fate.PLANNED and model.style(linear) == COLUMNS
