"""MLA: latent attention becomes vLLM's MLAAttention. Since vLLM 0.28 (contract section 2.10)."""

from __future__ import annotations

import ast

from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, Match, NoMatch
from modelcheck.fusers.merged_column import check_temporaries
from modelcheck.fusers.rewrite import (
    check_input_stable,
    guarded_calls,
    rewritable,
    same_argument,
)
from modelcheck.fusers.vocabulary import (
    downstream_linear,
    is_linear,
    reads_placeholder,
    returned_linear,
    upstream_linear,
)
from modelcheck.graph.core import Graph, Node
from modelcheck.source.bodies import nodes_of

NAME = "MLA"
BECOMES = "MLAAttention"


def match(graph: Graph, facts: Facts, env: Env) -> Match:
    """One latent chain ``norm(linear(input))`` wider than its norm, perhaps one query chain."""
    if not env.use_mla:
        raise NoMatch("the config has no kv_lora_rank")
    latent: list[tuple[Node, Node]] = []
    query: list[tuple[Node, Node]] = []
    for node in graph:
        if node.op != "call_module" or is_linear(node, facts) or not node.args:
            continue
        source = upstream_linear(node.args[0], facts)
        if (
            source is None
            or not reads_placeholder(source)
            or not facts.child(node.target).is_rms_norm(env)
        ):
            continue
        size = facts.child(node.target).weight_size
        width = facts.child(source.target).out_features
        (query if size is not None and width == size else latent).append((source, node))
    if len(latent) != 1 or len(query) > 1:
        raise NoMatch("no single latent projection with an RMSNorm behind it")
    kv_a, kv_norm = latent[0]
    taken = {kv_a.target}
    if query:
        q_a, q_norm = query[0]
        q_b = downstream_linear(graph, q_norm, facts)
        if q_b is None:
            raise NoMatch("no linear reads the normalised query latent", q_norm.line, near=True)
        taken |= {q_a.target, q_b.target}
        linears: tuple[str, ...] = (q_a.target, kv_a.target)
    else:
        direct = {n.target for n in graph if is_linear(n, facts) and reads_placeholder(n)} - taken
        if len(direct) != 1:
            raise NoMatch(f"{len(direct)} linears could be the query projection", kv_a.line)
        taken |= direct
        linears = ()
    kv_b = downstream_linear(graph, kv_norm, facts)
    if kv_b is None or kv_b.target in taken:
        raise NoMatch("no linear of its own expands the latent", kv_norm.line, near=True)
    taken.add(kv_b.target)
    output = returned_linear(graph, facts)
    return Match(
        fuser=NAME,
        becomes=BECOMES,
        linears=linears,
        shard_ids=tuple(str(i) for i in range(len(linears))),
        output=None if output in taken else output,
        details=(("kv_a_proj", kv_a.target), ("kv_b_proj", kv_b.target)),
        line=kv_a.line,
        anchor=kv_b,
        merged="fused_qkv_a_proj" if linears else "",
    )


def check_source(match: Match, facts: Facts, env: Env) -> None:
    """Are the down-projections mergeable and the expansion a method of its own?"""
    function, source = rewritable(facts)
    if match.linears:
        calls = guarded_calls(function, source, match.linears, env.contract)
        same_argument(calls, source)
        indices = [_top_level(function, call) for call in calls]
        if env.contract.input_stability:
            check_input_stable(function, source, facts, calls, function.body, indices)
        check_temporaries(function, match, env)
    kv_b = dict(match.details)["kv_b_proj"]
    expansions = [
        node
        for node in nodes_of(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "self"
        and len(node.args) == 2
        and not node.keywords
        and _is_expansion(facts.method(node.func.attr), kv_b)
    ]
    if len(expansions) != 1:
        raise NoMatch(
            f"{kv_b} is not applied in a method of its own that takes the latent and the "
            "rotary key and returns (key, value)",
            match.line,
            near=True,
        )


def _top_level(function: ast.FunctionDef, node: ast.AST) -> int:
    for index, statement in enumerate(function.body):
        if any(child is node for child in nodes_of(statement)):
            return index
    raise NoMatch("a projection is not called in the body of forward")


def _is_expansion(method: ast.FunctionDef | None, kv_b: str) -> bool:
    if method is None:
        return False
    arguments = method.args
    if len(arguments.posonlyargs) + len(arguments.args) != 3:
        return False
    names = {n.attr for n in nodes_of(method) if isinstance(n, ast.Attribute)}
    returns = [n for n in nodes_of(method) if isinstance(n, ast.Return)]
    return (
        kv_b in names
        and bool(returns)
        and all(isinstance(r.value, ast.Tuple) and len(r.value.elts) == 2 for r in returns)
    )


def validate(match: Match, facts: Facts, env: Env) -> None:
    """Does the model use MLA at all?"""
    if not env.use_mla:
        raise NoMatch("the config has no kv_lora_rank", match.line)
