"""Which module is the first to make another output of equal input.

Also used under an old transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from modelcheck.emulate.ordinary import base_of, outputs
from modelcheck.emulate.results import FirstDifference

# Path of a module to its "class", "inputs" (by name or number) and "outputs", each tensor one
# row a token; in the order in which the modules end. Plain data, so that it can be saved.
Captures = dict[str, dict[str, Any]]


def record(model: nn.Module, call: Callable[[], object], tokens: int) -> Captures:
    """Call something that runs ``model`` on ``tokens`` tokens, and keep what its modules did."""
    found: Captures = {}
    names = {module: name for name, module in model.named_modules()}

    def hook(module: nn.Module, args: Any, kwargs: Mapping[str, Any], output: Any) -> None:
        path = names[module]
        if path in found:  # called again: the first time will do
            return
        given = {str(i): value for i, value in enumerate(args)} | dict(kwargs)
        inputs = {f"{k}.{i}": r for k, v in given.items() for i, r in enumerate(_rows(v, tokens))}
        found[path] = {
            "class": type(module).__name__,
            "inputs": inputs,
            "outputs": list(_rows(output, tokens)),
        }

    handles = [m.register_forward_hook(hook, with_kwargs=True) for m in names]
    try:
        call()
    finally:
        for handle in handles:
            handle.remove()
    return found


def _rows(value: Any, tokens: int) -> Iterator[torch.Tensor]:
    """The tensors in a value that have one row a token, without the batch axis."""
    if isinstance(value, torch.Tensor):
        if value.ndim > 1 and value.shape[0] == 1 and value.shape[1] == tokens:
            yield value[0].detach().clone()
        elif value.ndim and value.shape[0] == tokens:
            yield value.detach().clone()
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _rows(item, tokens)
    elif isinstance(value, Mapping):  # a ModelOutput
        yield from _rows(list(value.values()), tokens)


def captured(
    model: Any, sequences: Sequence[Sequence[int]], has_head: bool, base_class: str
) -> Captures:
    """What the base model's modules do in ordinary runs, sequence after sequence."""
    base = base_of(model, base_class)
    parts = [
        record(base, lambda t=tokens: outputs(model, t, has_head), len(tokens))  # type: ignore[misc]
        for tokens in sequences
    ]
    return {path: _joined([part[path] for part in parts if path in part]) for path in parts[0]}


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    names = parts[0]["inputs"]
    return {
        "class": parts[0]["class"],
        "inputs": {
            name: torch.cat([p["inputs"][name] for p in parts])
            for name in names
            if all(name in p["inputs"] for p in parts) and _fit(p["inputs"][name] for p in parts)
        },
        "outputs": [
            torch.cat(values)
            for values in zip(*(p["outputs"] for p in parts), strict=False)
            if _fit(values)
        ],
    }


def _fit(parts: Iterable[torch.Tensor]) -> bool:
    """Are the rows of these as long? Those of a mask of [tokens, tokens] are not."""
    return len({part.shape[1:] for part in parts}) == 1


def selected(captures: Captures, rows: Sequence[int]) -> Captures:
    """The same modules, of all rows only some."""
    index = torch.tensor(list(rows))
    return {
        path: {
            "class": one["class"],
            "inputs": {name: value[index] for name, value in one["inputs"].items()},
            "outputs": [value[index] for value in one["outputs"]],
        }
        for path, one in captures.items()
    }


def first_difference(
    ordinary: Captures, other: Captures, tolerance: float, phase: str
) -> FirstDifference | None:
    """The first module to end whose inputs are equal and whose outputs are not."""
    for path, theirs in other.items():
        mine = ordinary.get(path)
        if mine is None:
            continue
        largest, differ = _largest(mine["outputs"], theirs["outputs"], tolerance)
        if not differ:
            continue
        common = [name for name in mine["inputs"] if name in theirs["inputs"]]
        one, two = ([side["inputs"][name] for name in common] for side in (mine, theirs))
        if not _largest(one, two, tolerance)[1]:
            return FirstDifference(path, theirs["class"], phase, largest)
    return None


def _largest(
    mine: list[torch.Tensor], theirs: list[torch.Tensor], tolerance: float
) -> tuple[float, bool]:
    largest, differ = 0.0, False
    for one, other in zip(mine, theirs, strict=False):
        if one.shape != other.shape or not one.numel():
            continue
        gap = float((one.float() - other.float()).abs().nan_to_num(nan=float("inf")).max())
        largest = max(largest, gap)
        scale = float(one.float().abs().nan_to_num().max())
        differ |= not gap <= tolerance * max(1.0, scale)
    return largest, differ
