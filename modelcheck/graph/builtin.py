"""Builtins, and the classes of torch and transformers that constructors use."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from modelcheck.graph.base import Frame, Raised, is_traced, line_of, text_of
from modelcheck.graph.core import Node
from modelcheck.graph.symbolic import Sym, decide
from modelcheck.graph.values import (
    NAMESPACE,
    AttributeOf,
    ClassValue,
    Config,
    External,
    Function,
    Instance,
    Interface,
    Module,
    Parameter,
    Stop,
    Submodule,
    SuperValue,
    Tensor,
    Unknown,
)

CONVERSIONS: dict[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "abs": abs,
    "round": round,
    "pow": pow,
    "divmod": divmod,
}
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "max": max,
    "min": min,
    "sum": sum,
    "any": any,
    "all": all,
    "sorted": sorted,
}
# ACT2FN names by the fused activation-and-multiply kernel vLLM has for their class.
KERNELS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_pytorch_tanh",
    "gelu_python_tanh": "gelu_pytorch_tanh",
}
TYPES = {t.__name__: t for t in (int, float, str, bool, tuple, list, dict)}
CONTAINERS = ("ModuleList", "Sequential", "ModuleDict")


def activation(name: Any) -> Module:
    """``ACT2FN[name]``."""
    if isinstance(name, str):
        return Module(dotted=f"ACT2FN[{name!r}]", activation=name)
    return Module(dotted=f"ACT2FN[{name}]", activation=str(name), activation_known=False)


def construct_external(dotted: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A class of torch.nn is called (None when it is not one)."""
    name = dotted.rpartition(".")[2]
    if name == "Parameter":
        value = args[0] if args else kwargs.get("data")
        return Parameter(_shape(value))
    if name == "Buffer" and dotted.startswith("torch.nn"):
        value = args[0] if args else kwargs.get("data")
        return value if isinstance(value, Tensor) else Tensor()
    if dotted == NAMESPACE and not args:
        return Config(NAMESPACE, dict(kwargs), complete=True)
    if name in ("ACT2FN", "get_activation") and args:
        return activation(args[0])
    if not dotted.startswith("torch.nn.") or not name[:1].isupper():
        return None
    if ".functional." in dotted or name in ("Module",):
        return None
    module = Module(tuple(args), kwargs, dotted=f"torch.nn.{name}")
    if name in CONTAINERS:
        source = args[0] if args and name != "Sequential" else list(args)
        module.items = [_plain(m) for m in source] if isinstance(source, list | tuple) else []
        if isinstance(source, dict):
            module.items = [_plain(m) for m in source.values()]
    return module


def _plain(value: Any) -> Any:
    return value.module if isinstance(value, Submodule) else value


def _shape(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, Tensor):
        if value.shape is not None:
            return value.shape
        if value.rank is not None:
            return (None,) * value.rank
    return None


def builtin(
    interpreter: Any,
    name: str,
    args: list[Any],
    kwargs: dict[str, Any],
    node: ast.AST,
    frame: Frame,
) -> Any:
    """A call of a Python builtin."""
    line = line_of(node)
    match name:
        case "super":
            owner = frame.names.get("__class__")
            return owner if isinstance(owner, SuperValue) else Unknown("super()", line)
        case "getattr" if len(args) >= 2 and isinstance(args[1], str):
            return _getattr(interpreter, args, node, frame)
        case "hasattr" if len(args) == 2 and isinstance(args[1], str):
            return _hasattr(interpreter, args[0], args[1], node)
        case "setattr" if len(args) == 3 and isinstance(args[1], str):
            interpreter.set_attribute(args[0], args[1], args[2], node)
            return None
        case "isinstance" if len(args) == 2:
            return _isinstance(args[0], args[1], node)
        case "callable":
            return (
                True
                if isinstance(args[0], Function | ClassValue | Interface)
                else decide(text_of(node))
            )
        case "len" if args:
            return _len(interpreter, args[0], node)
        case "range":
            return _range(args, line)
        case "enumerate" if args:
            start = kwargs.get("start", args[1] if len(args) > 1 else 0)
            values = interpreter.iterate(args[0], node)
            return [(start + i if isinstance(start, int) else i, v) for i, v in enumerate(values)]
        case "zip":
            return list(zip(*[interpreter.iterate(a, node) for a in args], strict=False))
        case "tuple" | "list" | "set":
            values = interpreter.iterate(args[0], node) if args else []
            if name == "set":
                return as_set(values)
            return tuple(values) if name == "tuple" else values
        case "dict":
            return (
                dict(kwargs)
                if not args
                else (
                    dict(args[0]) | kwargs if isinstance(args[0], dict) else Unknown("a dict", line)
                )
            )
        case "reversed" if args:
            return interpreter.iterate(args[0], node)[::-1]
        case "slice":
            return slice(*args)
        case "print":
            return None
        case "type" if len(args) == 1:
            return (
                ClassValue(args[0].info)
                if isinstance(args[0], Instance)
                else Unknown("a type", line)
            )
        case "int" | "float" | "bool" | "str" | "abs" | "round" | "pow" | "divmod":
            return _convert(interpreter, name, args, node)
    if name in REDUCTIONS:
        return _reduce(interpreter, name, args, node)
    if name.endswith(("Error", "Exception", "Warning")):
        return Unknown(name, line)
    return interpreter.opaque(f"{name}(...) is not followed", [*args, *kwargs.values()], node)


def as_set(values: list[Any]) -> Any:
    """A set of plain values; of others the list, whose members at least are known."""
    plain = all(isinstance(v, str | int | float | type(None)) for v in values)
    return set(values) if plain else values


def _getattr(interpreter: Any, args: list[Any], node: ast.AST, frame: Frame) -> Any:
    owner, name = args[0], args[1]
    has = _has(interpreter, owner, name)
    if len(args) == 3:
        if has is False:
            return args[2]
        if isinstance(owner, Unknown):
            return Unknown(f"getattr(..., {name!r})", line_of(node))
    return interpreter.attribute(owner, name, node, frame)


def _has(interpreter: Any, owner: Any, name: str) -> bool | None:
    if isinstance(owner, Instance):
        found: bool | None = interpreter.has_attribute(owner, name)
        return found
    if isinstance(owner, Submodule) and owner.module.info is not None:
        found = interpreter.has_attribute(interpreter.instance_of(owner.module), name)
        return found
    if isinstance(owner, Config):
        mapped = owner.attribute_map.get(name, name)
        if mapped in owner.values or name == "_attn_implementation":
            return True
        if owner.info is not None and owner.info.find_method(name) is not None:
            return True
        return False if owner.complete else None
    return True if isinstance(owner, Node | AttributeOf) else None


def _hasattr(interpreter: Any, owner: Any, name: str, node: ast.AST) -> bool:
    has = _has(interpreter, owner, name)
    return has if has is not None else decide(text_of(node))


def _isinstance(value: Any, kind: Any, node: ast.AST) -> bool:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = {k.dotted.rpartition(".")[2] for k in kinds if isinstance(k, External)}
    if isinstance(value, Node | AttributeOf):
        return False  # a proxy is an instance of none of the types that forwards ask for
    is_plain = isinstance(value, tuple(TYPES.values())) or value is None
    if is_plain and all(isinstance(k, External | ClassValue) for k in kinds):
        return any(n in TYPES and isinstance(value, TYPES[n]) for n in names)
    if isinstance(value, Config) and value.info is not None:
        classes = [k.info.node for k in kinds if isinstance(k, ClassValue)]
        if len(names) + len(classes) == len(kinds):
            ours = {*(c.name for c in value.info.mro), *value.info.external_bases}
            return any(c.node in classes for c in value.info.mro) or any(
                base.rpartition(".")[2] in names for base in ours
            )
    if isinstance(value, Submodule | Module):
        module = value.module if isinstance(value, Submodule) else value
        if len(names) == len(kinds):
            return module.class_name in names or "Module" in names
    return decide(text_of(node))


def _len(interpreter: Any, value: Any, node: ast.AST) -> Any:
    line = line_of(node)
    if isinstance(value, tuple | list | dict | str | set):
        return len(value)
    if isinstance(value, Submodule) and value.module.items is not None:
        return Sym.name(f"len({value.path})")
    if isinstance(value, Node | AttributeOf):
        return len(interpreter.iterate_traced(value, node, None))
    return Unknown("a length", line)


def _range(args: list[Any], line: int | None) -> Any:
    if args and all(isinstance(a, int) for a in args):
        found = range(*args)
        # One member stands for all the layers or experts of a long list.
        return list(found) if len(found) <= 16 else [Sym.name("index")]
    if is_traced(args):
        raise Stop("a range over the size of an input", line)
    return [Sym.name("index")]


def _convert(interpreter: Any, name: str, args: list[Any], node: ast.AST) -> Any:
    line = line_of(node)
    if is_traced(args):
        if name in ("abs", "pow", "round"):
            return interpreter.traced_call("call_function", f"operator.{name}", args, {}, node)
        raise Stop(f"{name}() of a traced value", line)
    if all(isinstance(a, int | float | str | bool) for a in args):
        try:
            return CONVERSIONS[name](*args)
        except (TypeError, ValueError):
            raise Raised(name) from None
    if args and isinstance(args[0], Sym) and name in ("int", "float"):
        return args[0]
    if name == "bool" and args:
        return interpreter.truth_of(args[0], node)
    return Unknown(f"{name}(...)", line)


def _reduce(interpreter: Any, name: str, args: list[Any], node: ast.AST) -> Any:
    line = line_of(node)
    values = interpreter.iterate(args[0], node) if len(args) == 1 else args
    if is_traced(values):
        raise Stop(f"{name}() of traced values", line)
    if name in ("any", "all"):
        wanted = name == "any"
        return (
            wanted if any(interpreter.truth_of(v, node) is wanted for v in values) else not wanted
        )
    if all(isinstance(v, int | float) for v in values) and values:
        return REDUCTIONS[name](values)
    if values and all(isinstance(v, int | float | Sym) for v in values):
        if name == "sum":
            total: Any = 0
            for value in values:
                total = total + value
            return total
        return Sym.name(f"{name}({', '.join(map(str, values))})")
    return Unknown(f"{name}(...)", line)
