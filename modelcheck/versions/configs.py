"""What a configuration class of the repo gives its objects, as far as its source tells."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, TypeVar

from modelcheck.rules.base import Context
from modelcheck.source.bodies import body_of, callee_name, nodes_of
from modelcheck.source.classes import ClassInfo, FileIndex, dotted_name, is_self_attribute
from modelcheck.source.memory import remembered
from modelcheck.source.models import config_class

Node = TypeVar("Node", bound=ast.AST)
BASES = {"PretrainedConfig", "PreTrainedConfig"}


@remembered(maxsize=256)
def names_of(info: ClassInfo) -> frozenset[str] | None:
    """The attributes that the class itself gives its objects; None when that cannot be told.

    It cannot with an ancestor that is out of sight, with ``setattr`` or with ``__getattr__``.
    """
    if not info.external_bases:
        return None
    if any(base.rpartition(".")[2] not in BASES for base in info.external_bases):
        return None
    names: set[str] = set()
    for current in info.mro:
        for item in current.node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                names.add(item.target.id)
        names |= {*current.attributes, *current.methods}
        inside = _Inside(current)
        if any(name.id == "setattr" for name in inside.all(ast.Name)):
            return None
        attributes = inside.all(ast.Attribute)
        if any(node.attr in ("update", "__dict__") for node in attributes):
            return None
        for call in inside.all(ast.Call):
            if callee_name(call) == "__init__":
                names |= {keyword.arg for keyword in call.keywords if keyword.arg}
        names |= {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
        names |= _set_from_outside(current.file)
        mapping = current.attributes.get("attribute_map")
        if isinstance(mapping, ast.Dict):
            names |= {str(k.value) for k in mapping.keys if isinstance(k, ast.Constant)}
        elif mapping is not None:
            return None
    return None if names & {"__getattr__", "__getattribute__"} else frozenset(names)


class _Inside:
    """The nodes of a class, out of those of its file, which are listed anyway."""

    def __init__(self, info: ClassInfo) -> None:
        self._nodes = body_of(info.file.source.tree)
        self._lines = range(info.node.lineno, (info.node.end_lineno or 0) + 1)

    def all(self, kind: type[Node]) -> list[Node]:
        return [node for node in self._nodes.some(kind) if node.lineno in self._lines]  # type: ignore[attr-defined]


@remembered(maxsize=64)
def _set_from_outside(file: FileIndex) -> frozenset[str]:
    """The attributes that a file gives to something else than ``self``."""
    return frozenset(
        node.attr
        for node in body_of(file.source.tree).some(ast.Attribute)
        if isinstance(node.ctx, ast.Store)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    )


@remembered(maxsize=64)
def file_config(file: FileIndex) -> ClassInfo | None:
    """The one configuration class of all the models of a file."""
    found = {config_class(i) for i in file.classes.values() if i.kind == "pretrained"}
    if len(found) != 1:
        return None
    (one,) = found
    return one


def config_of(info: ClassInfo) -> ClassInfo | None:
    """The configuration class of a model, or of a module in a file of one model.

    None for one made of several configurations: which of them a class is given is not known.
    """
    found = config_class(info) or (None if info.kind == "pretrained" else file_config(info.file))
    if found is None or found.find_attribute("sub_configs"):
        return None
    names = names_of(found)
    composed = names is not None and any(n.endswith("_config") for n in names)
    return None if names is None or (composed and not _annotated(info, found)) else found


def _annotated(info: ClassInfo, config: ClassInfo) -> bool:
    """Does the class itself say that this configuration is what it is given?"""
    init = info.methods.get("__init__")
    arguments = [*init.args.posonlyargs, *init.args.args] if init is not None else []
    notes = [a.annotation for a in arguments if a.arg == "config" and a.annotation is not None]
    return any(info.file.resolve(dotted_name(note)) is config for note in notes)


def given(context: Context) -> Mapping[str, Any]:
    """The values of config.json, those of nested configurations among them."""
    values: dict[str, Any] = {}
    if context.repo is not None:
        pending = [context.repo.config]
        while pending:
            current = pending.pop()
            pending += [v for v in current.values() if isinstance(v, dict)]
            values = {**current, **values}
    return values


def is_config(node: ast.AST) -> bool:
    """Is it ``config`` or ``self.config``?"""
    return (isinstance(node, ast.Name) and node.id == "config") or (
        is_self_attribute(node) and isinstance(node, ast.Attribute) and node.attr == "config"
    )


def config_reads(tree: ast.AST, name: str) -> list[ast.Attribute]:
    """Where a file reads an attribute of ``config`` or ``self.config``."""
    return [
        node
        for node in nodes_of(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Load)
        and is_config(node.value)
    ]
