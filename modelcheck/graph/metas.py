"""What an operation's result looks like: only rank and length matter to a trace."""

from __future__ import annotations

from typing import Any

from modelcheck.graph.values import MAYBE, NONE, SCALAR, Meta, sequence, tensor

SAME = frozenset(
    {
        "to",
        "float",
        "double",
        "half",
        "bfloat16",
        "type",
        "type_as",
        "contiguous",
        "clone",
        "detach",
        "relu",
        "silu",
        "gelu",
        "sigmoid",
        "tanh",
        "softmax",
        "log_softmax",
        "dropout",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "square",
        "abs",
        "neg",
        "clamp",
        "clamp_min",
        "clamp_max",
        "masked_fill",
        "masked_fill_",
        "tril",
        "triu",
        "cumsum",
        "flip",
        "roll",
        "transpose",
        "transpose_",
        "swapaxes",
        "pow",
        "add_",
        "mul_",
        "sub_",
        "div_",
        "softplus",
        "normalize",
        "layer_norm",
        "rms_norm",
        "cos",
        "sin",
        "reciprocal",
        "erf",
        "expand_as",
        "gather",
        "sort",
        "scatter",
        "scatter_",
        "scatter_add",
        "scatter_add_",
        "index_add",
        "index_add_",
        "floor",
        "round",
        "int",
        "long",
        "bool",
        "requires_grad_",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "nan_to_num",
        "repeat_interleave",
        "linear",
        "cuda",
        "cpu",
    }
)
ELEMENTWISE = frozenset(
    {
        "add",
        "sub",
        "mul",
        "truediv",
        "div",
        "floordiv",
        "mod",
        "pow",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "and_",
        "or_",
        "xor",
        "where",
        "maximum",
        "minimum",
    }
)
TORCH_MODULES_SAME = frozenset(
    {
        "Linear",
        "Dropout",
        "LayerNorm",
        "RMSNorm",
        "Identity",
        "SiLU",
        "GELU",
        "ReLU",
        "Tanh",
        "Sigmoid",
        "Softmax",
        "GroupNorm",
    }
)


def of_call(name: str, receiver: Meta | None, args: list[Any], metas: list[Meta]) -> Meta:
    """The meta of ``torch.name(...)``, ``x.name(...)`` or an operator.

    ``args`` are the plain arguments (None for traced ones) after the receiver, ``metas`` those
    of all traced arguments, receiver included. One that vLLM does not know makes the result
    unknown to it too.
    """
    if any(meta.kind == "none" for meta in metas):
        return NONE
    first = receiver or (metas[0] if metas else MAYBE)
    rank = first.rank if first.kind == "tensor" else None
    if name in ("size", "shape"):
        if args:
            return SCALAR
        return sequence(*[SCALAR] * rank) if rank is not None else MAYBE
    if name in ("dim", "numel", "item", "stride", "ndim"):
        return SCALAR
    if name in ELEMENTWISE:
        ranks = [meta.rank for meta in metas if meta.kind == "tensor" and meta.rank is not None]
        if ranks and all(meta.kind in ("tensor", "scalar") for meta in metas):
            return tensor(max(ranks))
        return SCALAR if metas and all(meta.kind == "scalar" for meta in metas) else MAYBE
    if rank is None:
        return MAYBE
    if name in SAME:
        return tensor(rank)
    if name in ("view", "reshape", "view_as"):
        return _reshaped(args)
    if name == "permute":
        return tensor(rank)
    if name == "unsqueeze":
        return tensor(rank + 1)
    if name == "flatten":
        return MAYBE if len(args) != 2 else tensor(max(1, rank + _minus(args)))
    if name in ("chunk",) and args and isinstance(args[0], int):
        return sequence(*[tensor(rank)] * args[0])
    if name in ("split", "tensor_split") and args and isinstance(args[0], tuple | list):
        return sequence(*[tensor(rank)] * len(args[0]))
    if name == "topk":
        return sequence(tensor(rank), tensor(rank))
    if name in ("matmul", "bmm", "baddbmm"):
        return tensor(rank)
    return MAYBE


def _reshaped(args: list[Any]) -> Meta:
    if len(args) == 1 and isinstance(args[0], tuple | list):
        return tensor(len(args[0]))
    if args and not any(isinstance(a, tuple | list) for a in args):
        return tensor(len(args))
    return MAYBE


def _minus(args: list[Any]) -> int:
    start, end = args
    if isinstance(start, int) and isinstance(end, int) and (start < 0) == (end < 0):
        return -(end - start)
    return 0


def item(meta: Meta, index: Any) -> Meta:
    """The meta of ``value[index]``."""
    if meta.kind == "sequence":
        if isinstance(index, int) and -len(meta.items) <= index < len(meta.items):
            return meta.items[index]
        if isinstance(index, slice):
            parts = (index.start, index.stop, index.step)
            if all(p is None or isinstance(p, int) for p in parts):
                return sequence(*meta.items[index])
        return MAYBE
    if meta.kind == "tensor" and meta.rank is not None:
        indices = index if isinstance(index, tuple) else (index,)
        rank = meta.rank
        for part in indices:
            if part is None:
                rank += 1
            elif isinstance(part, int):
                rank -= 1
            elif not isinstance(part, slice) and part is not Ellipsis:
                return MAYBE
        return tensor(max(rank, 0))
    return meta if meta.kind in ("none", "maybe") else MAYBE
