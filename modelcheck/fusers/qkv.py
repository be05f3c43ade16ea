"""QKV: three Linears on one input become one QKVParallelLinear (contract section 2.8)."""

from __future__ import annotations

import ast
from typing import Any

from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, Match, NoMatch, Undecided
from modelcheck.fusers.merged_column import check_bias, check_temporaries
from modelcheck.fusers.rewrite import (
    block_path,
    check_input_stable,
    guarded_calls,
    rewritable,
    same_argument,
)
from modelcheck.fusers.vocabulary import (
    CASTS,
    is_linear,
    is_number,
    linears_by_input,
    returned_linear,
)
from modelcheck.graph.core import Graph, Node
from modelcheck.source.bodies import nodes_of

NAME = "QKV"
BECOMES = "QKVParallelLinear"
SAME_VALUES = CASTS | {"contiguous", "clone", "view", "reshape", "transpose", "permute"}


def match(graph: Graph, facts: Facts, env: Env) -> Match:
    """The one input of the forward that exactly three Linears read."""
    groups = linears_by_input(graph, facts)
    triples = [nodes for nodes in groups.values() if len(nodes) == 3]
    if len(triples) != 1:
        raise _look_alike(graph, facts, groups)
    nodes = triples[0]
    order = _roles([facts.child(node.target).out_features for node in nodes])
    if order is None:
        raise NoMatch(
            "the three projections' output sizes are not those of a query and an equally "
            "wide key and value",
            nodes[0].line,
            near=True,
        )
    linears = tuple(nodes[i].target for i in order)
    output = output_projection(graph, facts, linears, facts.child(linears[0]).out_features)
    return Match(
        fuser=NAME,
        becomes=BECOMES,
        linears=linears,
        shard_ids=("q", "k", "v"),
        output=output,
        line=nodes[0].line,
        anchor=nodes[-1],
        merged="qkv_proj",
    )


def _roles(widths: list[Any]) -> tuple[int, int, int] | None:
    """Which of three, in order of computation, are q, k and v."""
    a, b, c = widths
    if a == b and b == c:
        return (0, 1, 2)
    for q, k, v in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        if widths[k] == widths[v] and widths[q] != widths[k]:
            return (q, k, v) if widths[q] > widths[k] else None
    return None


def output_projection(graph: Graph, facts: Facts, taken: tuple[str, ...], width: Any) -> str | None:
    """The Linear that makes the returned value, when it reads the query's width."""
    name = returned_linear(graph, facts)
    if name is None or name in taken or facts.child(name).in_features != width:
        return None
    return name


def _look_alike(graph: Graph, facts: Facts, groups: dict[Node, list[Node]]) -> NoMatch:
    """Why there are not exactly three projections of one input."""
    plain = "no input of the forward is read by exactly three linears"
    linears = [node for node in graph if is_linear(node, facts)]
    for source, nodes in groups.items():
        names = ", ".join(node.target for node in nodes)
        if len(nodes) > 3:
            return NoMatch(
                f"{len(nodes)} linears read {source.target} ({names}), the pattern has three",
                nodes[-1].line,
            )
    shared: dict[Any, list[Node]] = {}
    for node in linears:
        if len(node.args) == 1 and isinstance(node.args[0], Node):
            shared.setdefault(node.args[0], []).append(node)
    for source, nodes in shared.items():
        if len(nodes) == 3 and source.op != "placeholder":
            what = f"{source.target}(...)" if source.op == "call_module" else source.target
            return NoMatch(
                f"the three projections read {what}, not an input of the forward",
                nodes[0].line,
                near=True,
            )
    origins: dict[Node, list[Node]] = {}
    for node in linears:
        if len(node.args) == 1 and isinstance(node.args[0], Node):
            origins.setdefault(_origin(node.args[0]), []).append(node)
    for source, nodes in origins.items():
        changed = [node for node in nodes if node.args[0] is not source]
        if len(nodes) == 3 and changed and source.op == "placeholder":
            return NoMatch(
                f"not all three projections read {source.target} itself: {changed[0].target} "
                "reads something made of it",
                changed[0].line,
                near=True,
            )
    if graph.stopped and len(facts.child_names) >= 3:
        return NoMatch(
            f"the trace of forward stops before three projections: {graph.stopped}",
            graph.stopped_line,
            near=sum(facts.child(n).is_linear for n in facts.child_names) >= 3,
        )
    return NoMatch(plain)


def _origin(value: Any) -> Any:
    """Below casts, copies and reshapes."""
    while isinstance(value, Node) and value.op == "call_method" and value.target in SAME_VALUES:
        value = value.args[0]
    return value


def check_source(match: Match, facts: Facts, env: Env) -> None:
    """Can the forward be rewritten?"""
    function, source = rewritable(facts)
    calls = guarded_calls(function, source, match.linears, env.contract)
    same_argument(calls, source)
    argument = ast.dump(calls[0].args[0])
    others = {
        name
        for name in facts.child_names
        if name not in match.linears and facts.child(name).is_linear
    }
    for node in nodes_of(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in others
            and any(ast.dump(a) == argument for a in node.args)
        ):
            raise NoMatch(
                f"a fourth linear, {node.func.attr}, reads the same input",
                source.line(node),
                near=True,
            )
    paths = [block_path(function.body, call) for call in calls]
    depth = common_depth(paths)
    if not env.contract.existence_guards and any(len(path) != depth for path in paths):
        raise NoMatch(
            "the projections are called in different blocks", source.line(calls[-1]), near=True
        )
    block = paths[0][depth - 1][0]
    if env.contract.input_stability:
        indices = [path[depth - 1][1] for path in paths]
        check_input_stable(function, source, facts, calls, block, indices)
    check_temporaries(function, match, env)


def common_depth(paths: list[list[tuple[list[ast.stmt], int]]]) -> int:
    """How many nested blocks all the paths share."""
    depth = 0
    while (
        all(len(path) > depth for path in paths)
        and len({id(path[depth][0]) for path in paths}) == 1
    ):
        depth += 1
    return depth


def validate(match: Match, facts: Facts, env: Env) -> None:
    """Do this instance's sizes allow it?"""
    q, k, v = (facts.child(name) for name in match.linears)
    if q.in_features != k.in_features or k.in_features != v.in_features:
        raise NoMatch("the projections have different input sizes", match.line, near=True)
    check_bias(match, facts)
    if k.out_features != v.out_features:
        raise NoMatch("key and value have different output sizes", match.line, near=True)
    head = head_size(facts, env)
    for name, child in ((match.linears[0], q), (match.linears[1], k)):
        if child.out_features % head:
            raise NoMatch(
                f"{name} has {child.out_features} outputs, not a multiple of the head size {head}",
                match.line,
                near=True,
            )


def head_size(facts: Facts, env: Env) -> Any:
    """The module's own ``head_dim``, else the model's head size."""
    own = facts.attribute("head_dim") if env.contract.module_head_dim else None
    head = env.head_size if own is None or (isinstance(own, int) and not own) else own
    if head is None:
        raise Undecided("the model's head size is not known")
    if not is_number(head):
        raise Undecided(f"the head size is no number: {head!r}")
    return head
