"""What a configuration class sets by default, read from its source."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Undecided
from modelcheck.graph.base import Frame, Raised
from modelcheck.graph.interpreter import Interpreter
from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import Config, Function, Instance, Stop, Unknown
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode, dotted_name
from modelcheck.source.memory import remembered

ROPE, OLD_ROPE = "rope_parameters", "rope_scaling"
_READING: ContextVar[tuple[ClassInfo, ...]] = ContextVar("reading", default=())
PLAIN = (int, float, str, bool, type(None), list, tuple, dict)


def read_config_class(
    info: ClassInfo, contract: Contract, given: Mapping[str, Any] | None = None
) -> Config:
    """The configuration's values: class defaults, ``given`` (config.json), then its own code.

    What cannot be told is left out, and reads as a number known by name. A property may make
    an object of the very class that is being read: nothing is known of that one.
    """
    reading = _READING.get()
    if info in reading:
        return Config("config", info=info)
    token = _READING.set((*reading, info))
    try:
        return _read(info, contract, given)
    finally:
        _READING.reset(token)


def default_config(
    info: ClassInfo, contract: Contract, given: Mapping[str, Any] | None = None
) -> Config:
    """`read_config_class` outside an evaluation: a class's own defaults are read once."""
    return read_config_class(info, contract, given) if given else _defaults(info, contract).copy()


@remembered(maxsize=64)
def _defaults(info: ClassInfo, contract: Contract) -> Config:
    return read_config_class(info, contract)


def _read(info: ClassInfo, contract: Contract, given: Mapping[str, Any] | None) -> Config:
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
    instance.attributes = _Mapped(attribute_map, {**instance.attributes, **values})
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
            for name in _assigned(function):  # it may have got further than we did
                instance.attributes.pop(name, None)
    read = {**instance.attributes, **_properties(instance, interpreter)}
    known = {k: v for k, v in read.items() if isinstance(v, (*PLAIN, Config))}
    if ROPE in known and known[ROPE] is None:
        known[ROPE] = _rope_parameters(known)
    if known.get(ROPE) is None:
        known.pop(ROPE, None)
    _add_parts(known)
    return Config("config", known, complete=True, attribute_map=attribute_map, info=info)


def _rope_parameters(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """What transformers 5 sets where a class leaves None; None where more than defaults counts.

    (``RotaryEmbeddingConfigMixin.convert_rope_params_to_dict``.)
    """
    if values.get(OLD_ROPE):
        return None
    settings = {
        "rope_type": values.get("default_rope_type", "default"),
        "rope_theta": values.get("rope_theta", Sym.name("config.rope_theta")),
    }
    partial = values.get("partial_rotary_factor")
    return settings if partial is None else {**settings, "partial_rotary_factor": partial}


class _Mapped(dict[str, Any]):
    """The attributes of a configuration, by any of their names, as ``attribute_map`` has them."""

    def __init__(self, names: Mapping[str, str], values: Mapping[str, Any]) -> None:
        super().__init__()
        self.names = names
        for name, value in values.items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(self.names.get(name, name), value)

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(self.names.get(name, name))

    def __contains__(self, name: object) -> bool:
        return super().__contains__(self.names.get(str(name), name))

    def get(self, name: str, default: Any = None) -> Any:
        """The value under any of its names."""
        return super().get(self.names.get(name, name), default)

    def pop(self, name: str, *default: Any) -> Any:
        """Take it away under any of its names."""
        return super().pop(self.names.get(name, name), *default)


def _properties(instance: Instance, interpreter: Interpreter) -> dict[str, Any]:
    """What the properties of a configuration class answer; they hide what is set by their name."""
    found: dict[str, Any] = {}
    for info in instance.info.mro:
        for node in info.node.body:
            if not isinstance(node, ast.FunctionDef) or node.name in found:
                continue
            if not any(dotted_name(d) == "property" for d in node.decorator_list):
                continue
            getter = Function(node, info.file, instance, defined_in=info)
            try:
                value = interpreter.call(getter, [], {}, node, Frame(info.file, {}, info, 0))
            except (Undecided, Stop, Raised, LookupError, TypeError, ValueError, AttributeError):
                value = Unknown(f"the property {node.name}")
            found[node.name] = value
    return found


def _assigned(function: FunctionNode) -> set[str]:
    """Attributes that a method assigns to anything."""
    return {
        node.attr
        for node in nodes_of(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


def _add_parts(values: dict[str, Any]) -> None:
    """Declared sub-configurations that could not be read: objects all the same."""
    declared = values.get("sub_configs")
    for name in declared if isinstance(declared, dict) else ():
        if isinstance(name, str) and name not in values:
            values[name] = Config(f"config.{name}")


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
