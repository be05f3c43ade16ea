"""Who builds whom and who calls whom: base model, layer, attention.

All of it is read from ``__init__`` and ``forward`` of the classes in the index. What cannot be
followed (a module built from a config value, a layer behind a checkpoint wrapper) is left out,
never guessed.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modelcheck.source.bodies import (
    Body,
    body,
    callee_name,
    reached_methods,
    self_name,
)
from modelcheck.source.classes import (
    ClassInfo,
    FileIndex,
    FunctionNode,
    Signature,
    dotted_name,
    is_self_attribute,
)
from modelcheck.source.memory import remembered
from modelcheck.source.tree import walk

# Words for what is not text, as they appear in class and parameter names.
_OTHER_MODALITY = re.compile(
    r"vision|visual|image|pixel|video|audio|speech|spectrogram|input_features|input_values"
    r"|grid_thw|cu_seqlens|(?-i:Asr)",
    re.IGNORECASE,
)

_LISTS = (ast.ListComp, ast.GeneratorExp, ast.List)

# What joins a tower to the text model; some take token ids besides.
_BRIDGE = re.compile(r"q_?former|resampler|perceiver|compressor|connector|projector", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Child:
    """A submodule that ``__init__`` builds.

    ``cls`` is the class, or the full dotted name of one that no scanned file defines. ``many``
    is true for the elements of a list. ``table`` names the dict the class is looked up in.
    """

    attr: str
    cls: ClassInfo | str
    many: bool
    call: ast.Call
    builder: ClassInfo
    table: str = ""

    @property
    def type_name(self) -> str:
        """The class's full dotted name, its plain name when a scanned file defines it."""
        return self.cls.name if isinstance(self.cls, ClassInfo) else self.cls


@dataclass(frozen=True, eq=False)
class Hop:
    """A call of a submodule in ``forward``, or in a method that forward calls."""

    caller: ClassInfo
    owner: ClassInfo  # the class that defines the function
    function: FunctionNode
    call: ast.Call
    attr: str


@remembered(maxsize=512)
def children(info: ClassInfo) -> tuple[Child, ...]:
    """The submodules built in ``__init__`` of a class and its known ancestors."""
    return tuple(_children(info))


@remembered(maxsize=512)
def hops(info: ClassInfo) -> tuple[Hop, ...]:
    """The calls of submodules, directly or in a loop over a list of them."""
    return tuple(_hops(info))


@remembered(maxsize=512)
def is_other_modality(info: ClassInfo) -> bool:
    """Does it work on images, sound or video: a tower whose attention vLLM leaves alone?

    A model class that takes no ``input_ids`` is one, and so is a module whose own name or
    forward parameters say it, and what joins a tower to the text model.
    """
    hit = info.find_method("forward")
    if _BRIDGE.search(info.name):
        return True
    if hit is None:
        return info.kind == "pretrained" or bool(_OTHER_MODALITY.search(info.name))
    signature = Signature.of(hit[1])
    if signature.names("input_ids"):
        return False
    if info.kind == "pretrained":
        return True
    words = " ".join([info.name, *signature.positional, *signature.keyword_only])
    return bool(_OTHER_MODALITY.search(words))


@remembered(maxsize=512)
def takes_input_ids(info: ClassInfo) -> bool:
    """Is it a text model, or a part that takes token ids?"""
    hit = info.find_method("forward")
    if hit is None or not info.is_module or _BRIDGE.search(info.name):
        return False
    return Signature.of(hit[1]).names("input_ids")


@remembered(maxsize=512)
def is_head_model(info: ClassInfo) -> bool:
    """Does it hold the base model (under ``base_model_prefix``), as ``…ForCausalLM`` does?

    vLLM builds the base model only. Where the prefix is not used, transformers' way of naming
    head models decides.
    """
    if re.search(r"For[A-Z]", info.name):
        return True
    hit = info.find_attribute("base_model_prefix")
    prefix = hit[1].value if hit and isinstance(hit[1], ast.Constant) else None
    return any(
        c.attr == prefix and isinstance(c.cls, ClassInfo) and c.cls.kind == "pretrained"
        for c in children(info)
    )


@remembered(maxsize=16)
def text_models(file: FileIndex) -> tuple[ClassInfo, ...]:
    """The classes of a file whose forward takes ``input_ids`` and that hold other modules."""
    return tuple(c for c in file.classes.values() if takes_input_ids(c) and children(c))


def _children(info: ClassInfo) -> Iterator[Child]:
    found: dict[str, list[Child]] = {}
    for ancestor in reversed(info.mro):
        if "__init__" in ancestor.methods:
            found.update(_Builder(ancestor).built)
    for group in found.values():
        yield from group


class _Builder:
    """Reads the submodules that one class's own ``__init__`` assigns."""

    def __init__(self, info: ClassInfo) -> None:
        self.info = info
        self.built: dict[str, list[Child]] = defaultdict(list)
        self._lists: dict[str, list[Child]] = defaultdict(list)  # local lists of modules
        self._classes: dict[str, list[tuple[ClassInfo | str, str]]] = {}  # local class names
        self._made_by: dict[str, list[ast.expr]] = {}  # what local functions return
        for name, function in info.methods.items():
            if name == "__init__" or self._is_helper(name):
                self._read(function)

    def _is_helper(self, name: str) -> bool:
        init = self.info.methods["__init__"]
        return name != "forward" and any(
            is_self_attribute(c.func, self_name(init)) and callee_name(c) == name
            for c in body(self.info.file, init).all(ast.Call)
        )

    def _read(self, function: FunctionNode) -> None:
        first = self_name(function)
        nodes = body(self.info.file, function)
        for inner in nodes.some(ast.FunctionDef):
            returned = body(self.info.file, inner).all(ast.Return)
            self._made_by[inner.name] = [r.value for r in returned if r.value is not None]
        statements: list[ast.stmt] = [
            *nodes.all(ast.Assign),
            *nodes.all(ast.AnnAssign),
            *nodes.all(ast.Expr),
        ]
        for statement in sorted(statements, key=lambda s: s.lineno):
            if isinstance(statement, ast.Expr):
                self._note_call(statement.value, first)
            elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                targets = (
                    statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                )
                for target in targets:
                    self._note_assignment(target, statement.value, first)

    def _note_assignment(self, target: ast.expr, value: ast.expr, first: str) -> None:
        if is_self_attribute(target, first):
            assert isinstance(target, ast.Attribute)
            self.built[target.attr].extend(self._constructions(target.attr, value))
        elif isinstance(target, ast.Name):
            classes = list(self._class_references(value))
            if classes:
                self._classes[target.id] = classes
            self._lists[target.id].extend(self._constructions("", value))

    def _note_call(self, node: ast.expr, first: str) -> None:
        """``self.layers.append(Layer())``, ``layers.append(…)``, ``self.add_module("x", …)``."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return
        owner = node.func.value
        if node.func.attr in ("append", "extend", "insert") and node.args:
            if is_self_attribute(owner, first):
                assert isinstance(owner, ast.Attribute)
                new = self._constructions(owner.attr, node.args[-1], many=True)
                self.built[owner.attr].extend(new)
            elif isinstance(owner, ast.Name):
                self._lists[owner.id].extend(self._constructions("", node.args[-1], many=True))
        elif node.func.attr in ("add_module", "register_module") and len(node.args) == 2:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.built[name.value].extend(self._constructions(name.value, node.args[1]))

    def _constructions(self, attr: str, value: ast.expr, many: bool = False) -> list[Child]:
        found: list[Child] = []
        if isinstance(value, ast.Constant):
            return found
        if isinstance(value, ast.Attribute) and dotted_name(value):
            return found  # config.hidden_size
        nodes = walk(value)
        calls = [n for n in nodes if isinstance(n, ast.Call)]
        many = many or any(isinstance(n, _LISTS) for n in nodes)
        many = many or any(callee_name(c) == "ModuleList" for c in calls)
        for call in calls:
            if callee_name(call) == "ModuleList":
                for name in call.args:
                    if isinstance(name, ast.Name):
                        for child in self._lists.get(name.id, ()):
                            found.append(
                                self._child(attr, child.cls, True, child.call, child.table)
                            )
                continue
            for cls, table in self._called_classes(call):
                found.append(self._child(attr, cls, many, call, table))
            maker = call.func.id if isinstance(call.func, ast.Name) else ""
            returned = self._made_by.pop(maker, None)  # taken away, so that none calls itself
            if returned is not None:
                for value in returned:
                    found += self._constructions(attr, value, many)
                self._made_by[maker] = returned
        if isinstance(value, ast.Name):
            for child in self._lists.get(value.id, ()):
                found.append(self._child(attr, child.cls, child.many, child.call, child.table))
        return found

    def _called_classes(self, call: ast.Call) -> Iterator[tuple[ClassInfo | str, str]]:
        """The classes that a call constructs; ``build(Layer, config)`` is given one to call."""
        found = list(self._class_references(call.func))
        known = any(isinstance(cls, ClassInfo) for cls, _ in found)
        by_name = isinstance(call.func, ast.Name) and not hasattr(builtins, call.func.id)
        if by_name and not known and call.args:
            given = self._class_references(call.args[0])
            found = [(c, t) for c, t in given if isinstance(c, ClassInfo) and c.is_module] or found
        yield from found

    def _child(
        self, attr: str, cls: ClassInfo | str, many: bool, call: ast.Call, table: str
    ) -> Child:
        return Child(attr, cls, many, call, self.info, table)

    def _class_references(self, node: ast.expr) -> Iterator[tuple[ClassInfo | str, str]]:
        """The classes an expression may stand for, and the table they come from."""
        file = self.info.file
        if isinstance(node, ast.IfExp):
            yield from self._class_references(node.body)
            yield from self._class_references(node.orelse)
        elif isinstance(node, ast.Subscript):
            yield from _table_classes(file, dotted_name(node.value))
        elif isinstance(node, ast.Call):
            if callee_name(node) == "get" and isinstance(node.func, ast.Attribute):
                yield from _table_classes(file, dotted_name(node.func.value))
        elif isinstance(node, ast.Name) and node.id in self._classes:
            yield from self._classes[node.id]
        elif dotted := dotted_name(node):
            target = file.resolve(dotted)
            if isinstance(target, ClassInfo) or target.startswith(("torch.", "transformers.")):
                yield target, ""


def _table_classes(file: FileIndex, table: str) -> Iterator[tuple[ClassInfo | str, str]]:
    value = file.assignments.get(table)
    if isinstance(value, ast.Dict):
        for item in value.values:
            target = file.resolve(dotted_name(item))
            if isinstance(target, ClassInfo):
                yield target, table


def _hops(info: ClassInfo) -> Iterator[Hop]:
    attrs = {c.attr for c in children(info)}
    for owner, function in reached_methods(info):
        nodes = body(owner.file, function)
        bound = _bound_submodules(nodes, self_name(function))
        for call in nodes.all(ast.Call):
            attr = _submodule(call.func, bound, self_name(function))
            if attr in attrs:
                yield Hop(info, owner, function, call, attr)


def _bound_submodules(nodes: Body, first: str) -> Mapping[str, str]:
    """Local name to the attribute it stands for: loop variables and plain aliases."""
    bound: dict[str, str] = {}
    pairs: list[tuple[ast.expr, ast.expr, bool]] = [
        (t, a.value, False) for a in nodes.all(ast.Assign) for t in a.targets
    ]
    pairs += [(f.target, f.iter, True) for f in nodes.all(ast.For)]
    pairs += [(c.target, c.iter, True) for c in nodes.all(ast.comprehension)]
    for target, value, loop in pairs:
        _bind(bound, target, value, loop, first)
    return bound


def _bind(bound: dict[str, str], target: ast.expr, value: ast.expr, loop: bool, first: str) -> None:
    if loop and isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        name, targets = value.func.id, getattr(target, "elts", [])
        if name == "enumerate" and len(targets) == 2 and value.args:
            _bind(bound, targets[1], value.args[0], loop, first)
        elif name == "zip":
            for part, argument in zip(targets, value.args, strict=False):
                _bind(bound, part, argument, loop, first)
        elif name in ("reversed", "list", "iter") and value.args:
            _bind(bound, target, value.args[0], loop, first)
    elif isinstance(target, ast.Name):
        attr = _submodule(value, bound, first)
        if attr:
            bound[target.id] = attr


def _submodule(node: ast.expr, bound: Mapping[str, str], first: str) -> str:
    """The attribute of self that an expression stands for (or an element of), else ""."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return bound.get(node.id, "")
    if is_self_attribute(node, first):
        assert isinstance(node, ast.Attribute)
        return node.attr
    if isinstance(node, ast.Attribute) and node.attr in ("forward", "__call__"):
        return _submodule(node.value, bound, first)
    return ""
