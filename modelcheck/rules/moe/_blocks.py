"""What a mixture-of-experts block holds and how it uses its experts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from modelcheck.source.attention import attention_of
from modelcheck.source.bodies import body, callee_name, reached_methods, self_name
from modelcheck.source.callpath import Child, Hop, children, hops
from modelcheck.source.classes import ClassInfo, FileIndex, is_self_attribute
from modelcheck.source.memory import remembered

EXPERTS = "experts"  # the one name that vLLM replaces
EXPERT_DIMENSIONS = 3  # packed: [experts, rows, columns]


@dataclass(frozen=True, eq=False)
class Experts:
    """The experts of a block. ``attr`` is "" for parameters of the block itself.

    ``is_list`` is true for an ``nn.ModuleList``. ``flat`` names a parameter (or child) that is
    not three-dimensional, "" when every one is or it cannot be told.
    """

    attr: str
    is_list: bool
    flat: str
    child: Child | None

    @property
    def replaceable(self) -> bool:
        """Does vLLM put its own runner in its place?"""
        return self.attr == EXPERTS and (self.is_list or not self.flat)


@dataclass(frozen=True, eq=False)
class MoEBlock:
    """A module that routes tokens (top-k) to experts."""

    info: ClassInfo
    experts: Experts
    calls: tuple[Hop, ...]  # self.<experts>(…)
    accesses: tuple[ast.AST, ...]  # self.<experts>[i], for … in self.<experts>, len(…)
    topk: ast.Call | None  # in the block itself; None when a child module routes
    gate: str  # the nn.Linear that scores the experts, "" when there is none


@remembered(maxsize=64)
def moe_blocks(file: FileIndex) -> tuple[MoEBlock, ...]:
    """The blocks that a file defines; recognised by routing and experts, not by name."""
    if "topk" not in file.source.text:
        return ()
    found = (_block(info) for info in file.classes.values() if info.kind == "module")
    return tuple(b for b in found if b is not None)


def _block(info: ClassInfo) -> MoEBlock | None:
    hit = info.find_method("forward")
    if hit is None or hit[0].file is not info.file or attention_of(info) is not None:
        return None
    own = _topk(info)
    if own is None and not any(
        isinstance(c.cls, ClassInfo) and not c.many and _topk(c.cls) is not None
        for c in children(info)
    ):
        return None
    experts = _experts(info)
    if experts is None:
        return None
    calls = tuple(h for h in hops(info) if h.attr == experts.attr and _is_direct(h))
    accesses = tuple(_accesses(info, experts.attr)) if experts.attr else ()
    return MoEBlock(info, experts, calls, accesses, own, _gate(info))


def _topk(info: ClassInfo) -> ast.Call | None:
    for owner, method in reached_methods(info):
        for call in body(owner.file, method).all(ast.Call):
            if callee_name(call) == "topk":
                return call
    return None


def _gate(info: ClassInfo) -> str:
    """The first ``nn.Linear`` that forward calls before it routes."""
    linear = {c.attr for c in children(info) if c.type_name == "torch.nn.Linear"}
    return next((h.attr for h in hops(info) if h.attr in linear), "")


def _experts(info: ClassInfo) -> Experts | None:
    """The child (or the block's own parameters) that holds the experts."""
    found: list[Experts] = []
    used = {h.attr for h in hops(info)}
    for child in children(info):
        if not isinstance(child.cls, ClassInfo) or attention_of(child.cls) is not None:
            continue
        if child.many:
            if child.attr in used or any(_accesses(info, child.attr)):
                found.append(Experts(child.attr, True, "", child))
        elif _is_list(child.cls):
            found.append(Experts(child.attr, True, "", child))
        elif child.attr in used and (
            child.attr == EXPERTS or EXPERT_DIMENSIONS in dict(_parameters(child.cls)).values()
        ):
            found.append(Experts(child.attr, False, _flat(child.cls), child))
    if not found:
        packed = [name for name, size in _parameters(info) if size == EXPERT_DIMENSIONS]
        return Experts("", False, packed[0], None) if packed else None
    return next((e for e in found if e.attr == EXPERTS), found[0])


def _is_list(info: ClassInfo) -> bool:
    return "torch.nn.ModuleList" in info.external_bases


def _flat(info: ClassInfo) -> str:
    """A parameter that keeps packed experts from being replaced, "" when none is seen."""
    for name, size in _parameters(info):
        if size not in (EXPERT_DIMENSIONS, 0):
            return name
    for child in children(info):
        if child.type_name in ("torch.nn.Linear", "torch.nn.LayerNorm", "torch.nn.Embedding"):
            return child.attr
        if isinstance(child.cls, ClassInfo) and (inner := _flat(child.cls)):
            return f"{child.attr}.{inner}"
    return ""


def _parameters(info: ClassInfo) -> Iterator[tuple[str, int]]:
    """The parameters a class assigns and how many dimensions each has, 0 for unknown."""
    for name, (_, value) in info.self_assignments.items():
        if isinstance(value, ast.Call) and callee_name(value) == "Parameter" and value.args:
            yield name, _dimensions(value.args[0])


def _dimensions(value: ast.expr) -> int:
    """The number of sizes in ``torch.empty(a, b, c)`` or ``torch.empty((a, b, c))``."""
    if not isinstance(value, ast.Call) or callee_name(value) not in (
        "empty",
        "zeros",
        "ones",
        "rand",
        "randn",
    ):
        return 0
    sizes: list[ast.expr] = list(value.args)
    if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple | ast.List):
        sizes = list(sizes[0].elts)
    elif len(sizes) == 1 and not isinstance(sizes[0], ast.Constant):
        return 0  # one name: it may hold a shape
    return 0 if any(isinstance(s, ast.Starred) for s in sizes) else len(sizes)


def _is_direct(hop: Hop) -> bool:
    return is_self_attribute(hop.call.func, self_name(hop.function))


def _accesses(info: ClassInfo, attr: str) -> Iterator[ast.AST]:
    """Where the block indexes or walks a child instead of calling it."""
    for owner, method in reached_methods(info):
        first = self_name(method)
        nodes = body(owner.file, method)

        def names(node: ast.AST, first: str = first) -> bool:
            return is_self_attribute(node, first) and getattr(node, "attr", "") == attr

        for subscript in nodes.all(ast.Subscript):
            if names(subscript.value):
                yield subscript
        loops = [f.iter for f in nodes.all(ast.For)] + [
            c.iter for c in nodes.all(ast.comprehension)
        ]
        for iterable in loops:
            if names(iterable):
                yield iterable
        for call in nodes.all(ast.Call):
            if getattr(call.func, "id", "") in ("enumerate", "len", "zip", "iter", "list"):
                yield from (a for a in call.args if names(a))
