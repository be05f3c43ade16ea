"""A packed projection is sharded by columns, and its output cut into halves.

What it does
------------
Looks at the tensor-parallel plan (`base_model_tp_plan` of the configuration class, `_tp_plan`
of a model class) for a projection planned `colwise` whose output a forward cuts in two with
`chunk(2)` or `split` along the last dimension.

Why it matters
--------------
With a tensor-parallel size above 1 every rank holds a run of neighbouring columns. Of a packed
gate and up projection that is a piece of one half, and the cut pairs the wrong columns: vLLM
(all releases) serves wrong numbers without an error. With one rank all is well.

Example
-------
```python
import torch
from torch import nn
from transformers import PreTrainedConfig


class MyConfig(PreTrainedConfig):
    base_model_tp_plan = {
        "layers.*.mlp.in_proj": "colwise",
        "layers.*.mlp.out_proj": "rowwise",
    }


class MyMaxout(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.in_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size)
        self.out_proj = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states):
        first, second = self.in_proj(hidden_states).chunk(2, dim=-1)
        return self.out_proj(torch.maximum(first, second))
```

Use instead
-----------
```python
import torch
from torch import nn
from transformers import PreTrainedConfig


class MyConfig(PreTrainedConfig):
    base_model_tp_plan = {
        "layers.*.mlp.in_proj": "colwise_gather_output",
        "layers.*.mlp.out_proj": "rowwise_split_input",
    }


class MyMaxout(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.in_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size)
        self.out_proj = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states):
        first, second = self.in_proj(hidden_states).chunk(2, dim=-1)
        return self.out_proj(torch.maximum(first, second))
```

Fix safety
----------
Unsafe: the plan keeps its outputs whole (`colwise_gather_output`, and `rowwise_split_input` for
what follows), which is right and slower. Two separate projections would fuse, but need another
checkpoint: that is for the author to choose.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

CODE = "MC801"
STYLE = "colwise"
CUTS = frozenset({"chunk", "split"})
PLANS = ("base_model_tp_plan", "_tp_plan")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each such projection, on its plan entry where that is in this file."""
    halved = dict(_halved_projections(context))
    if not halved:
        return
    seen: set[str] = set()
    for owner, key, entry in _plan_entries(context):
        name = key.rpartition(".")[2]
        if name not in halved or key in seen:
            continue
        seen.add(key)
        module, cut = halved[name]
        here = owner.file is context.file
        yield context.finding(
            CODE,
            Severity.WRONG,
            owner if here else module,
            entry if here else cut,
            f"{name} is planned {STYLE} and {module.name} cuts its output in two: with tensor "
            "parallelism every rank pairs the wrong columns",
            "Plan it colwise_gather_output (and what follows rowwise_split_input), or write two "
            "separate projections.",
            Fix("packed_plan", "plan whole outputs", Safety.UNSAFE, {"module": module.name})
            if here
            else None,
            tp_only=True,
        )


def _plan_entries(context: Context) -> Iterator[tuple[ClassInfo, str, ast.expr]]:
    """``"key": "colwise"`` entries of the plans that apply to this file's models."""
    for owner in _plan_owners(context):
        for plan in PLANS:
            value = owner.attributes.get(plan)
            if not isinstance(value, ast.Dict):
                continue
            for key, style in zip(value.keys, value.values, strict=True):
                if (
                    isinstance(key, ast.Constant)
                    and isinstance(key.value, str)
                    and isinstance(style, ast.Constant)
                    and style.value == STYLE
                ):
                    yield owner, key.value, key


def _plan_owners(context: Context) -> Iterator[ClassInfo]:
    """The file's own classes, and the configuration classes that its models name."""
    for info in context.file.classes.values():
        yield info
        if info.kind != "pretrained":
            continue
        names = [dotted_name(info.attributes.get("config_class", ast.Constant(None)))]
        names += [
            dotted_name(item.annotation)
            for item in info.node.body
            if isinstance(item, ast.AnnAssign)
            and isinstance(item.target, ast.Name)
            and item.target.id == "config"
        ]
        for name in filter(None, names):
            config = context.file.resolve(name)
            if isinstance(config, ClassInfo) and config.file is not context.file:
                yield from config.mro


def _halved_projections(context: Context) -> Iterator[tuple[str, tuple[ClassInfo, ast.expr]]]:
    """Projections whose output a forward of this file cuts in two, and where."""
    for info in context.file.classes.values():
        forward = info.methods.get("forward")
        if forward is None or not info.is_module:
            continue
        if CUTS.isdisjoint(body(info.file, forward).called()):
            continue
        for name, (_, value) in info.self_assignments.items():
            if isinstance(value, ast.Call) and _last(dotted_name(value.func)) == "Linear":
                cut = _cut(forward, name)
                if cut is not None:
                    yield name, (info, cut)


def _cut(forward: FunctionNode, name: str) -> ast.expr | None:
    """The call that cuts ``self.name(...)`` in two, also through a local name."""
    packed: set[str] = set()
    for node in nodes_of(forward):
        if isinstance(node, ast.Assign) and _is_call_of(node.value, name):
            packed |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in nodes_of(forward):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        arguments = list(node.args)
        receiver: ast.expr = node.func.value
        if dotted_name(receiver) == "torch" and arguments:
            receiver = arguments.pop(0)
        is_packed = _is_call_of(receiver, name) or (
            isinstance(receiver, ast.Name) and receiver.id in packed
        )
        if is_packed and _halves(node, node.func.attr, arguments):
            return node
    return None


def _halves(call: ast.Call, method: str, arguments: list[ast.expr]) -> bool:
    keywords = {k.arg: k.value for k in call.keywords}
    pieces = arguments[0] if arguments else None
    dimension = arguments[1] if len(arguments) > 1 else keywords.get("dim")
    if dimension is None or not _is_last(dimension):
        return False
    if method == "chunk":
        return _number(pieces or keywords.get("chunks")) == 2
    sizes = pieces or keywords.get("split_size") or keywords.get("split_size_or_sections")
    return (
        method == "split"
        and isinstance(sizes, ast.List | ast.Tuple)
        and len(sizes.elts) == 2
        and ast.dump(sizes.elts[0]) == ast.dump(sizes.elts[1])
    )


def _is_call_of(node: ast.expr, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and is_self_attribute(node.func)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
    )


def _is_last(node: ast.expr) -> bool:
    return _number(node) in (-1, 2)


def _number(node: ast.expr | None) -> int | None:
    """The value of an integer literal, signed."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def _last(name: str) -> str:
    return name.rpartition(".")[2]
