"""What a causal model does with the hidden states between its base model and its head."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from modelcheck.source.bodies import Body, body, self_name
from modelcheck.source.callpath import Child, children, hops
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

LINEAR = "torch.nn.Linear"
NO_CHANGE = frozenset({"Identity", "Dropout"})
WEIGHTED = frozenset({"Linear", "LayerNorm", "RMSNorm", "Embedding", "Conv1d"})
LIBRARIES = ("torch", "F", "nn", "math")


@dataclass(frozen=True)
class Step:
    """One operation: a child's call (``attr``), or a multiplication or division."""

    node: ast.expr
    attr: str = ""
    certain: bool = True  # not below an ``if``


def head_calls(info: ClassInfo) -> list[tuple[str, ast.Call]]:
    """The calls of linear layers of a causal model with a base model inside, but for those whose
    result another one is given: its head."""
    built = {c.attr: c for c in children(info)}
    called = hops(info)
    if not any(hop.attr in built and is_model(built[hop.attr]) for hop in called):
        return []  # without a base model inside there is nothing for vLLM to build
    single = {a for a, c in built.items() if c.type_name == LINEAR and not c.many}
    linear = [hop for hop in called if hop.attr in single]
    inner = {
        step.node
        for hop in linear
        for step in steps(body(hop.owner.file, hop.function), hop.function, hop.call)
    }
    return [(hop.attr, hop.call) for hop in linear if hop.call not in inner]


def is_model(child: Child) -> bool:
    """Is it a model of its own, here or by its name elsewhere?"""
    if isinstance(child.cls, ClassInfo):
        return child.cls.kind == "pretrained"
    return "Model" in child.cls


def steps(nodes: Body, function: FunctionNode, head: ast.Call) -> Iterator[Step]:
    """The operations on the way to the head's first argument, nearest the head first."""
    first = self_name(function)
    guarded = {
        inner
        for branch in nodes.all(ast.If)
        for part in (*branch.body, *branch.orelse)
        for inner in ast.walk(part)
    }
    stack: list[ast.expr] = [*head.args[:1], *(k.value for k in head.keywords if not head.args)]
    seen: set[str] = set()
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            if node.id not in seen:
                seen.add(node.id)
                stack.extend(_assigned(nodes, node.id, head))
        elif isinstance(node, ast.Attribute | ast.Subscript):
            stack.append(node.value)
        elif isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Mult | ast.Div):
                yield Step(node, certain=node not in guarded)
            stack.extend((node.left, node.right))
        elif isinstance(node, ast.Call):
            if is_self_attribute(node.func, first) and isinstance(node.func, ast.Attribute):
                yield Step(node, node.func.attr, node not in guarded)
            elif isinstance(node.func, ast.Attribute) and not _is_library(node.func):
                stack.append(node.func.value)
                continue
            stack.extend(node.args[:1])
        elif isinstance(node, ast.IfExp):
            stack.extend((node.body, node.orelse))


def _assigned(nodes: Body, name: str, head: ast.Call) -> Iterator[ast.expr]:
    """The values bound to a local before the head."""
    for assignment in nodes.all(ast.Assign):
        if assignment.lineno > head.lineno:
            continue
        if any(isinstance(t, ast.Name) and t.id == name for t in assignment.targets):
            yield assignment.value


def _is_library(function: ast.Attribute) -> bool:
    """Is it torch.x or F.x, rather than a method of a value?"""
    return dotted_name(function).partition(".")[0] in LIBRARIES


def has_parameters(child: Child) -> bool:
    """Is it known to bring weights, which a checkpoint then has?"""
    if isinstance(child.cls, str):
        return child.cls.startswith("torch.nn.") and child.cls.rpartition(".")[2] in WEIGHTED
    return _holds(child.cls, ())


def _holds(info: ClassInfo, above: tuple[ClassInfo, ...]) -> bool:
    if info in above:
        return False
    for _, value in info.self_assignments.values():
        if isinstance(value, ast.Call) and dotted_name(value.func).endswith("nn.Parameter"):
            return True
    return any(
        has_parameters(child) if isinstance(child.cls, str) else _holds(child.cls, (*above, info))
        for child in children(info)
    )
