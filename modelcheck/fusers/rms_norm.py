"""RMSNorm: ``weight * x * rsqrt(mean(x**2) + eps)`` becomes vLLM's RMSNorm or GemmaRMSNorm.

Contract section 2.11.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, Match, NoMatch
from modelcheck.fusers.rms_norm_wrong import Chain, chain_wrong, native_wrong
from modelcheck.fusers.vocabulary import ancestors, is_number, is_op, operand, peel
from modelcheck.graph.core import Graph, Node

NAME = "RMSNorm"


def match(graph: Graph, facts: Facts, env: Env) -> Match:
    """An RMS normalisation of the one input, and nothing after it but casts."""
    _no_crash(graph, env)
    spine = _spine(graph, env)
    if len(facts.inputs) != 1:
        misspelt = None if spine is not None else _misspelt(graph, env)
        near = not facts.child_names and (spine is not None or misspelt is not None)
        raise NoMatch(
            f"forward takes {len(facts.inputs)} inputs ({', '.join(facts.inputs)}), the "
            "pattern has one",
            facts.source.first_line if facts.source else None,
            near=near,
            certain=True,
        )
    x = graph.first(lambda n: n.op == "placeholder")
    if x is None:
        raise NoMatch("forward has no input")
    native = graph.first(lambda n: is_op(n, "rms_norm"))
    if native is not None and peel(operand(native, 0, "input")) is x:
        _nothing_after(graph, native)
        wrong = native_wrong(graph, native, facts)
        return _matched(facts, env, native, zero_centred=False, wrong=wrong)
    if spine is None:
        misspelt = None if facts.child_names else _misspelt(graph, env)
        raise misspelt or NoMatch("no rsqrt of a mean of squares")
    scaled = next((n for n in _products(graph, env) if spine in map(peel, _factors(n, env))), None)
    if scaled is None:
        raise NoMatch("nothing is multiplied by the reciprocal root", spine.line, near=True)
    tail, zero_centred = scaled, False
    for node in _products(graph, env):
        factors = [peel(f) for f in _factors(node, env) if isinstance(f, Node)]
        if node is not scaled and len(factors) == 2 and scaled in factors:
            weight = factors[0] if factors[1] is scaled else factors[1]
            tail, zero_centred = node, _is_one_plus(weight, env)
            break
    _nothing_after(graph, tail)
    wrong = chain_wrong(graph, Chain(x, spine, scaled, tail), facts)
    return _matched(facts, env, tail, zero_centred, wrong)


def _no_crash(graph: Graph, env: Env) -> None:
    """Up to vLLM 0.30 a keyword exponent in the square ends the load with a ValueError."""
    if not env.contract.crashes_on_pow_keyword:
        return
    for node in graph:
        if is_op(node, "mean") and node.args:
            square = peel(node.args[0])
            if is_op(square, "pow") and "exponent" in square.kwargs:
                raise NoMatch(
                    "pow(exponent=...) as a keyword makes this vLLM release crash while it "
                    "loads the model",
                    square.line,
                    kind="crash",
                )


def _matched(facts: Facts, env: Env, node: Node, zero_centred: bool, wrong: str) -> Match:
    details: list[tuple[str, str]] = []
    eps = _eps(facts.graph(), env)
    attribute = facts.attribute_behind(lambda graph: _eps(graph, env)) if eps is not None else None
    if eps is None:
        details.append(("eps", "dtype default"))
    else:
        details.append(("eps", attribute or repr(eps)))
    return Match(
        fuser=NAME,
        becomes="GemmaRMSNorm" if zero_centred else "RMSNorm",
        details=tuple(details),
        line=node.line,
        wrong=wrong,
    )


def _spine(graph: Graph, env: Env) -> Node | None:
    x = graph.first(lambda n: n.op == "placeholder")
    if x is None:
        return None
    return graph.first(lambda n: _is_inverse_root(n, env) and _variance_eps(n, x, env) is not None)


def _is_inverse_root(node: Node, env: Env) -> bool:
    if is_op(node, "rsqrt"):
        return True
    if env.contract.pow_as_rsqrt and is_op(node, "pow"):
        return bool(_operand(node, 1, "exponent", env) == -0.5)
    return False


def _operand(node: Node, index: int, name: str, env: Env) -> Any:
    """Operands may be keywords since vLLM 0.31."""
    if env.contract.pow_as_rsqrt:
        return operand(node, index, name)
    return node.args[index] if len(node.args) > index else None


def _factors(node: Node, env: Env) -> tuple[Any, Any]:
    return _operand(node, 0, "input", env), _operand(node, 1, "other", env)


def _products(graph: Graph, env: Env) -> Iterator[Node]:
    return (node for node in graph if is_op(node, "mul"))


def _variance_eps(root: Node, x: Node, env: Env) -> Any:
    """The eps of ``rsqrt(mean(x**2) + eps)``."""
    total = peel(_operand(root, 0, "input", env))
    if not is_op(total, "add"):
        return None
    operands = _factors(total, env)
    numbers = [o for o in operands if is_number(o)]
    nodes = [o for o in operands if isinstance(o, Node)]
    if len(numbers) != 1 or len(nodes) != 1:
        return None
    mean = peel(nodes[0])
    if not is_op(mean, "mean") or not _is_square(_operand(mean, 0, "input", env), x, env):
        return None
    return numbers[0]


def _is_square(value: Any, x: Node, env: Env) -> bool:
    node = peel(value)
    if is_op(node, "pow"):
        exponent = _operand(node, 1, "exponent", env)
        return peel(_operand(node, 0, "input", env)) is x and is_number(exponent) and exponent == 2
    if is_op(node, "square"):
        return peel(_operand(node, 0, "input", env)) is x
    if is_op(node, "mul"):
        return all(peel(factor) is x for factor in _factors(node, env))
    return False


def _is_one_plus(value: Any, env: Env) -> bool:
    node = peel(value)
    return is_op(node, "add") and any(is_number(o) and o == 1 for o in _factors(node, env))


def _eps(graph: Graph, env: Env) -> Any:
    """The eps a trace shows."""
    x = graph.first(lambda n: n.op == "placeholder")
    if x is None:
        return None
    native = graph.first(lambda n: is_op(n, "rms_norm"))
    if native is not None and peel(operand(native, 0, "input")) is x:
        eps = native.args[3] if len(native.args) > 3 else native.kwargs.get("eps")
        return eps if is_number(eps) else None
    spine = _spine(graph, env)
    return None if spine is None else _variance_eps(spine, x, env)


def _nothing_after(graph: Graph, node: Node) -> None:
    value = graph.returned
    if value is None or peel(value) is node:
        return
    if isinstance(value, tuple | list):
        raise NoMatch(
            f"forward returns {len(value)} values, the pattern returns one", node.line, near=True
        )
    later = value if isinstance(value, Node) else None
    what = later.target.rpartition(".")[2] if later is not None else "another value"
    raise NoMatch(
        f"forward goes on after the norm ({what}), only dtype casts may follow",
        later.line if later is not None else node.line,
        near=True,
    )


def _misspelt(graph: Graph, env: Env) -> NoMatch | None:
    """A normalisation by the root mean square in a spelling the pattern misses."""
    for node in graph:
        if is_op(node, "mean"):
            squares = [n for n in ancestors(node) if _squares_something(n, env)]
            if not squares or any(_is_centred(n) for n in squares):
                continue
            users = _reached(graph, node)
            if not _normalises(users):
                continue
            for user in users:
                reason = _spelling(user, env)
                if reason:
                    return NoMatch(reason, user.line, kind="spelling")
            if any(is_op(u, "rsqrt") or is_op(u, "sqrt") for u in users):
                return _variance(graph, node)
        elif is_op(node, "norm") and node.inputs and node.inputs[0].op != "call_module":
            return NoMatch(
                "the norm is taken with .norm(), only rsqrt(mean(x**2) + eps) is recognised",
                node.line,
                near=True,
            )
    return None


def _is_centred(square: Node) -> bool:
    """The square of a difference: a variance, as in a layer norm."""
    return any(is_op(n, "sub") or is_op(n, "sub_") for n in ancestors(square))


def _normalises(users: list[Node]) -> bool:
    """Does a root of the mean scale another value?"""
    scales = ("mul", "mul_", "truediv", "div", "div_", "true_divide")
    return any(
        is_op(node, name) and sum(isinstance(a, Node) for a in node.args) == 2
        for node in users
        for name in scales
    )


def _squares_something(node: Node, env: Env) -> bool:
    if is_op(node, "pow"):
        exponent = operand(node, 1, "exponent")
        return is_number(exponent) and exponent == 2
    if is_op(node, "mul"):
        first, second = operand(node, 0, "input"), operand(node, 1, "other")
        return first is not None and first is second
    return is_op(node, "square")


def _reached(graph: Graph, node: Node) -> list[Node]:
    reached, pending = [], [node]
    while pending:
        for user in graph.users[pending.pop(0)]:
            if user not in reached:
                reached.append(user)
                pending.append(user)
    return reached


def _spelling(node: Node, env: Env) -> str | None:
    if is_op(node, "sqrt"):
        return (
            "the norm is written with sqrt (a division or 1 / sqrt), only "
            "x * torch.rsqrt(mean(x**2) + eps) is recognised"
        )
    if is_op(node, "pow"):
        exponent = operand(node, 1, "exponent")
        if is_number(exponent) and exponent == -0.5 and not env.contract.pow_as_rsqrt:
            return "the root is written as ** -0.5, which this vLLM release does not recognise"
        if is_number(exponent) and exponent == 0.5:
            return "the root is written as ** 0.5, only torch.rsqrt is recognised"
    if is_op(node, "add_"):
        return "eps is added in place, only a plain addition is recognised"
    return None


def _variance(graph: Graph, mean: Node) -> NoMatch:
    """What is wrong between the squares and the root."""
    for user in _reached(graph, mean):
        if is_op(user, "add"):
            if not any(is_number(o) for o in user.args):
                return NoMatch(
                    "eps is not a plain number when the forward is traced", user.line, near=True
                )
            break
    else:
        return NoMatch("no eps is added to the mean of squares", mean.line, near=True)
    for node in ancestors(mean):
        if node.op == "call_method" and node.target == "type":
            return NoMatch(
                "the cast is written with .type(...), only .to(...) and .float() are seen through",
                node.line,
                kind="spelling",
            )
    return NoMatch(
        "the mean is not of the squares of the forward's input itself", mean.line, near=True
    )


def validate(match: Match, facts: Facts, env: Env) -> None:
    """Always applicable."""
