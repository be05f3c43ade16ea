"""Call an activation module in place of a function: ``self.act_fn = ACT2FN["silu"]``.

vLLM's GLU fuser replaces an activation that is a child module; ``F.silu(gate) * up`` leaves two
projections merged and no fused kernel. A function is mapped only to the entry of ACT2FN that
calls it (transformers 4.26 and newer), so the numbers are the same; no entry has parameters.
An attribute that holds the function (``self.act = F.silu``) becomes the module as well.
"""

from __future__ import annotations

import ast

import libcst as cst
import libcst.matchers as m

from fixers.imports import with_import
from fixers.toolkit import (
    Change,
    Document,
    document,
    find,
    free_name,
    self_attribute,
    simple_assignment,
)
from modelcheck.findings import Finding
from modelcheck.source.classes import ClassInfo, dotted_name

TABLE = "ACT2FN"
NAMES = ("act_fn", "activation_fn", "activation")
# Functions that compute what the module behind an entry of ACT2FN computes.
ENTRIES = {
    "torch.nn.functional.gelu": "gelu",
    "torch.nn.functional.hardswish": "hardswish",
    "torch.nn.functional.leaky_relu": "leaky_relu",
    "torch.nn.functional.mish": "mish",
    "torch.nn.functional.relu": "relu",
    "torch.nn.functional.relu6": "relu6",
    "torch.nn.functional.sigmoid": "sigmoid",
    "torch.nn.functional.silu": "silu",
    "torch.nn.functional.tanh": "tanh",
    "torch.relu": "relu",
    "torch.sigmoid": "sigmoid",
    "torch.tanh": "tanh",
}
GELU = {"none": "gelu", "tanh": "gelu_pytorch_tanh"}
MODULES = {"torch.nn.SiLU": "silu", "torch.nn.ReLU": "relu", "torch.nn.GELU": "gelu"}


def fix(text: str, finding: Finding) -> str:
    """``text`` with the function as a module. Raises `FixRefused`."""
    doc = document(text, finding)
    owner = doc.class_def(finding.class_name)
    info = doc.class_info(finding.class_name)
    if info.kind not in ("module", "pretrained", ""):
        raise doc.refuse(f"{finding.class_name} is no module", owner)
    calls = [
        call
        for call in find(owner, m.Call())
        if isinstance(call, cst.Call) and doc.qualified(call.func) in ENTRIES
    ]
    held = _held(doc, owner)
    chosen = doc.chosen([*calls, *held], finding.span)
    if not chosen:
        raise doc.refuse(f"{finding.class_name} calls no activation function", owner)
    if chosen[0] in held:
        changes = _replace_held(doc, owner, chosen[0])
    else:
        call = chosen[0]
        assert isinstance(call, cst.Call)
        changes = _replace_call(doc, owner, info, call)
    return with_import(doc, changes, "transformers.activations", TABLE)


def _entry(doc: Document, call: cst.Call) -> str:
    """The ACT2FN entry that computes this call. Raises `FixRefused`."""
    name = doc.qualified(call.func)
    if not call.args or call.args[0].star:
        raise doc.refuse("the activation is not called with one argument", call)
    if call.args[0].keyword is not None and call.args[0].keyword.value != "input":
        raise doc.refuse("the activation is not called with one argument", call)
    entry = ENTRIES[name]
    for arg in call.args[1:]:
        keyword = arg.keyword.value if arg.keyword else ""
        if keyword == "inplace" and doc.code(arg.value) == "False":
            continue
        if keyword == "approximate" and entry == "gelu" and isinstance(arg.value, cst.SimpleString):
            entry = GELU.get(str(arg.value.evaluated_value), "")
            if entry:
                continue
        raise doc.refuse(f"{TABLE} has no {name} with {doc.code(arg).rstrip(', ')}", call)
    return entry


def _replace_call(
    doc: Document, owner: cst.ClassDef, info: ClassInfo, call: cst.Call
) -> dict[cst.CSTNode, Change]:
    entry = _entry(doc, call)
    functions = [f for f in find(owner, m.FunctionDef()) if call in find(f, m.Call())]
    first = functions[0].params.params if isinstance(functions[0], cst.FunctionDef) else ()
    if len(functions) != 1 or not first or first[0].name.value != "self":
        raise doc.refuse("the activation is not called in a method", call)
    changes: dict[cst.CSTNode, Change] = {}
    name = _existing(doc, info, entry)
    if name is None:
        name = free_name(NAMES, doc.taken_names(info.name))
        changes = doc.append_to_init(owner, f'self.{name} = {TABLE}["{entry}"]')
    attribute = cst.Attribute(cst.Name("self"), cst.Name(name))

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Call)
        only = node.args[0].with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
        if len(node.args) > 1:
            only = only.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return node.with_changes(func=attribute, args=[only])

    return {**changes, call: change}


def _existing(doc: Document, info: ClassInfo, entry: str) -> str | None:
    """An attribute that ``__init__`` always sets to this very activation."""
    always = [s for c in info.mro if (init := c.methods.get("__init__")) for s in init.body]
    stores = [
        node.attr
        for member in info.mro
        for node in ast.walk(member.node)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    ]
    for name, (statement, value) in info.self_assignments.items():
        same = value is not None and _activation(info, value) == entry
        if same and statement in always and stores.count(name) == 1:
            return name
    return None


def _activation(info: ClassInfo, value: ast.expr) -> str:
    """The entry behind ``ACT2FN["silu"]`` or ``nn.SiLU()``, "" for anything else."""
    if isinstance(value, ast.Subscript) and dotted_name(value.value) == TABLE:
        constant = value.slice
        return str(constant.value) if isinstance(constant, ast.Constant) else ""
    if isinstance(value, ast.Call) and not value.args and not value.keywords:
        return MODULES.get(info.file.qualify(dotted_name(value.func)), "")
    return ""


def _held(doc: Document, owner: cst.ClassDef) -> list[cst.SimpleStatementLine]:
    """Statements ``self.x = F.silu``."""
    found = []
    for statement in find(owner, m.SimpleStatementLine()):
        assigned = simple_assignment(statement)
        if assigned and assigned[0].startswith("self.") and doc.qualified(assigned[1]) in ENTRIES:
            assert isinstance(statement, cst.SimpleStatementLine)
            found.append(statement)
    return found


def _replace_held(
    doc: Document, owner: cst.ClassDef, statement: cst.CSTNode
) -> dict[cst.CSTNode, Change]:
    assigned = simple_assignment(statement)
    assert assigned is not None
    target, value = assigned
    for call in find(owner, m.Call()):
        assert isinstance(call, cst.Call)
        if f"self.{self_attribute(call.func)}" == target and len(call.args) != 1:
            raise doc.refuse(f"{target} is called with more than one argument", call)
    entry = ENTRIES[doc.qualified(value)]
    module = doc.expression(f'{TABLE}["{entry}"]')
    return {value: lambda node: module}
