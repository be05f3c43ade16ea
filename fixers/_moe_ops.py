"""What single operations of a mixture-of-experts block make of the terms of ``_moe_terms``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from modelcheck.source.classes import dotted_name

Term = tuple[Any, ...]

NUMBER: Term = ("number",)  # of the expert in the loop
EXPERT: Term = ("expert",)


def opaque(node: ast.AST) -> Term:
    """A value that is not understood."""
    return ("opaque", getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


def holds(term: Term, part: Term) -> bool:
    """Is one value made from another, sizes left out?"""
    if term == part:
        return True
    if term[:1] in (("dim",), ("shape",), ("dtype",)):
        return False
    return any(isinstance(inner, tuple) and holds(inner, part) for inner in term)


def dim(value: Term, index: int) -> Term:
    """The size of one dimension."""
    if value[0] == "flat" and index in (-1, 1):
        return dim(value[1], -1)
    if value[0] == "flat" and index == 0:
        index = -2
    return ("dim", value, index)


def item(value: Term, index: int, count: int) -> Term:
    """One of several values that are unpacked."""
    match value:
        case ("shape", x):
            return dim(x, index - count)
        case ("tuple", *parts) if len(parts) == count:
            return tuple(parts[index])
        case ("where", i, axes) if len(axes) == count == 2:
            return ("rows", i) if axes[index] == "t" else ("slots", i)
    return ("item", value, index)


def times(one: Term, other: Term) -> Term | None:
    """A product that means something here."""
    for a, b in ((one, other), (other, one)):
        match (a, b):
            case (("out", ("picked", t, i)), ("scale", w, j)) if i == j:
                return ("share", t, i, w)
            case (("routed slots", t, i, of), ("slot weights", w)) if of in (i, w):
                return ("weighted", t, i, w)
    if one[0] == "dim" and other[0] == "dim":
        return ("product", *sorted((one, other), key=repr))
    return None


def equal(one: Term, other: Term) -> Term | None:
    for a, b in ((one, other), (other, one)):
        if b == NUMBER:
            return ("match", a[1], ("flat",)) if a[0] == "flat ids" else ("match", a, ("t", "k"))
    return None


def positive(one: Term, other: Term) -> Term | None:
    return ("hits", one[1]) if one[0] == "mask count" and other == ("int", 0) else None


def is_before(index: ast.expr) -> bool:
    """Is it ``i - 1``?"""
    return (
        isinstance(index, ast.BinOp)
        and isinstance(index.op, ast.Sub)
        and isinstance(index.right, ast.Constant)
        and index.right.value == 1
    )


def is_expert_parallel(test: ast.expr) -> bool:
    """``self.ep_size > 1``: experts that the model's own code spreads over processes."""
    return isinstance(test, ast.Compare) and dotted_name(test.left) == "self.ep_size"


def is_sum(call: ast.Call) -> bool:
    values = [*call.args[3:], *(k.value for k in call.keywords if k.arg == "reduce")]
    return any(isinstance(v, ast.Constant) and v.value == "sum" for v in values)


def made(name: str, first: Term, rest: list[Term], keywords: Mapping[str, Term]) -> Term | None:
    """Fresh tensors: zeros of the tokens' shape, and empty ones."""
    dtype = keywords.get("dtype", ())
    if name == "zeros_like":
        same = dtype in ((), ("dtype", first))
        return ("zeros" if same else "wide zeros", first)  # a sum in float32, cast at its end
    if name == "empty_like":
        return ("empty", first)
    if name == "new_zeros" and not dtype:
        sizes = rest[0] if len(rest) == 1 else ("tuple", *rest)
        if len(sizes) == 3 and sizes[1] in (dim(first, 0), dim(first, -2)):
            return ("expert zeros", first)
        return _zeros(sizes, first)
    if name == "zeros" and dtype[:1] == ("dtype",):
        sizes = first if not rest else ("tuple", first, *rest)
        return _zeros(sizes, dtype[1])
    return None


def _zeros(sizes: Term, like: Term) -> Term | None:
    """Zeros of a shape that is the shape of ``like``, or of its tokens in one row."""
    if sizes == ("shape", like):
        return ("zeros", like)
    source = like[1] if like[0] == "flat" else like
    count = ("product", *sorted((dim(source, -3), dim(source, -2)), key=repr))
    if sizes == ("tuple", count, dim(source, -1)):
        return ("zeros", ("flat", source))
    if sizes[0] == "tuple" and sizes[1:] == (dim(like, -2), dim(like, -1)):
        return ("zeros", like)
    return None


def reshaped(name: str, first: Term, rest: list[Term], keywords: Mapping[str, Term]) -> Term | None:
    """``view`` and what is like it, on values whose shape is known."""
    if name == "squeeze" and first[0] in ("match", "picked"):
        return first
    if name == "unsqueeze":
        axis = rest[0] if rest else keywords.get("dim")
        if first[0] == "scale row" and axis in (("int", -1), ("int", 1)):
            return ("scale", *first[1:])
        return ("slot weights", first) if axis in (("int", -1), ("int", 2)) else None
    if name == "size":
        return dim(first, rest[0][1]) if rest and rest[0][0] == "int" else ("shape", first)
    if name == "flatten" and not rest:
        return ("flat ids", first)
    if name in ("repeat", "expand", "expand_as") and first[0] == "rows column":
        return ("spread rows", first[1])
    if name not in ("view", "reshape"):
        return None
    if first[0] in ("moe", "shaped"):
        return ("shaped", first if first[0] == "moe" else first[1])
    match rest:
        case [("int", -1)]:
            return ("flat ids", first)
        case [("int", -1), ("int", 1)]:
            return ("rows column", first) if first[0] == "rows" else ("column", first)
        case [("int", -1), size]:
            if first[0] in ("picked", "flat"):
                return first
            width = size[0] == "config" and size[1].endswith("hidden_size")
            return ("flat", first) if size == dim(first, -1) or width else None
        case [("star", ("shape", of)), ("int", -1)] if first[0] == "routed":
            return ("routed slots", *first[1:], of)
    return None


def routing(name: str, first: Term, rest: list[Term], keywords: Mapping[str, Term]) -> Term | None:
    """One-hot masks, positions of tokens, and tokens sorted by expert."""
    axis = keywords.get("dim") or (rest[0] if rest else ())
    match (name, first):
        case ("one_hot", _):
            return ("onehot", first, ("t", "k", "e"))
        case ("permute", ("onehot", i, axes)):
            sizes = rest[0][1:] if len(rest) == 1 and rest[0][0] == "tuple" else rest
            if len(sizes) == 3 and all(s[0] == "int" for s in sizes):
                return ("onehot", i, tuple(axes[s[1]] for s in sizes))
        case ("sum", ("onehot", i, ("e", _, _))):
            if axis == ("tuple", ("int", -1), ("int", -2)):
                return ("mask count", i)
        case ("greater" | "gt", ("mask count", i)) if rest == [("int", 0)]:
            return ("hits", i)
        case ("nonzero", ("hits", i)):
            return ("hit", i) if not keywords else ("tuple", ("hit", i))
        case ("where" | "nonzero", ("match", i, axes)) if len(axes) == 2 and not rest:
            if name == "where" or "as_tuple" in keywords:
                return ("where", i, axes)
        case ("unique", _) if not rest and not keywords:
            return ("hit", first)
        case ("any", ("match", _, _)):
            return ("any", first)
        case ("numel", _) if first[0] in ("rows", "slots", "match", "picked"):
            return ("length", first)
        case ("argsort", ("flat ids", i)) if not rest:
            return ("order", i)
        case ("bincount", ("flat ids", i)):
            return ("counts", i)
        case ("cumsum", ("counts", i)) if axis == ("int", 0):
            return ("ends", i)
        case ("scatter_", ("expert zeros", i)) if rest == [("int", 1), i, ("int", 1)]:
            return ("expert counts", i)
        case ("sum", ("expert counts", i)) if axis == ("int", 0):
            return ("counts", i)
        case ("cat", ("outs", t, i)) if axis in ((), ("int", 0)):
            return ("sorted out", t, i)
        case ("repeat_interleave", _) if len(rest) == 1 and keywords.get("dim") == ("int", 0):
            return ("repeat", first)
        case ("index_select", _) if len(rest) == 2 and rest[0] == ("int", 0):
            return ("picked", first, rest[1][1]) if rest[1][0] == "rows" else None
        case ("sum", ("weighted", t, i, w)) if axis in (("int", 1), ("int", -2)):
            return ("moe", t, i, w)
    return None
