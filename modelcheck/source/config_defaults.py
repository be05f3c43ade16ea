"""What a configuration class sets by default, read from its source."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Undecided
from modelcheck.graph.expressions import Frame, Raised
from modelcheck.graph.interpreter import Interpreter
from modelcheck.graph.values import Config, Function, Instance, Stop, Unknown
from modelcheck.source.classes import ClassInfo, FileIndex, dotted_name

PLAIN = (int, float, str, bool, type(None), list, tuple, dict)


def config_class(info: ClassInfo) -> ClassInfo | None:
    """The configuration class of a model class: ``config_class``, or the annotation of config."""
    found = info.find_attribute("config_class")
    if found is not None:
        resolved = found[0].file.resolve(dotted_name(found[1]))
        if isinstance(resolved, ClassInfo):
            return resolved
    for current in info.mro:
        annotated = current.attributes_annotation("config")
        init = current.methods.get("__init__")
        arguments = [*init.args.posonlyargs, *init.args.args] if init is not None else []
        notes = [a.annotation for a in arguments if a.arg == "config"]
        for note in (annotated, *notes):
            if note is not None:
                resolved = current.file.resolve(_annotation_name(note))
                if isinstance(resolved, ClassInfo) and resolved.kind == "config":
                    return resolved
    return None


def _annotation_name(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return dotted_name(node)


def read_config_class(
    info: ClassInfo, contract: Contract, given: Mapping[str, Any] | None = None
) -> Config:
    """The configuration's values: class defaults, ``given`` (config.json), then its own code.

    What cannot be told is left out, and reads as a number known by name.
    """
    values = dict(given or {})
    instance = Instance(info)
    interpreter = Interpreter(contract)
    for current in reversed(info.mro):
        for name, node in current.attributes.items():
            if isinstance(node, ast.Call) and dotted_name(node.func) == "AttributeError":
                instance.attributes.pop(name, None)  # a modular file takes it away
                continue
            value = _default(node, current.file, interpreter)
            if not isinstance(value, Unknown):
                instance.attributes[name] = value
    mapping = instance.attributes.get("attribute_map")
    attribute_map = mapping if isinstance(mapping, dict) else {}
    instance.attributes |= {attribute_map.get(k, k): v for k, v in values.items()}
    for method in ("__init__", "__post_init__"):
        found = info.find_method(method)
        if found is None:
            continue
        owner, function = found
        accepted = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
        kwargs = {
            k: v
            for k, v in values.items()
            if method == "__init__" and (k in accepted or function.args.kwarg is not None)
        }
        bound = Function(function, owner.file, instance, defined_in=owner)
        try:
            interpreter.call(bound, [], kwargs, function, Frame(owner.file, {}, owner, 0))
        except (Undecided, Stop, Raised, LookupError, TypeError, ValueError, AttributeError):
            instance.attributes = {
                k: v for k, v in instance.attributes.items() if not isinstance(v, Unknown)
            }
    known = {
        attribute_map.get(k, k): v
        for k, v in instance.attributes.items()
        if isinstance(v, (*PLAIN, Config))
    }
    return Config("config", known, complete=True, attribute_map=attribute_map)


def _default(node: ast.expr, file: FileIndex, interpreter: Interpreter) -> Any:
    """A class-level default; ``field(default=x)`` and its like give x."""
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg == "default":
                node = keyword.value
    try:
        return interpreter.expression(node, Frame(file, {}, None, 0))
    except (Undecided, Stop, Raised, LookupError, TypeError, ValueError):
        return Unknown("a default that cannot be told")
