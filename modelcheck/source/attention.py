"""Which classes are attention, and how each one dispatches.

vLLM's Attention fuser (0.30 and later) reads the source of an attention's ``forward``: one local
that is assigned from the bare global ``ALL_ATTENTION_FUNCTIONS``, and exactly one call of it.
Anything else, however it behaves under transformers, counts as "does not dispatch".
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

from modelcheck.source.bodies import (
    Body,
    body,
    callee_name,
    nodes_of,
    reached_methods,
    self_name,
)
from modelcheck.source.callpath import children
from modelcheck.source.classes import (
    ClassInfo,
    FileIndex,
    FunctionNode,
    Signature,
    dotted_name,
    is_self_attribute,
)
from modelcheck.source.memory import remembered

INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_CACHE_PARAMETERS = frozenset(
    ("past_key_values", "past_key_value", "layer_past", "past", "kv_cache", "use_cache")
)
_CROSS_PARAMETERS = ("key_value_states", "encoder_hidden_states", "cross_attention_states")
_KERNELS = re.compile(
    r"_?flash_attn\w*|_?flash_attention\w*|scaled_dot_product_attention"
    r"|memory_efficient_attention|flex_attention\w*"
)
_PRODUCTS = frozenset(("matmul", "bmm", "baddbmm", "einsum"))
_TELLING = _PRODUCTS | {"topk", "softmax", "Softmax"}
_MULTIHEAD = "MultiheadAttention"


class Dispatch(enum.Enum):
    """How a forward reaches the attention interface."""

    INTERFACE = enum.auto()  # vLLM sees it
    UNRECOGNISED = enum.auto()  # the interface is named, in a form that vLLM does not see
    INLINE = enum.auto()  # attention is computed in place


@dataclass(frozen=True, eq=False)
class Attention:
    """An attention class. ``owner`` defines the ``function`` that the facts come from.

    ``lookups`` are the interface lookups, ``call`` the one interface call of a dispatching
    forward, ``form`` says in words what an unrecognised one does, ``core`` is the node that
    computes attention in place, ``local`` the name the interface is bound to.
    """

    info: ClassInfo
    owner: ClassInfo
    function: FunctionNode
    dispatch: Dispatch
    lookups: tuple[ast.expr, ...] = ()
    call: ast.Call | None = None
    local: str = ""
    form: str = ""
    core: ast.AST | None = None

    @property
    def here(self) -> bool:
        """Is the forward written in this very class?"""
        return self.owner is self.info

    @property
    def is_cross(self) -> bool:
        """Is it cross-attention only: keys always come from another sequence?"""
        if "crossattention" in self.info.name.lower().replace("_", ""):
            return True
        required = Signature.of(self.function).required
        return any(name in required for name in _CROSS_PARAMETERS)

    @property
    def has_cache(self) -> bool:
        """Does the forward take a KV cache, as a decoder's does?"""
        signature = Signature.of(self.function)
        return any(signature.names(name) for name in _CACHE_PARAMETERS)


@remembered(maxsize=16)
def attention_classes(file: FileIndex) -> tuple[Attention, ...]:
    """Every attention class that this file defines."""
    found = (attention_of(info) for info in file.classes.values())
    return tuple(a for a in found if a is not None)


@remembered(maxsize=512)
def attention_of(info: ClassInfo) -> Attention | None:
    """The attention facts of a class, None when it is no attention."""
    hit = info.find_method("forward")
    if hit is None or not (info.is_module or info.external_bases):
        return None
    owner, function = hit
    seen = _interface_use(info, owner, function)
    if seen is not None:
        return seen
    core = _inline_core(info)
    if core is None:
        return None
    return Attention(info, owner, function, Dispatch.INLINE, core=core)


def is_interface_lookup(node: ast.expr | None) -> bool:
    """``ALL_ATTENTION_FUNCTIONS.get_interface(…)``, ``[…]`` or any attribute of it."""
    if isinstance(node, ast.Call):
        node = node.func
    return (
        isinstance(node, ast.Attribute | ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == INTERFACE
    )


def eager_function(attention: Attention) -> str:
    """The module-level eager attention that belongs to a forward, "" when there is none."""
    file = attention.owner.file
    for assignment in body(attention.owner.file, attention.function).all(ast.Assign):
        names = [t.id for t in assignment.targets if isinstance(t, ast.Name)]
        if attention.local in names and isinstance(assignment.value, ast.Name):
            return assignment.value.id
    for name in (*file.functions, *file.imports):
        if "eager" in name and "attention" in name:
            return name
    return ""


@remembered(maxsize=16)
def _interface_names(file: FileIndex) -> frozenset[str]:
    """The names that stand for the interface in a file: itself, import aliases, module aliases."""
    names = {INTERFACE}
    names.update(k for k, v in file.imports.items() if v.endswith(f".{INTERFACE}"))
    for name, value in file.assignments.items():
        if dotted_name(value).rpartition(".")[2] == INTERFACE:
            names.add(name)
    return frozenset(names)


@remembered(maxsize=64)
def _naming(file: FileIndex) -> tuple[frozenset[ast.AST], bool]:
    """The definitions in which one of the interface's names stands, and whether one is a function.

    None where the file does not have the name itself.
    """
    if INTERFACE not in file.source.text:
        return frozenset(), False
    names = _interface_names(file)
    functions = [f for f in file.functions.values() if _says(file, f, names)]
    classes = [c.node for c in file.classes.values() if _says(file, c.node, names)]
    return frozenset((*functions, *classes)), bool(functions)


def _says(file: FileIndex, node: ast.ClassDef | FunctionNode, words: Iterable[str]) -> bool:
    text = file.source.lines_of(node)
    return any(word in text for word in words)


def _may_name_interface(info: ClassInfo, owner: ClassInfo) -> bool:
    """Is the interface named in the class or an ancestor, or in a function beside its forward?"""
    return _naming(owner.file)[1] or any(c.node in _naming(c.file)[0] for c in info.mro)


def _interface_use(info: ClassInfo, owner: ClassInfo, function: FunctionNode) -> Attention | None:
    """What the forward does with the interface; None when it is not named on its way."""
    if not _may_name_interface(info, owner):
        return None
    nodes = body(owner.file, function)
    names: set[str] = set()
    lookups: list[ast.expr] = []
    assignments: list[ast.Assign | ast.AnnAssign] = [
        *nodes.all(ast.Assign),
        *nodes.all(ast.AnnAssign),
    ]
    for statement in assignments:
        if statement.value is not None and is_interface_lookup(statement.value):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            local = [t.id for t in targets if isinstance(t, ast.Name)]
            names.update(local)
            if local:
                lookups.append(statement.value)
    calls = [c for c in nodes.all(ast.Call) if isinstance(c.func, ast.Name) and c.func.id in names]
    if len(calls) == 1:
        local_name = getattr(calls[0].func, "id", "")
        return Attention(
            info, owner, function, Dispatch.INTERFACE, tuple(lookups), calls[0], local_name
        )
    form, where = _unrecognised_form(info, owner, function, nodes, names, calls)
    if not form:
        return None
    return Attention(
        info, owner, function, Dispatch.UNRECOGNISED, tuple(lookups), form=form, core=where
    )


def _unrecognised_form(
    info: ClassInfo,
    owner: ClassInfo,
    function: FunctionNode,
    nodes: Body,
    names: set[str],
    calls: list[ast.Call],
) -> tuple[str, ast.AST | None]:
    if len(calls) > 1:
        return f"calls the interface {len(calls)} times, and only one call is allowed", calls[1]
    aliases = _interface_names(owner.file)
    uses = [n for n in nodes.all(ast.Name) if n.id in aliases]
    qualified = nodes.reads_of({INTERFACE})
    if names and not calls:
        other = next((n for n in nodes.all(ast.Name) if n.id in names), None)
        return "binds the interface to a local that it never calls", other
    if qualified:
        return "reads the interface through its module instead of the bare name", qualified[0]
    if uses and uses[0].id != INTERFACE:
        return f"reads the interface under the alias {uses[0].id}", uses[0]
    if uses:
        return _bare_form(nodes, uses[0]), uses[0]
    return _remote_form(info, owner, function, nodes, aliases)


def _bare_form(nodes: Body, use: ast.Name) -> str:
    """What surrounds the interface's name when it is not a plain assignment."""

    def holds(node: ast.AST | None) -> bool:
        return node is not None and any(child is use for child in nodes_of(node))

    if any(holds(n.value) for n in nodes.all(ast.NamedExpr)):
        return "binds the interface with := instead of an assignment"
    for assignment in nodes.all(ast.Assign):
        if not holds(assignment.value):
            continue
        if any(isinstance(t, ast.Attribute) for t in assignment.targets):
            return "stores the interface on self instead of in a local"
        if isinstance(assignment.value, ast.IfExp):
            return "chooses the interface in a conditional expression"
        if is_interface_lookup(assignment.value):
            return "does not bind the interface to a single local"
        if not isinstance(assignment.value, ast.Call):
            return "wraps the interface lookup in another expression"
    if any(holds(c.func) and is_interface_lookup(c.func) for c in nodes.all(ast.Call)):
        return "calls the interface lookup directly, without a local"
    return "uses the interface in another way than a plain assignment to a local"


def _remote_form(
    info: ClassInfo, owner: ClassInfo, function: FunctionNode, nodes: Body, names: frozenset[str]
) -> tuple[str, ast.AST | None]:
    """The lookup is not in this forward: in a helper, in a function, or in the parent."""
    for other_owner, method in reached_methods(info)[1:]:
        if body(other_owner.file, method).mentions(names):
            return f"leaves the interface lookup to the method {method.name}", _call_of(
                nodes, method.name
            )
    for call in nodes.all(ast.Call):
        helper = owner.file.functions.get(getattr(call.func, "id", ""))
        if helper is not None and body(owner.file, helper).mentions(names):
            return f"leaves the interface lookup to the function {helper.name}", call
    if PurePath(owner.file.path).name.startswith("modular_"):
        return "", None  # the generator writes the parent's body in the place of super()
    for call in nodes.all(ast.Call):
        func = call.func
        if (
            isinstance(func, ast.Attribute)
            and func.attr == "forward"
            and isinstance(func.value, ast.Call)
            and callee_name(func.value) == "super"
        ):
            parent = _next_forward(info, owner)
            if parent is not None and body(parent[0].file, parent[1]).mentions(names):
                return "leaves the interface call to super().forward", call
    return "", None


def _call_of(nodes: Body, name: str) -> ast.AST | None:
    return next((c for c in nodes.all(ast.Call) if callee_name(c) == name), None)


def _next_forward(info: ClassInfo, owner: ClassInfo) -> tuple[ClassInfo, FunctionNode] | None:
    after = info.mro[info.mro.index(owner) + 1 :]
    return next(((c, c.methods["forward"]) for c in after if "forward" in c.methods), None)


def _inline_core(info: ClassInfo) -> ast.AST | None:
    """The node that computes attention: a kernel call, or the softmax between two products."""
    softmax: ast.AST | None = None
    products = 0
    multihead: set[str] = set()
    if any(_names_multihead(c.file) for c in info.mro):
        multihead = {c.attr for c in children(info) if c.type_name == f"torch.nn.{_MULTIHEAD}"}
    kept = _kept(info)
    kernels = {
        n for n, v in kept.items() if _is_kernel(v.attr if isinstance(v, ast.Attribute) else v.id)
    }
    for nodes, first in _reached_bodies(info):
        for name, call in nodes.calls if kernels else ():
            if name in kernels and is_self_attribute(call.func, first):
                return call
        told = nodes.called() & _TELLING or any(map(_is_kernel, nodes.called()))
        for value in _bound(nodes):
            name = dotted_name(value).rpartition(".")[2]
            if _is_kernel(name) or (name in kernels and is_self_attribute(value, first)):
                return value
        for name, call in nodes.calls if told or multihead else ():
            if name == "topk":  # routing, not attention
                return None
            if _is_kernel(name):
                return call
            if is_self_attribute(call.func, first) and name in multihead:
                return call
            if name in ("softmax", "Softmax") and softmax is None:
                softmax = call
            products += name in _PRODUCTS
        products += nodes.operators.count(ast.MatMult)
    return softmax if products >= 2 else None


@remembered(maxsize=64)
def _names_multihead(file: FileIndex) -> bool:
    return _MULTIHEAD in file.source.text


@lru_cache(maxsize=512)
def _is_kernel(name: str) -> bool:
    return _KERNELS.fullmatch(name) is not None


def _reached_bodies(info: ClassInfo) -> Iterator[tuple[Body, str]]:
    """Forward, the methods it runs, and the functions of the file that those run."""
    seen: set[ast.AST] = set()
    methods = list(reached_methods(info))
    kept = {n: v.id for n, v in _kept(info).items() if isinstance(v, ast.Name)}
    for owner, method in methods:
        first = self_name(method)
        nodes = body(owner.file, method)
        yield nodes, first
        functions = owner.file.functions
        bound = list(_bound(nodes))
        for value in bound:
            if isinstance(value, ast.Attribute) and is_self_attribute(value, first):
                hit = info.find_method(value.attr)
                if hit is not None and hit not in methods:
                    methods.append(hit)  # under a local name
        if not kept and nodes.names.isdisjoint(functions):
            continue
        for value in (*(call.func for call in nodes.all(ast.Call)), *bound):
            name = getattr(value, "id", "")
            if isinstance(value, ast.Attribute) and is_self_attribute(value, first):
                name = kept.get(value.attr, "")
            helper = functions.get(name)
            if helper is not None and helper not in seen:
                seen.add(helper)
                yield body(owner.file, helper), ""


@remembered(maxsize=512)
def _kept(info: ClassInfo) -> dict[str, ast.Name | ast.Attribute]:
    """The names that a constructor assigns to attributes; ``partial(f, ...)`` stands for ``f``."""
    found: dict[str, ast.Name | ast.Attribute] = {}
    for name, (_, value) in info.self_assignments.items():
        if isinstance(value, ast.Call) and callee_name(value) == "partial" and value.args:
            value = value.args[0]
        if isinstance(value, ast.Name | ast.Attribute):
            found[name] = value
    return found


def _bound(nodes: Body) -> Iterator[ast.expr]:
    """What is assigned, each side of a choice."""
    for assignment in nodes.all(ast.Assign):
        value = assignment.value
        yield from (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
