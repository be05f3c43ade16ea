"""MoE blocks that vLLM routes itself although its routing gives other numbers.

With internal routing only the gate's linear, one scoring function, top-k, renormalisation and
``config.routed_scaling_factor`` survive; everything else that the router or the block does to
the weights is dropped, and the experts' activation is always silu (contract 1.11, 2.13).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, Undecided
from modelcheck.fusers.vocabulary import (
    CASTS,
    ancestors,
    descendants,
    is_number,
    is_op,
    operand,
)
from modelcheck.graph.core import Graph, Node

EXPERTS = "experts"
SILU = ("silu", "swish")
SHAPES = frozenset({"view", "reshape", "squeeze", "unsqueeze", "flatten", "contiguous"})
INERT = frozenset({"Dropout", "Identity"})


def experts_wrong(facts: Facts) -> str:
    """Experts whose activation is not the one vLLM uses for all of them."""
    try:
        store = facts.child(EXPERTS).as_module()
        places = [store, *(store.child("0").as_module() for n in store.child_names if n == "0")]
        for place in places:
            for name in place.child_names:
                activation = place.child(name).activation_name
                if activation is not None and activation not in SILU:
                    return (
                        f"the experts use the activation {activation}: vLLM's experts always "
                        "use silu"
                    )
    except Undecided:
        return ""
    return ""


def routing_wrong(facts: Facts, gate: str, shared: str | None, scorer: str, env: Env) -> str:
    """How internal routing differs from what the router and the block compute."""
    try:
        router = facts.child(gate).as_module().graph()
        block = facts.graph()
    except Undecided:
        return ""
    topk = _topk(router, env)
    if topk is None or router.doubt or block.doubt:
        return ""
    questions: tuple[Callable[[], str], ...] = (
        lambda: _before_scoring(router, scorer),
        lambda: _renormalisation(router, topk, env),
        lambda: _scaling(router, topk, block, env),
        lambda: _block(block, gate, shared, facts, env),
    )
    for question in questions:
        try:
            answer = question()
        except Undecided:
            continue
        if answer:
            return answer
    return ""


def _topk(graph: Graph, env: Env) -> Node | None:
    found = [node for node in graph if is_op(node, "topk")]
    if not found:
        return None
    return found[-1] if env.contract.moe_correction_bias else found[0]


def _before_scoring(router: Graph, scorer: str) -> str:
    node = router.first(lambda n: is_op(n, scorer))
    if node is None or not node.inputs:
        return ""
    value = _plain(node.inputs[0])
    if is_op(value, "linear") or (isinstance(value, Node) and value.op != "call_function"):
        return ""
    if isinstance(value, Node) and any(is_op(n, "topk") for n in ancestors(value)):
        return ""  # scored after top-k
    if isinstance(value, Node):
        what = value.target.rpartition(".")[2]
        return f"the router changes its logits before {scorer} ({what}): vLLM does not"
    return ""


def _plain(value: Any) -> Any:
    while isinstance(value, Node):
        if value.op == "call_method" and value.target in (CASTS | SHAPES | {"type"}):
            value = value.args[0]
        else:
            return value
    return value


def _renormalisation(router: Graph, topk: Node, env: Env) -> str:
    """Up to 0.32 the config decides whether the top weights are renormalised."""
    if env.contract.moe_dataflow or env.config is None or router.stopped:
        return ""
    configured = env.config("norm_topk_prob")
    if configured is None:
        count = env.config("num_experts_per_tok") or env.config("top_k")
        configured = isinstance(count, int) and count > 1
    if not isinstance(configured, bool):
        return ""
    written = any(_divides_by_sum(node) for node in descendants(router, topk))
    if written == configured:
        return ""
    if written:
        return "the router renormalises the top weights, config.norm_topk_prob says not to"
    return "the router does not renormalise the top weights, config.norm_topk_prob says to"


def _divides_by_sum(node: Node) -> bool:
    if not any(is_op(node, name) for name in ("truediv", "div", "true_divide", "div_")):
        return False
    divisor = operand(node, 1, "other")
    return isinstance(divisor, Node) and any(is_op(n, "sum") for n in ancestors(divisor))


def _scaling(router: Graph, topk: Node, block: Graph, env: Env) -> str:
    """Constant factors in the router and the block against config.routed_scaling_factor."""
    if env.config is None or router.returned is None or block.returned is None:
        return ""
    factors = [*_constants(descendants(router, topk)), *_constants(_after_experts(block))]
    if any(not isinstance(f, int | float) for f in factors):
        return ""
    written = math.prod(factors)
    configured = env.config("routed_scaling_factor") if env.contract.moe_correction_bias else None
    if configured is None:
        configured = 1.0
    if not isinstance(configured, int | float) or math.isclose(written, configured):
        return ""
    return (
        f"the routed output is scaled by {written:g} in the code, and by "
        f"{configured:g} (config.routed_scaling_factor) in vLLM"
    )


def _constants(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        if any(is_op(node, name) for name in ("mul", "mul_")):
            for factor in (operand(node, 0, "input"), operand(node, 1, "other")):
                if is_number(factor):
                    yield factor


def _after_experts(block: Graph) -> set[Node]:
    experts = block.first(lambda n: n.op == "call_module" and n.target == EXPERTS)
    return descendants(block, experts) if experts is not None else set()


def _block(block: Graph, gate: str, shared: str | None, facts: Facts, env: Env) -> str:
    """Up to 0.32 the body of the block is hardly looked at."""
    if env.contract.moe_dataflow:
        return ""
    experts = block.first(lambda n: n.op == "call_module" and n.target == EXPERTS)
    if experts is None:
        return ""
    for value in (*experts.args[1:], *experts.kwargs.values()):
        if not isinstance(value, Node):
            continue
        changed = _plain(value)
        if isinstance(changed, Node) and changed.op == "call_function":
            if is_op(changed, "getitem") or (_divides_by_sum(changed) and _renormalises(env)):
                continue
            what = changed.target.rpartition(".")[2]
            return f"the block changes the routing weights ({what}): vLLM does not"
    for node in _after_experts(block):
        reason = _dropped(node, block, experts, shared, facts)
        if reason:
            return reason
    return ""


def _renormalises(env: Env) -> bool:
    try:
        return env.config is not None and env.config("norm_topk_prob") is not False
    except Undecided:
        return False


def _dropped(node: Node, block: Graph, experts: Node, shared: str | None, facts: Facts) -> str:
    if node is experts or node.op == "output":
        return ""
    if node.op == "call_method" and node.target in (CASTS | SHAPES | {"type", "view_as"}):
        return ""
    if node.op == "call_module":
        name = facts.child(node.target).class_name
        return "" if name in INERT else f"the block passes its output through {node.target}"
    if any(is_op(node, name) for name in ("mul", "mul_")):
        return ""  # judged as a scale
    if any(is_op(node, name) for name in ("add", "add_")):
        routed = descendants(block, experts)
        for term in (operand(node, 0, "input"), operand(node, 1, "other")):
            if isinstance(term, Node) and term not in routed:
                return _shared_changed(term, shared)
        return ""
    what = node.target.rpartition(".")[2]
    return f"the block goes on after its experts ({what}): vLLM drops that"


def _shared_changed(term: Node, shared: str | None) -> str:
    value = _plain(term)
    if isinstance(value, Node) and value.op == "call_module":
        return ""
    if is_op(value, "mul"):
        factors = [_plain(operand(value, 0, "input")), _plain(operand(value, 1, "other"))]
        if any(is_op(f, "sigmoid") for f in factors):
            return ""
        return f"the output of {shared} is scaled in the block: vLLM adds it as it is"
    return ""
