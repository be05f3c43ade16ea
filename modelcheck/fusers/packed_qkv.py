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
from modelcheck.fusers.vocabulary import is_linear, is_method, is_op, upstream_linear
from modelcheck.graph.core import Graph, Node
from modelcheck.graph.symbolic import Sym
from modelcheck.source.bodies import nodes_of

NAME = "PackedQKV"
BECOMES = "QKVParallelLinear"


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
        if is_op(node, "chunk") and len(node.args) > 1 and node.args[1] == 3:
            how = "chunk(3)"
        elif node.op == "call_function" and node.target == "torch.split":
            sizes = node.args[1] if len(node.args) > 1 else None
            if not isinstance(sizes, tuple | list) or len(sizes) != 3:
                continue
            how = "torch.split"
        elif is_linear(node, facts) and _slices(graph, node) >= 3:
            how = "slices"
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
