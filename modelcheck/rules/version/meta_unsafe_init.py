"""A constructor reads values back from a tensor.

What it does
------------
Follows tensors made by torch functions in `__init__`, and in the methods and functions of the
same file that it calls, and reports where one is turned into a Python value: `.item()`,
`.tolist()`, `.numpy()`, `float(...)`, `int(...)`, `bool(...)`, or as a condition. Tensors made
with `device="cpu"`, or inside `with torch.device("cpu")`, are fine.

Why it matters
--------------
vLLM (all releases), and transformers 5's `from_pretrained`, build the model on the meta device,
where tensors have no values: "Tensor.item() cannot be called on meta tensors".

Example
-------
```python
import torch
from torch import nn


class MyStack(nn.Module):
    def __init__(self, config):
        super().__init__()
        rates = [x.item() for x in torch.linspace(0, 0.1, config.num_hidden_layers)]
        self.layers = nn.ModuleList([nn.Dropout(rate) for rate in rates])
```

Use instead
-----------
```python
import torch
from torch import nn


class MyStack(nn.Module):
    def __init__(self, config):
        super().__init__()
        step = 0.1 / max(config.num_hidden_layers - 1, 1)
        rates = [step * i for i in range(config.num_hidden_layers)]
        self.layers = nn.ModuleList([nn.Dropout(rate) for rate in rates])
```

Fix safety
----------
There is no fix: how to compute the numbers in Python is for the author to write.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, nodes_of
from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode, dotted_name
from modelcheck.source.memory import remembered

CODE = "MC901"
FACTORIES = {
    f"torch.{name}"
    for name in (
        "arange", "as_tensor", "empty", "eye", "full", "linspace", "logspace", "ones", "rand",
        "randn", "randint", "randperm", "range", "scalar_tensor", "tensor", "zeros",
    )
}  # fmt: skip
_FACTORY_NAMES = {name.rpartition(".")[2] for name in FACTORIES}
READS = {"item", "tolist", "numpy"}
CASTS = {"float", "int", "bool"}
# Attributes and methods of a tensor that are known without its values.
PLAIN = {"shape", "dtype", "device", "ndim", "size", "dim", "numel", "stride", "is_floating_point"}


def check(context: Context) -> Iterable[Finding]:
    """One finding for each place."""
    reported: set[int] = set()
    for info in context.file.classes.values():
        if not info.is_module or "__init__" not in info.methods:
            continue
        for function in _init_graph(info):
            if not _makes_tensors(info.file, function):
                continue
            for node, what in _Reader(context, function).reads():
                if node.lineno not in reported:
                    reported.add(node.lineno)
                    yield context.finding(
                        CODE,
                        Severity.ERROR,
                        info,
                        node,
                        f"{what} in {function.name} reads a tensor's value: it fails on the meta "
                        "device, where vLLM builds the model",
                        'Compute the numbers in Python, or make the tensor with device="cpu".',
                    )


def _init_graph(info: ClassInfo) -> list[FunctionNode]:
    """``__init__`` and what it calls in this file, each once."""
    found: list[FunctionNode] = []
    pending = [info.methods["__init__"]]
    while pending:
        function = pending.pop()
        if function in found:
            continue
        found.append(function)
        for last, node in body(info.file, function).calls:
            if last not in info.file.functions and last not in info.methods:
                continue
            name = dotted_name(node.func)
            owner, _, method = name.rpartition(".")
            target = info.file.functions.get(name) if not owner else None
            if owner in ("self", "cls", info.name):
                target = info.methods.get(method)
            if target is not None:
                pending.append(target)
    return found


@remembered(maxsize=16)
def _factory_names(file: FileIndex) -> frozenset[str]:
    """The last names that a call of a factory may have in a file."""
    return frozenset((*_FACTORY_NAMES, *(n for n, f in file.imports.items() if f in FACTORIES)))


def _makes_tensors(file: FileIndex, function: FunctionNode) -> bool:
    """Is there a fresh tensor in it, of which a value could be read?"""
    nodes = body(file, function)
    if nodes.called().isdisjoint(_factory_names(file)):
        return False
    return any(file.qualify(dotted_name(call.func)) in FACTORIES for call in nodes.all(ast.Call))


class _Reader:
    """One pass over a function: which names hold fresh tensors, and where one is read."""

    def __init__(self, context: Context, function: FunctionNode) -> None:
        self.context = context
        self.function = function
        self.tensors: set[str] = set()

    def reads(self) -> Iterator[tuple[ast.expr, str]]:
        """Expressions that need a value, and what they are called."""
        yield from self._block(self.function.body)

    def _block(self, body: list[ast.stmt]) -> Iterator[tuple[ast.expr, str]]:
        for statement in body:
            if isinstance(statement, ast.With | ast.AsyncWith) and self._leaves_meta(statement):
                continue
            for value in _own_expressions(statement):
                yield from self._expression(value)
            if isinstance(statement, ast.If | ast.While) and self._fresh(statement.test):
                yield statement.test, "a condition"
            self._note(statement)
            for inner in _inner_blocks(statement):
                yield from self._block(inner)

    def _note(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        elif isinstance(statement, ast.For):
            targets, value = [statement.target], statement.iter
        else:
            return
        fresh = self._fresh(value)
        for target in targets:
            if isinstance(target, ast.Name):
                (self.tensors.add if fresh else self.tensors.discard)(target.id)

    def _expression(self, root: ast.expr) -> Iterator[tuple[ast.expr, str]]:
        for node in nodes_of(root):
            if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
                for generator in node.generators:
                    if self._fresh(generator.iter) and isinstance(generator.target, ast.Name):
                        self.tensors.add(generator.target.id)
        for node in nodes_of(root):
            read = _read_by(node)
            if read is not None and self._fresh(read[0]):
                assert isinstance(node, ast.Call)
                yield node, read[1]

    def _fresh(self, node: ast.expr) -> bool:
        """Is it certainly a tensor made here, on the default device?"""
        if isinstance(node, ast.Name):
            return node.id in self.tensors
        if isinstance(node, ast.Call):
            name = self.context.file.qualify(dotted_name(node.func))
            if name in FACTORIES:
                return all(keyword.arg != "device" for keyword in node.keywords)
            if isinstance(node.func, ast.Attribute):
                method = node.func.attr
                return method not in READS | PLAIN and self._fresh(node.func.value)
            return False
        if isinstance(node, ast.Attribute):
            return node.attr not in PLAIN and self._fresh(node.value)
        if isinstance(node, ast.Subscript):
            return self._fresh(node.value)
        if isinstance(node, ast.BinOp):
            return self._fresh(node.left) or self._fresh(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._fresh(node.operand)
        if isinstance(node, ast.Compare):
            operators = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
            if any(isinstance(op, operators) for op in node.ops):
                return False
            return any(self._fresh(each) for each in (node.left, *node.comparators))
        return False

    def _leaves_meta(self, statement: ast.With | ast.AsyncWith) -> bool:
        return any(
            isinstance(item.context_expr, ast.Call)
            and dotted_name(item.context_expr.func).endswith("device")
            for item in statement.items
        )


def _read_by(node: ast.AST) -> tuple[ast.expr, str] | None:
    """What a call such as ``x.item()`` or ``float(x)`` takes the value of, and its name."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in READS:
        return node.func.value, f".{node.func.attr}()"
    if isinstance(node.func, ast.Name) and node.func.id in CASTS and len(node.args) == 1:
        return node.args[0], f"{node.func.id}()"
    return None


def _own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement that are not in a block below it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child


def _inner_blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for handler in getattr(statement, "handlers", []):
        yield handler.body
