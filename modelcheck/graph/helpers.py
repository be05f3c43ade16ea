"""Functions of transformers that forwards call, as a trace goes through them.

Source: transformers 5.19 (``pytorch_utils``, ``utils``); torch 2.13's ``torch._check_with``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from modelcheck.graph.base import Frame, Raised, is_traced, line_of
from modelcheck.graph.expressions import Expressions
from modelcheck.graph.symbolic import Sym, decide
from modelcheck.graph.values import Function, Stop, Unknown

PACKAGES = ("...", "transformers.")
Helper = Callable[[Expressions, list[Any], dict[str, Any], ast.AST, Frame], Any]


def helper(dotted: str) -> Helper | None:
    """What stands in for a function of transformers itself; None where nothing does."""
    if not dotted.startswith(PACKAGES):
        return None
    return _output if ".modeling_outputs." in dotted else HELPERS.get(dotted.rpartition(".")[2])


def _output(
    interpreter: Expressions, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
) -> Any:
    """``ModelOutput``: a dict, which is how torch.fx records it when it is returned."""
    if args:
        return interpreter.opaque("a model output of unnamed values", args, node)
    return {name: value for name, value in kwargs.items() if value is not None}


def _check(
    interpreter: Expressions, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
) -> Any:
    """``torch_compilable_check(condition, message)``: torch takes no traced value for a bool."""
    condition = args[0] if args else kwargs.get("cond")
    if is_traced(condition):
        raise Stop("a check of a traced value", line_of(node))
    return None


def _chunked(
    interpreter: Expressions, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
) -> Any:
    """``apply_chunking_to_forward(function, size, dim, *inputs)``: without a size, a plain call."""
    names = ("forward_fn", "chunk_size", "chunk_dim")
    given = dict(zip(names, args, strict=False)) | kwargs
    function, size, inputs = given.get("forward_fn"), given.get("chunk_size"), args[len(names) :]
    if isinstance(function, Function) and _parameters(function) != len(inputs):
        raise Raised("apply_chunking_to_forward")
    if _is_positive(size):
        raise Stop("the lengths of the chunks are compared", line_of(node))
    return interpreter.call(function, inputs, {}, node, frame)


def _parameters(function: Function) -> int:
    arguments = function.node.args
    count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    count += (arguments.vararg is not None) + (arguments.kwarg is not None)
    return count - (function.owner is not None)


def _is_positive(size: Any) -> bool:
    if isinstance(size, int | Sym):
        return bool(size > 0)
    return decide("the chunk size is positive") if isinstance(size, Unknown) else False


HELPERS: dict[str, Helper] = {
    "torch_compilable_check": _check,
    "apply_chunking_to_forward": _chunked,
}
