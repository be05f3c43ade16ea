"""GLU: ``act(gate(x)) * up(x)`` becomes one gate_up_proj and a fused activation kernel.

Contract section 2.6.
"""

from __future__ import annotations

import ast

from modelcheck.fusers import merged_column
from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, Match, NoMatch
from modelcheck.fusers.rewrite import guarded_calls, rewritable, same_argument, single_call
from modelcheck.fusers.vocabulary import ancestors, is_linear, is_op, peel
from modelcheck.graph.core import Graph, Node
from modelcheck.source.bodies import nodes_of

NAME = "GLU"
BECOMES = "MergedColumnParallelLinear"


def match(graph: Graph, facts: Facts, env: Env) -> Match:
    """The first product of an activated Linear and another Linear of the same input."""
    for node in graph:
        if node.op != "call_function" or node.target != "operator.mul" or len(node.args) != 2:
            continue
        for activated, up in (node.args, node.args[::-1]):
            if _is_glu(activated, up, facts):
                match = _matched(graph, facts, node, activated, up)
                if not env.contract.glu_per_instance:
                    merged_column.check_inputs(match, facts)
                return match
    raise _look_alike(graph, facts) or NoMatch("no product of an activated linear and another")


def _is_glu(activated: object, up: object, facts: Facts) -> bool:
    if not (_is_activated_linear(activated, facts) and is_linear(up, facts)):
        return False
    assert isinstance(activated, Node)
    gate = activated.args[0]
    return (
        len(gate.args) == 1
        and len(up.args) == 1
        and isinstance(gate.args[0], Node)
        and gate.args[0] is up.args[0]
    )


def _is_activated_linear(node: object, facts: Facts) -> bool:
    return (
        isinstance(node, Node)
        and node.op == "call_module"
        and not is_linear(node, facts)
        and len(node.args) == 1
        and is_linear(node.args[0], facts)
    )


def _matched(graph: Graph, facts: Facts, product: Node, activated: Node, up: Node) -> Match:
    gate = activated.args[0]
    down = graph.first(
        lambda n: is_linear(n, facts) and bool(n.args) and peel(n.args[0]) is product
    )
    return Match(
        fuser=NAME,
        becomes=BECOMES,
        linears=(gate.target, up.target),
        shard_ids=("0", "1"),
        output=down.target if down is not None else None,
        activation=activated.target,
        line=product.line,
        anchor=product,
        merged="gate_up_proj",
    )


def _look_alike(graph: Graph, facts: Facts) -> NoMatch | None:
    """A gated product that the pattern misses, and why."""
    for node in graph:
        if not is_op(node, "mul") or len(node.args) != 2:
            continue
        a, b = node.args
        for gate_side, up_side in ((a, b), (b, a)):
            reason = _why_not(node, gate_side, up_side, facts)
            if reason:
                return NoMatch(reason[1], node.line, kind=reason[0])
    return None


def _why_not(
    product: Node, gate_side: object, up_side: object, facts: Facts
) -> tuple[str, str] | None:
    """(kind, reason)."""
    if not isinstance(gate_side, Node) or not isinstance(up_side, Node):
        return None
    up = peel(up_side)
    halves = _halves(gate_side, up_side, facts)
    if halves:
        return halves
    if not is_linear(up, facts) or len(up.args) != 1:
        return None
    gates = [
        n
        for n in ancestors(gate_side)
        if is_linear(n, facts) and n is not up and n.args and n.args[0] is up.args[0]
    ]
    if len(gates) != 1 or gate_side is gates[0]:
        return None
    gate = gates[0]
    if _is_activated_linear(gate_side, facts):
        how = "torch.mul" if product.op == "call_function" else ".mul"
        return (
            "split-expression",
            f"the product is written with {how}, only the * operator is recognised",
        )
    between = [n for n in ancestors(gate_side) if gate in ancestors(n) and n is not gate]
    functions = [n for n in between if n.op == "call_function"]
    if len(between) == 1 and functions:
        name = functions[0].target.rpartition(".")[2]
        return (
            "functional-activation",
            f"the activation {name} is a function, only a child module "
            f'(self.act_fn = ACT2FN["{name}"]) is recognised',
        )
    if any(n.op == "call_module" for n in between):
        return (
            "split-expression",
            f"something stands between {gate.target}, its activation and the product with "
            f"{up.target}, only act({gate.target}(x)) * {up.target}(x) is recognised",
        )
    return None


def _halves(gate_side: Node, up_side: Node, facts: Facts) -> tuple[str, str] | None:
    """``gate, up = packed(x).chunk(2)``: no fuser takes a packed gate_up projection."""

    def chunk_of(node: Node) -> Node | None:
        for n in ancestors(node):
            if is_op(n, "chunk") or is_op(n, "split"):
                source = peel(n.args[0])
                if is_linear(source, facts):
                    return n
        return None

    first, second = chunk_of(gate_side), chunk_of(up_side)
    if first is None or first is not second:
        return None
    activated = any(n.op == "call_module" and not is_linear(n, facts) for n in ancestors(gate_side))
    if not activated or gate_side is up_side:
        return None
    packed = peel(first.args[0]).target
    return (
        "packed",
        f"gate and up are halves of one packed projection {packed}, which no fuser splits",
    )


def check_source(match: Match, facts: Facts, env: Env) -> None:
    """Can the forward be rewritten?"""
    function, source = rewritable(facts)
    assert match.activation is not None
    activation = single_call(function, source, match.activation, env.contract)
    calls = guarded_calls(function, source, match.linears, env.contract)
    gate, up = calls
    if activation.args[0] is not gate:
        raise NoMatch(
            f"{match.activation} is not called directly on {match.linears[0]}(...): the "
            "gate's output goes through a variable",
            source.line(activation),
            kind="split-expression",
        )
    same_argument(calls, source)
    products = [
        node
        for node in nodes_of(function)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and {id(node.left), id(node.right)} == {id(activation), id(up)}
    ]
    if len(products) != 1:
        raise NoMatch(
            f"self.{match.activation}(self.{match.linears[0]}(x)) and self.{match.linears[1]}(x) "
            "are not multiplied in one expression",
            source.line(up),
            kind="split-expression",
        )


def validate(match: Match, facts: Facts, env: Env) -> None:
    """Do this instance's sizes and activation allow it?"""
    if env.contract.glu_per_instance:
        merged_column.validate(match, facts, env)
    gate, up = (facts.child(name) for name in match.linears)
    if env.contract.equal_glu_sizes and gate.out_features != up.out_features:
        raise NoMatch(
            f"{match.linears[0]} and {match.linears[1]} have different output sizes",
            match.line,
            near=True,
        )
    assert match.activation is not None
    activation = facts.child(match.activation)
    if activation.activation is None:
        raise NoMatch(
            f"the activation {activation.class_name} has no fused kernel",
            match.line,
            near=True,
        )
