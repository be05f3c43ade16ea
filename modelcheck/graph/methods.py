"""Methods of plain Python values, and functions of plain numbers."""

from __future__ import annotations

import ast
import math
from typing import Any

from modelcheck.graph import metas
from modelcheck.graph.base import line_of
from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import Tensor, Unknown

CREATES = frozenset(
    {
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "tensor",
        "rand",
        "randn",
        "linspace",
        "eye",
        "outer",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "as_tensor",
        "from_numpy",
        "Tensor",
        "FloatTensor",
        "stack",
        "cat",
    }
)
NUMBERS = {
    "math.sqrt": math.sqrt,
    "math.log": math.log,
    "math.log2": math.log2,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.prod": math.prod,
    "math.pow": math.pow,
    "math.exp": math.exp,
}


def constant_tensor(name: str, args: list[Any]) -> Any:
    if name in ("zeros", "ones", "empty", "rand", "randn", "full") and args:
        listed = isinstance(args[0], tuple | list)
        shape = tuple(args[0]) if listed else tuple(args[:1] if name == "full" else args)
        return Tensor(len(shape), shape=shape)
    if name in ("arange", "linspace"):
        return Tensor(1)
    if name in CREATES:
        return Tensor()
    if args and isinstance(args[0], Tensor):
        return Tensor(args[0].rank if name in metas.SAME else None)
    return Unknown(f"torch.{name}(...)")


def number(dotted: str, args: list[Any]) -> Any:
    if all(isinstance(a, int | float) for a in args):
        try:
            return NUMBERS[dotted](*args)  # type: ignore[operator]
        except (ValueError, TypeError, OverflowError):
            return Unknown(f"{dotted}(...)")
    if all(isinstance(a, int | float | Sym) for a in args):
        return Sym.name(f"{dotted}({', '.join(map(str, args))})")
    return Unknown(f"{dotted}(...)")


def list_method(receiver: list[Any], name: str, args: list[Any], node: ast.AST) -> Any:
    if name == "append" and args:
        receiver.append(args[0])
    elif name == "extend" and args and isinstance(args[0], list | tuple):
        receiver.extend(args[0])
    elif name == "pop" and receiver:
        return receiver.pop(*[a for a in args if isinstance(a, int)])
    elif name == "copy":
        return list(receiver)
    return None


def dict_method(
    receiver: dict[Any, Any], name: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST
) -> Any:
    if name in ("get", "pop", "setdefault") and args:
        default = args[1] if len(args) > 1 else kwargs.get("default")
        if not isinstance(args[0], str | int | float | type(None)):
            return Unknown("an entry under a key that is not known", line_of(node))
        if name == "pop":
            return receiver.pop(args[0], default)
        if name == "setdefault":
            return receiver.setdefault(args[0], default)
        return receiver.get(args[0], default)
    if name == "items":
        return list(receiver.items())
    if name == "keys":
        return list(receiver)
    if name == "values":
        return list(receiver.values())
    if name == "copy":
        return dict(receiver)
    if name == "update" and args and isinstance(args[0], dict):
        receiver.update(args[0])
    return None
