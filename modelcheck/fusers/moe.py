"""MoE blocks: experts, router and shared experts become vLLM's MoERunner.

Contract sections 1.11 and 2.13. Not one of the fusers proper: vLLM replaces the experts first.
Up to 0.32 the block is read loosely, from 0.33 by a dataflow match that fails closed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from modelcheck.findings import Span
from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, NoMatch, Undecided
from modelcheck.fusers.moe_wrong import experts_wrong, routing_wrong
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.fusers.vocabulary import (
    ancestors,
    descendants,
    is_number,
    is_op,
    operand,
    peel,
)
from modelcheck.graph.core import Graph, Node
from modelcheck.source.bodies import nodes_of

NAME = "MoEBlock"
EXPERTS = "experts"
ROUTER_STATE = frozenset({"weight", "e_score_correction_bias"})
FLOAT_DTYPES = ("torch.float32", "torch.float16", "torch.bfloat16", "torch.float64", "torch.float")


@dataclass(frozen=True)
class Router:
    """A gate whose routing vLLM can do itself."""

    gate: str
    scoring: str  # softmax or sigmoid
    dtype: str | None  # what the router computes in, where the forward says
    renormalises: bool | None = None  # from the trace, since 0.33


@dataclass(frozen=True)
class Shared:
    """The shared expert and its sigmoid gate, where there are any."""

    expert: str | None = None
    gate: str | None = None
    scales_experts: bool = False


def has_replaceable_experts(facts: Facts) -> bool:
    """A child named exactly ``experts`` that is a ModuleList or all of whose parameters are 3-D."""
    return EXPERTS in facts.child_names and facts.child(EXPERTS).is_expert_store


def match_block(facts: Facts, env: Env) -> FusionResult:
    """How vLLM treats a block with replaceable experts: routing inside or outside the runner."""
    try:
        router, shared = _match(facts, env)
    except Undecided as error:
        return FusionResult(NAME, Fires.UNKNOWN, facts.class_name, reason=error.reason)
    except NoMatch as error:
        span = Span(error.line) if error.line else None
        return _yes(facts, env, "external", {"why_external": error.reason}, span)
    details = {"shared": shared.expert or "", "shared_gate": shared.gate or ""}
    if router is None:
        return _yes(facts, env, "external", details, None)
    details |= {"gate": router.gate, "scoring": router.scoring, "router_dtype": router.dtype or ""}
    if router.renormalises is not None:
        details["renormalises"] = str(router.renormalises).lower()
    wrong = routing_wrong(facts, router.gate, shared.expert, router.scoring, env)
    return _yes(facts, env, "internal", details, None, wrong)


def _yes(
    facts: Facts,
    env: Env,
    routing: str,
    details: dict[str, str],
    span: Span | None,
    wrong: str = "",
) -> FusionResult:
    return FusionResult(
        fuser=NAME,
        fires=Fires.YES,
        class_name=facts.class_name,
        becomes=f"{env.contract.moe_runner} ({routing} routing)",
        span=span,
        details=tuple(sorted((k, v) for k, v in details.items() if v)),
        wrong=wrong or experts_wrong(facts),
    )


def _match(facts: Facts, env: Env) -> tuple[Router | None, Shared]:
    if _returns_tuple(facts):
        raise NoMatch("the block returns a tuple")
    if env.contract.moe_dataflow:
        return _match_dataflow(facts, env)
    return _match_loosely(facts, env)


def _returns_tuple(facts: Facts) -> bool:
    source = facts.source
    if source is None:
        return True
    function = source.function
    named = {
        target.id
        for node in nodes_of(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def is_tuple(value: ast.expr | None) -> bool:
        if isinstance(value, ast.IfExp):
            return is_tuple(value.body) or is_tuple(value.orelse)
        return isinstance(value, ast.Tuple) or (isinstance(value, ast.Name) and value.id in named)

    return any(is_tuple(node.value) for node in _own_returns(function))


def _own_returns(function: ast.AST) -> Iterator[ast.Return]:
    pending = list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)


# Up to 0.32 -------------------------------------------------------------------------------


def _match_loosely(facts: Facts, env: Env) -> tuple[Router, Shared]:
    router, reason = None, "the block has no child that routes"
    for name in facts.child_names:
        if name == EXPERTS:
            continue
        try:
            router = match_router(facts.child(name).as_module(), name, env)
            break
        except NoMatch as error:
            if "weight" in facts.child(name).state:
                reason = f"{name} is no router that vLLM knows: {error.reason}"
    if router is None:
        raise NoMatch(reason)
    shared = Shared()
    if any(name not in (EXPERTS, router.gate) for name in facts.child_names):
        shared = _shared_by_cone(facts.graph())
        if shared.gate is not None and not facts.child(shared.gate).is_scalar_gate:
            raise NoMatch(f"{shared.gate} is not a linear with one output")
    accounted = {EXPERTS, router.gate, shared.expert, shared.gate}
    for name in facts.child_names:
        if name not in accounted and facts.child(name).state:
            raise NoMatch(f"the child {name} has weights and no part in the pattern")
    return router, shared


def match_router(facts: Facts, name: str, env: Env) -> Router:
    """``topk(score(linear(x)))`` with one softmax or sigmoid. Raises `NoMatch`."""
    state = set(facts.state)
    allowed = ROUTER_STATE if env.contract.moe_correction_bias else {"weight"}
    if "weight" not in state or state - allowed:
        odd = ", ".join(sorted(state - allowed)) or "no weight"
        raise NoMatch(f"its parameters are not just weight and e_score_correction_bias ({odd})")
    graph = facts.graph()
    topks = [node for node in graph if is_op(node, "topk")]
    if not topks:
        raise NoMatch(f"no top-k in its forward{_stopped(graph)}")
    topk = topks[-1] if env.contract.moe_correction_bias else topks[0]
    scorers = _scorers(ancestors(topk))
    if not scorers and env.contract.moe_score_after_topk:
        scorers = _scorers(descendants(graph, topk))
    if len(scorers) != 1:
        raise NoMatch(f"{len(scorers)} scoring functions (softmax, sigmoid) before its top-k")
    cone = list(ancestors(scorers[0]))
    if not any(is_op(node, "linear") for node in cone):
        raise NoMatch("its scores do not come from F.linear")
    scoring = "softmax" if is_op(scorers[0], "softmax") else "sigmoid"
    renormalises = _renormalises(graph, topk, scorers[0]) if env.contract.moe_dataflow else None
    return Router(name, scoring, _forced_dtype(cone), renormalises)


def _stopped(graph: Graph) -> str:
    return f" (the trace stops: {graph.stopped})" if graph.stopped else ""


def _scorers(nodes: Any) -> list[Node]:
    return [node for node in nodes if is_op(node, "softmax") or is_op(node, "sigmoid")]


def _forced_dtype(nodes: list[Node]) -> str | None:
    for node in nodes:
        if node.op not in ("call_method", "call_function"):
            continue
        name = node.target.rpartition(".")[2]
        if name == "float":
            return "torch.float32"
        if name in ("to", "type"):
            for value in (*node.args[1:], *node.kwargs.values()):
                if value in FLOAT_DTYPES:
                    return str(value)
    return None


def _renormalises(graph: Graph, topk: Node, scorer: Node) -> bool | None:
    """Does the trace divide the top weights by their sum?"""
    later = descendants(graph, topk)
    if scorer in later:
        return is_op(scorer, "softmax")
    for node in later:
        if is_op(node, "truediv") or is_op(node, "div") or is_op(node, "true_divide"):
            divisor = operand(node, 1, "other")
            if isinstance(divisor, Node) and any(
                is_op(n, "sum") and n in later for n in ancestors(divisor)
            ):
                return True
    return None if graph.stopped else False


def _shared_by_cone(graph: Graph) -> Shared:
    """The one module added to the experts' output, and its sigmoid gate."""
    experts = graph.first(lambda n: n.op == "call_module" and n.target == EXPERTS)
    if experts is None:
        return Shared()
    routed = descendants(graph, experts)
    for node in graph:
        if not is_op(node, "add"):
            continue
        operands = [a for a in node.args if isinstance(a, Node)]
        sides = [a in routed for a in operands]
        if len(operands) != 2 or sides.count(True) != 1:
            continue
        cone = list(ancestors(operands[sides.index(False)]))
        modules = [n for n in cone if n.op == "call_module" and n.target != EXPERTS]
        gate = next(
            (
                source
                for n in cone
                if is_op(n, "sigmoid") and n.args and (source := peel(n.args[0])) in modules
            ),
            None,
        )
        shared = [n for n in modules if n is not gate]
        if len(shared) != 1:
            return Shared()
        return Shared(shared[0].target, gate.target if gate is not None else None)
    return Shared()


# From 0.33 --------------------------------------------------------------------------------


def _match_dataflow(facts: Facts, env: Env) -> tuple[Router | None, Shared]:
    graph = facts.graph()
    experts = graph.first(lambda n: n.op == "call_module" and n.target == EXPERTS)
    if experts is None:
        raise NoMatch(f"experts are not called in the block's forward{_stopped(graph)}")
    gate_name, x = _routing(facts, experts)
    returned = graph.returned
    if returned is None:
        raise NoMatch(f"the block's result is not seen{_stopped(graph)}", graph.stopped_line)
    shared = _shared_term(_unwrap(returned, facts), experts, x, facts)
    accounted = {EXPERTS, gate_name, shared.expert, shared.gate}
    for name in facts.child_names:
        child = facts.child(name)
        if name not in accounted and (child.state or _is_called(graph, name, child.class_name)):
            raise NoMatch(f"the child {name} has no part in the pattern")
    try:
        router = match_router(facts.child(gate_name).as_module(), gate_name, env)
    except NoMatch as error:
        if shared.expert is None or shared.scales_experts:
            raise NoMatch(
                f"{gate_name} is no router that vLLM knows: {error.reason}", error.line
            ) from None
        return None, shared
    return router, shared


def _is_called(graph: Graph, name: str, class_name: str) -> bool:
    return class_name != "Identity" and any(
        n.op == "call_module" and n.target == name for n in graph
    )


def _routing(facts: Facts, experts: Node) -> tuple[str, Node]:
    """The gate whose outputs 1 and 2 are the experts' weights and ids, and its input."""
    names = facts.child(EXPERTS).inputs_by_position
    bound = dict(zip(names, experts.args, strict=False)) | dict(experts.kwargs)
    if len(bound) != 3 or len(names) < 3:
        raise NoMatch("experts are not called with (hidden_states, ids, weights)", experts.line)
    x, ids, weights = (_unwrap(bound.get(name), facts) for name in names[:3])
    if not isinstance(x, Node) or x.op != "placeholder":
        raise NoMatch("the experts' input is not the block's input", experts.line)
    sources = []
    for value, index in ((ids, 2), (weights, 1)):
        if not is_op(value, "getitem") or value.args[1] != index:
            raise NoMatch(
                "the experts' ids and weights are not the gate's second and third outputs",
                experts.line,
            )
        sources.append(value.args[0])
    gate = sources[0]
    if gate is not sources[1] or not isinstance(gate, Node) or gate.op != "call_module":
        raise NoMatch("ids and weights do not come from one call of a gate", experts.line)
    if gate.kwargs or len(gate.args) != 1 or _unwrap(gate.args[0], facts) is not x:
        raise NoMatch("the gate is not called on the block's input", gate.line)
    return gate.target, x


def _unwrap(value: Any, facts: Facts) -> Any:
    """Below casts, views and identities."""
    while isinstance(value, Node):
        inner = peel(value)
        if isinstance(inner, Node) and (
            (inner.op == "call_method" and inner.target in ("view", "reshape"))
            or (inner.op == "call_module" and facts.child(inner.target).class_name == "Identity")
        ):
            inner = inner.args[0]
        if inner is value:
            return value
        value = inner
    return value


def _shared_term(value: Any, experts: Node, x: Node, facts: Facts) -> Shared:
    scale = _experts_or_scaled(value, experts, facts)
    if scale is not None:
        return Shared(scales_experts=scale)
    if not is_op(value, "add") or len(value.args) != 2:
        line = value.line if isinstance(value, Node) else None
        raise NoMatch("the block does more than add a shared expert to the experts' output", line)
    for routed, other in (value.args, value.args[::-1]):
        scale = _experts_or_scaled(_unwrap(routed, facts), experts, facts)
        if scale is None:
            continue
        expert, gate = _shared_call(_unwrap(other, facts), x, facts)
        return Shared(expert, gate, scale)
    raise NoMatch("neither side of the sum is the experts' output", value.line)


def _experts_or_scaled(value: Any, experts: Node, facts: Facts) -> bool | None:
    if value is experts:
        return False
    if is_op(value, "mul") and len(value.args) == 2 and is_number(value.args[1]):
        return True if _unwrap(value.args[0], facts) is experts else None
    return None


def _shared_call(value: Any, x: Node, facts: Facts) -> tuple[str, str | None]:
    def reads_x(node: Any) -> bool:
        return (
            isinstance(node, Node)
            and node.op == "call_module"
            and len(node.args) == 1
            and _unwrap(node.args[0], facts) is x
        )

    if reads_x(value):
        return value.target, None
    if is_op(value, "mul") and len(value.args) == 2:
        for first, second in (value.args, value.args[::-1]):
            gated, shared = peel(first), _unwrap(second, facts)
            if is_op(gated, "sigmoid") and reads_x(shared):
                gate = peel(gated.args[0])
                if reads_x(gate) and facts.child(gate.target).is_scalar_gate:
                    return shared.target, gate.target
    line = value.line if isinstance(value, Node) else None
    raise NoMatch("what is added to the experts' output is not a plain shared expert", line)
