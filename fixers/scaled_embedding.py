"""Scale the embeddings where they are looked up: in the forward of an ``nn.Embedding`` subclass.

vLLM may look the tokens up itself and pass ``inputs_embeds``; a factor that the model applies only
beside its own lookup is then lost. The weight and its name stay.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fixers import FixRefused
from fixers.splice import Splice
from fixers.toolkit import document, free_name
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

PURE = ("math.sqrt", "float", "int", "math.pow")
CLASS = '''
class {name}({nn}.Embedding):
    """Token embeddings times a constant."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, scale=1.0):
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        self.scale = scale

    def forward(self, input_ids):
        return super().forward(input_ids) {operator} self.scale
'''


@dataclass(frozen=True)
class _Scaled:
    """The statement that scales, the factor, and the lookup's attribute.

    ``whole`` is the product that becomes ``kept``; without one the statement goes.
    """

    statement: ast.stmt
    factor: ast.expr
    operator: str
    attr: str
    whole: ast.expr | None = None
    kept: ast.expr | None = None


def fix(text: str, finding: Finding) -> str:
    """``text`` with the factor in the embedding. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    info = splice.doc.class_info(finding.class_name)
    forward, init = info.methods.get("forward"), info.methods.get("__init__")
    if forward is None or init is None:
        raise FixRefused(f"{info.name} has no forward and __init__ of its own", finding.span.line)
    scaled = _scaled(splice, info, forward, finding)
    made = info.self_assignments.get(scaled.attr)
    value = made[1] if made else None
    if not isinstance(value, ast.Call) or made is None:
        raise splice.refuse(f"{scaled.attr} is not made in __init__", info.node)
    if info.file.qualify(dotted_name(value.func)) != "torch.nn.Embedding":
        raise splice.refuse(f"{scaled.attr} is no nn.Embedding", value)
    names = ["num_embeddings", "embedding_dim", "padding_idx"]
    if len(value.args) > len(names) or any(k.arg not in names for k in value.keywords):
        raise splice.refuse(f"{scaled.attr} is made with other arguments", value)
    _one_lookup(splice, info, scaled)
    factor = _in_init(splice, info, init, scaled.factor, made[0])
    stem = info.name.removesuffix("Model") or info.name
    file = info.file
    taken = {*file.classes, *file.functions, *file.imports, *file.assignments}
    name = free_name([f"{stem}ScaledEmbedding", f"{info.name}ScaledEmbedding"], taken)
    nn = dotted_name(value.func).rpartition(".")[0]
    operator = scaled.operator
    splice.above(info.node, CLASS.format(name=name, nn=nn, operator=operator))
    splice.replace(value.func, name)
    end = splice.span(value)[1] - 1
    comma = "" if splice.doc.text[:end].rstrip().endswith(",") else ", "
    splice.insert(end, f"{comma}scale={factor}")
    if scaled.whole is not None and scaled.kept is not None:
        splice.replace(scaled.whole, splice.code(scaled.kept))
    else:
        splice.remove(scaled.statement)
    return splice.text()


def _scaled(splice: Splice, info: ClassInfo, forward: FunctionNode, finding: Finding) -> _Scaled:
    for node in nodes_of(forward):
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        if node.lineno != finding.span.line:
            continue
        if isinstance(node, ast.AugAssign):
            return _Scaled(node, node.value, _operator(node.op), _lookup(splice, node))
        value = node.value
        if not isinstance(value, ast.BinOp):
            break
        operator = _operator(value.op)
        for part, factor in ((value.left, value.right), (value.right, value.left)):
            if isinstance(part, ast.Call) and is_self_attribute(part.func, "self"):
                attr = getattr(part.func, "attr", "")
                if operator == "/" and part is value.right:
                    break
                return _Scaled(node, factor, operator, attr, value, part)
        target = node.targets[0]
        if isinstance(value.left, ast.Name) and dotted_name(target) == value.left.id:
            return _Scaled(node, value.right, operator, _lookup(splice, node))
    raise FixRefused("the statement is no product of a lookup and a factor", finding.span.line)


def _operator(op: ast.operator) -> str:
    return "/" if isinstance(op, ast.Div) else "*"


def _lookup(splice: Splice, statement: ast.stmt) -> str:
    """``inputs_embeds = self.attr(…)`` just above. Raises `FixRefused`."""
    block = splice.block_of(statement)
    index = block.index(statement)
    before = block[index - 1] if index else None
    called = before.value if isinstance(before, ast.Assign) else None
    if isinstance(called, ast.Call) and is_self_attribute(called.func, "self"):
        return str(getattr(called.func, "attr", ""))
    raise splice.refuse("the lookup is not in the statement above", statement)


def _one_lookup(splice: Splice, info: ClassInfo, scaled: _Scaled) -> None:
    calls = [
        n
        for n in nodes_of(splice.tree)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == scaled.attr
    ]
    if len(calls) != 1:
        raise splice.refuse(f"{scaled.attr} is called more than once", calls[-1])


def _in_init(
    splice: Splice, info: ClassInfo, init: FunctionNode, factor: ast.expr, made: ast.stmt
) -> str:
    """The factor as ``__init__`` can write it where the embedding is made."""
    for call in (n for n in nodes_of(factor) if isinstance(n, ast.Call)):
        if dotted_name(call.func) not in PURE:
            raise splice.refuse("the factor is not a number of the configuration", factor)
    parameters = {a.arg for a in init.args.args}
    code = splice.code(factor)
    for node in nodes_of(factor):
        if isinstance(node, ast.Name) and node.id not in {"self", "math", "float", "int"}:
            raise splice.refuse(f"the factor reads {node.id}", factor)
        if not is_self_attribute(node, "self"):
            continue
        assert isinstance(node, ast.Attribute)
        if node.attr == "config":
            if "config" not in parameters:
                raise splice.refuse("__init__ has no config", factor)
            code = code.replace("self.config.", "config.")
            continue
        found = info.self_assignments.get(node.attr)
        if found is None or found[0].lineno >= made.lineno or found[0] not in init.body:
            raise splice.refuse(f"self.{node.attr} is not there when the table is made", factor)
    return code
