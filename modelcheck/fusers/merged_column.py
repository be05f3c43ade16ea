"""MergedColumnParallel: two or more Linears on one input become one column-parallel Linear.

Since vLLM 0.30; the fallback when a better fuser declines (contract section 2.7).
"""

from __future__ import annotations

import ast

from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, Match, NoMatch
from modelcheck.fusers.rewrite import (
    block_path,
    check_input_stable,
    guarded_calls,
    rewritable,
    same_argument,
)
from modelcheck.fusers.vocabulary import linears_by_input
from modelcheck.graph.core import Graph
from modelcheck.source.bodies import nodes_of

NAME = "MergedColumnParallel"
BECOMES = "MergedColumnParallelLinear"


def merged_name(linears: tuple[str, ...]) -> str:
    """The attribute vLLM keeps the merged projection under."""
    return "merged_proj_" + "_".join(f"{len(name)}_{name}" for name in linears)


def match(graph: Graph, facts: Facts, env: Env) -> Match:
    """The one group of sibling Linears that read one input of the forward."""
    groups = []
    for nodes in linears_by_input(graph, facts).values():
        names = tuple(node.target for node in nodes)
        distinct = len(set(names)) == len(names) and not any("." in name for name in names)
        if len(nodes) >= 2 and distinct:
            groups.append((names, nodes))
    if len(groups) > 1:
        raise NoMatch(
            f"{len(groups)} groups of sibling linears, and which one to merge is ambiguous"
        )
    if not groups:
        raise NoMatch("no two linears read the same input of the forward")
    names, nodes = groups[0]
    if facts.attribute(merged_name(names)) is not None:
        raise NoMatch(f"the attribute {merged_name(names)} exists already")
    return Match(
        fuser=NAME,
        becomes=BECOMES,
        linears=names,
        shard_ids=tuple(str(i) for i in range(len(names))),
        line=nodes[0].line,
        anchor=nodes[-1],
        merged=merged_name(names),
    )


def check_source(match: Match, facts: Facts, env: Env) -> None:
    """Can the forward be rewritten?"""
    function, source = rewritable(facts)
    calls = guarded_calls(function, source, match.linears, env.contract)
    same_argument(calls, source)
    paths = [block_path(function.body, call) for call in calls]
    if len({id(path[-1][0]) for path in paths}) != 1:
        raise NoMatch(
            "the linears are called in different blocks", source.line(calls[-1]), near=True
        )
    block = paths[0][-1][0]
    check_input_stable(function, source, facts, calls, block, [path[-1][1] for path in paths])
    check_temporaries(function, match, env)


def check_temporaries(function: ast.FunctionDef, match: Match, env: Env) -> None:
    """vLLM's own temporary names must be free."""
    suffixed = {f"{name}_fused" for name in match.linears}
    for node in nodes_of(function):
        if isinstance(node, ast.Name) and (
            node.id.startswith("_vllm_merged_")
            if env.contract.numbered_temporaries
            else node.id in suffixed
        ):
            raise NoMatch(f"the name {node.id} is taken", near=True)


def validate(match: Match, facts: Facts, env: Env) -> None:
    """Do this instance's sizes allow it?"""
    check_inputs(match, facts)
    children = [facts.child(name) for name in match.linears]
    if env.contract.equal_glu_sizes and env.tp > 1:
        for name, child in zip(match.linears, children, strict=True):
            if child.out_features % env.tp:
                raise NoMatch(
                    f"{name} has {child.out_features} outputs, not divisible by "
                    f"the tensor-parallel size {env.tp}",
                    match.line,
                )


def check_inputs(match: Match, facts: Facts) -> None:
    """All projections read the same width, and all or none have a bias."""
    widths = [facts.child(name).in_features for name in match.linears]
    if any(width != widths[0] for width in widths[1:]):
        raise NoMatch("the linears have different input sizes", match.line)
    check_bias(match, facts)


def check_bias(match: Match, facts: Facts) -> None:
    """All projections have a bias, or none."""
    biased = [facts.child(name).has_bias for name in match.linears]
    if len(set(biased)) != 1:
        names = [name for name, has in zip(match.linears, biased, strict=True) if has]
        raise NoMatch(
            f"only {', '.join(names)} of {', '.join(match.linears)} has a bias",
            match.line,
            near=True,
        )
