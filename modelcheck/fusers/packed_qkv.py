"""PackedQKV: one projection split into (q, kv, kv) becomes a QKVParallelLinear.

Since vLLM 0.27 (contract section 2.9).
"""

from __future__ import annotations

import ast
from typing import Any

from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, Match, NoMatch, Undecided
from modelcheck.fusers.qkv import head_size, output_projection
from modelcheck.fusers.rewrite import rewritable
from modelcheck.fusers.vocabulary import (
    descendants,
    is_linear,
    is_method,
    is_op,
    upstream_linear,
)
from modelcheck.graph.core import Graph, Node
from modelcheck.graph.symbolic import Sym
from modelcheck.source.bodies import nodes_of

NAME = "PackedQKV"
BECOMES = "QKVParallelLinear"
CUTTING = frozenset(("chunk", "split", "unflatten", "view", "reshape"))


def match(graph: Graph, facts: Facts, env: Env) -> Match:
    """The first ``projection(x)....split((q, kv, kv), ...)``."""
    for node in graph:
        sizes = _packed_sizes(node)
        if sizes is None:
            continue
        linear = upstream_linear(node.args[0], facts)
        if linear is None:
            continue
        q, kv = sizes
        if facts.child(linear.target).out_features != q + 2 * kv:
            continue
        return Match(
            fuser=NAME,
            becomes=BECOMES,
            linears=(linear.target,),
            shard_ids=("qkv",),
            output=output_projection(graph, facts, (linear.target,), q),
            sizes=(q, kv),
            line=node.line,
            anchor=node,
        )
    raise _look_alike(graph, facts) or NoMatch("no projection is split into (q, kv, kv)")


def _packed_sizes(node: Node) -> tuple[Any, Any] | None:
    if not is_method(node, "split") or len(node.args) < 2:
        return None
    sizes = node.args[1]
    if not isinstance(sizes, tuple | list) or len(sizes) != 3:
        return None
    if any(size is None or isinstance(size, Node | float | str) for size in sizes):
        return None
    if not all(isinstance(size, int | Sym) for size in sizes):
        raise Undecided("the sizes of a split are not known", node.line)
    q, k, v = sizes
    return (q, k) if k == v and not q < k else None


def _look_alike(graph: Graph, facts: Facts) -> NoMatch | None:
    for node in graph:
        if node.op != "call_module" and node.target.rpartition(".")[2] not in CUTTING:
            continue
        if is_op(node, "chunk") and len(node.args) > 1 and node.args[1] == 3:
            how = "chunk(3)"
        elif node.target == "torch.split" and _has_three_sizes(node):
            how = "torch.split"
        elif is_linear(node, facts) and _slices(graph, node) >= 3:
            how = "slices"
        elif is_op(node, "split") and _thirds(node, facts):
            how = "a split into equal parts"
        elif _views_three(node) and _reads_three(graph, node):
            how = "a view"
        else:
            continue
        linear = node if how == "slices" else upstream_linear(node.args[0], facts)
        if linear is not None:
            return NoMatch(
                f"{linear.target} is cut into q, k and v by {how}, only "
                f"self.{linear.target}(x).split((q, kv, kv), dim=-1) is recognised",
                node.line,
                kind="packed-spelling",
            )
    return None


def _has_three_sizes(node: Node) -> bool:
    sizes = node.args[1] if len(node.args) > 1 else None
    return isinstance(sizes, tuple | list) and len(sizes) == 3


def _thirds(node: Node, facts: Facts) -> bool:
    """``split(size)`` where the projection is three such sizes wide."""
    size = node.args[1] if len(node.args) > 1 else None
    if not isinstance(size, int | Sym) or isinstance(size, bool):
        return False
    linear = upstream_linear(node.args[0], facts)
    return linear is not None and bool(facts.child(linear.target).out_features == size * 3)


def _views_three(node: Node) -> bool:
    """Is it ``view(b, s, 3, heads, size)`` or ``unflatten(-1, (3, width))``?

    A 3 behind the heads is another layout, which no split of the width can cut.
    """
    if is_method(node, "unflatten") and len(node.args) == 3:
        sizes = node.args[2]
        return isinstance(sizes, tuple | list) and len(sizes) == 2 and _is_three(sizes[0])
    if not (is_method(node, "view") or is_method(node, "reshape")):
        return False
    sizes = node.args[1:]
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    return len(sizes) == 5 and _is_three(sizes[2])


def _is_three(size: object) -> bool:
    """Is it written so? A number known by name only may be any."""
    return isinstance(size, int) and size == 3


def _reads_three(graph: Graph, node: Node) -> bool:
    """Are three parts of it taken one by one?"""
    after = descendants(graph, node)
    if any(is_op(n, "unbind") for n in after):
        return True
    indices = [n.args[1] for n in after if is_op(n, "getitem") and len(n.args) > 1]
    numbers = [i[-1] if isinstance(i, tuple) and i else i for i in indices]
    return {0, 1, 2} <= {n for n in numbers if isinstance(n, int)}


def _slices(graph: Graph, linear: Node) -> int:
    """How many parts of its last dimension are cut out of a projection."""
    return sum(
        is_op(user, "getitem") and isinstance(user.args[1], tuple) and _cuts_last(user.args[1])
        for user in graph.users[linear]
    )


def _cuts_last(index: tuple[Any, ...]) -> bool:
    last = index[-1]
    return isinstance(last, slice) and (last.start is not None or last.stop is not None)


def check_source(match: Match, facts: Facts, env: Env) -> None:
    """Can the sizes in the source be rewritten?"""
    function, _ = rewritable(facts)
    name = match.linears[0]
    splits = [
        node
        for node in nodes_of(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "split"
        and node.args
        and isinstance(node.args[0], ast.Tuple | ast.List)
        and len(node.args[0].elts) == 3
        and any(
            isinstance(inner, ast.Attribute) and inner.attr == name
            for inner in ast.walk(node.func.value)
        )
    ]
    if len(splits) != 1:
        raise NoMatch(
            f"self.{name}(x) and its split into three are not one expression with the sizes "
            "written in it",
            match.line,
            near=True,
        )


def validate(match: Match, facts: Facts, env: Env) -> None:
    """Do this instance's sizes allow it?"""
    head = head_size(facts, env)
    q, kv = match.sizes
    if q % head or kv % head:
        raise NoMatch(
            f"the split sizes {q} and {kv} are not multiples of the head size {head}",
            match.line,
            near=True,
        )
    if facts.child(match.linears[0]).out_features != q + 2 * kv:
        raise NoMatch("this instance's projection has another width", match.line, near=True)
