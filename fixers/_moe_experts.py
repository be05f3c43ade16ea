"""Is an expert what vLLM's are: ``down(silu(gate(x)) * up(x))``, by the names vLLM loads?"""

from __future__ import annotations

import ast

from fixers.splice import Splice
from modelcheck.source.callpath import Child
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

NAMES = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))
SILU = frozenset({"silu", "swish"})
SILU_CALLS = ("torch.nn.functional.silu", "torch.nn.SiLU", "torch.nn.functional.SiLU")


def check_expert(splice: Splice, child: Child | None, activation: str) -> None:
    """Raise `FixRefused` unless the expert is such a GLU.

    ``activation`` is what the configuration names where the class does not say it itself.
    """
    info = child.cls if child is not None else None
    if not isinstance(info, ClassInfo) or info.file is not splice.doc.index:
        line = child.call if child is not None else None
        raise splice.refuse("the class of the experts is not in this file", line)
    hit = info.find_method("forward")
    if hit is None or hit[0].file is not info.file:
        raise splice.refuse(f"{info.name} has no forward here", info.node)
    forward = hit[1]
    if len(forward.args.args) != 2:
        raise splice.refuse("an expert takes more than its tokens", forward)
    result = _result(forward)
    if result is None:
        raise splice.refuse("the forward of an expert is not one expression", forward)
    for gate, up, down in NAMES:
        if _is_glu(info, result, forward.args.args[1].arg, (gate, up, down), activation):
            return
    raise splice.refuse(
        "an expert is not down(silu(gate(x)) * up(x)) with gate_proj, up_proj and down_proj "
        "(or w1, w3 and w2), which is what vLLM computes",
        forward,
    )


def _result(forward: FunctionNode) -> ast.expr | None:
    """What a forward returns, its temporaries put in; ``pretraining_tp`` taken as 1."""
    local: dict[str, ast.expr] = {}
    body = list(forward.body)
    while body:
        statement = body.pop(0)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.If) and "pretraining_tp" in ast.unparse(statement.test):
            body = [*statement.orelse, *body]
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            local[statement.targets[0].id] = _put_in(statement.value, local)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            return _put_in(statement.value, local)
        else:
            return None
    return None


def _put_in(value: ast.expr, local: dict[str, ast.expr]) -> ast.expr:
    class Names(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:  # ast's name
            return local.get(node.id, node)

    copied = ast.parse(ast.unparse(value), mode="eval").body
    result = Names().visit(copied)
    assert isinstance(result, ast.expr)
    return result


def _is_glu(
    info: ClassInfo, value: ast.expr, x: str, names: tuple[str, str, str], activation: str
) -> bool:
    gate, up, down = names
    product = _argument(value, down)
    if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
        return False
    for one, other in ((product.left, product.right), (product.right, product.left)):
        if not isinstance(one, ast.Call) or len(one.args) != 1 or one.keywords:
            continue
        if not _is_silu(info, one.func, activation):
            continue
        inputs = [_argument(one.args[0], gate), _argument(other, up)]
        if all(isinstance(i, ast.Name) and i.id == x for i in inputs):
            return True
    return False


def _argument(value: ast.expr, attr: str) -> ast.expr | None:
    """``x`` of ``self.attr(x)``."""
    if not isinstance(value, ast.Call) or len(value.args) != 1 or value.keywords:
        return None
    called = is_self_attribute(value.func, "self") and getattr(value.func, "attr", "") == attr
    return value.args[0] if called else None


def _is_silu(info: ClassInfo, function: ast.expr, activation: str) -> bool:
    if info.file.qualify(dotted_name(function)) in SILU_CALLS:
        return True
    if not is_self_attribute(function, "self"):
        return False
    assigned = info.self_assignments.get(getattr(function, "attr", ""))
    value = assigned[1] if assigned else None
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return value.slice.value in SILU
    if isinstance(value, ast.Subscript):
        return activation in SILU
    called = value.func if isinstance(value, ast.Call) else value
    return called is not None and info.file.qualify(dotted_name(called)) in SILU_CALLS
