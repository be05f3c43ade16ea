"""The forward of one rank, on the meta device: do the shapes still fit?

Every linear is as wide as on one rank, attention has its share of the heads, and experts give
back what they get. vLLM's rewriting of a merged projection gives each rank its rows of every
part, which separate projections of these rows do as well. Numbers are not looked at.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from modelcheck.dryrun.causes import describe
from modelcheck.emulate.attention import Segment, attach, attentions
from modelcheck.emulate.models import register
from modelcheck.fusers.results import Fires
from modelcheck.tensor_parallel.plan import Analysed, shards_of
from modelcheck.tensor_parallel.results import Style

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = 6


class RankLinear(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A linear of ``inputs`` columns and ``outputs`` rows that remembers nothing of its numbers.

    ``split`` cuts a whole input first, as vLLM does for ``rowwise_split_input``.
    """

    def __init__(self, like: nn.Linear, inputs: int, outputs: int, split: bool) -> None:
        super().__init__()
        options = {"device": "meta", "dtype": like.weight.dtype}
        self.weight = nn.Parameter(torch.empty(outputs, inputs, **options))
        self.split, self.whole = split, like.in_features
        # vLLM's linears have these in the place of in_features and out_features
        self.input_size, self.output_size = like.in_features, like.out_features
        self.bias = None if like.bias is None else nn.Parameter(torch.empty(outputs, **options))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As ``nn.Linear``; what is too wide is cut only where vLLM cuts it."""
        if self.split and x.shape[-1] == self.whole:
            x = x[..., : self.weight.shape[1]]
        return nn.functional.linear(x, self.weight, self.bias)


class RankNorm(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """vLLM's RMSNorm: it gathers what is sharded, and takes any share of its width."""

    def __init__(self, width: int | None) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, if its width is a share of the norm's."""
        if self.width is not None and self.width % x.shape[-1]:
            raise RuntimeError(f"a norm of {self.width} gets {x.shape[-1]} numbers")
        return x


class _PackedSplits(TorchFunctionMode):  # type: ignore[misc]  # torch is not typed here
    """vLLM rewrites the sizes in ``.split((q, kv, kv))`` of a packed projection."""

    def __init__(self, sizes: dict[tuple[int, ...], tuple[int, ...]]) -> None:
        super().__init__()
        self.sizes = sizes

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.Tensor.split and len(args) > 1 and isinstance(args[1], list | tuple):
            own = self.sizes.get(tuple(args[1]))
            if own is not None and args[0].shape[-1] == sum(own):
                args = (args[0], list(own), *args[2:])
        return function(*args, **(kwargs or {}))


def failure(model: nn.Module, config: Any, analysed: Analysed, folder: Path | None) -> str | None:
    """What a forward of one rank raises, in one line; None when its shapes fit.

    ``model`` is on the meta device, with few layers; it is copied. Every linear must divide.
    """
    register()
    rank = copy.deepcopy(model).eval()
    text = config.get_text_config()
    packing = attach(rank, config)
    packing.segments = [Segment(0, 0, TOKENS, 0)]
    for attention in attentions(rank):
        attention.heads //= analysed.size
        if attention.kv_heads is not None:
            attention.kv_heads = max(1, attention.kv_heads // analysed.size)
        attention._sinks = [None]
    splits = _replace(rank, analysed)
    ids = torch.zeros(1, TOKENS, dtype=torch.long, device="meta")
    positions = torch.arange(TOKENS, device="meta")[None]
    try:
        with torch.no_grad(), torch.device("meta"), _PackedSplits(splits):
            out = rank(input_ids=ids, position_ids=positions, use_cache=False, return_dict=False)
    except Exception as error:
        return describe(error, folder)
    width = out[0].shape[-1]
    wanted = getattr(text, "hidden_size", width)
    return None if width == wanted else f"the outputs are {width} wide, not {wanted}"


def _replace(rank: nn.Module, analysed: Analysed) -> dict[tuple[int, ...], tuple[int, ...]]:
    splits: dict[tuple[int, ...], tuple[int, ...]] = {}
    for fate in analysed.fates:
        owner = rank.get_submodule(fate.owner)
        shards = shards_of(fate, analysed.size)
        held = [shard.per_rank or 0 for shard in shards]
        split = fate.style is Style.ROW_SPLIT
        inputs = fate.parts[0].module.in_features
        if fate.style in (Style.ROW, Style.ROW_SPLIT):
            inputs //= analysed.size
        if len(fate.parts) == 1:
            gathered = fate.style is Style.COLUMN_GATHERED
            outputs = fate.parts[0].module.out_features if gathered else sum(held)
            if len(shards) > 1:
                splits[tuple(shard.rows for shard in shards)] = tuple(held)
            setattr(
                owner, fate.parts[0].name, RankLinear(fate.parts[0].module, inputs, outputs, split)
            )
            continue
        for part, outputs in zip(fate.parts, held, strict=True):
            setattr(owner, part.name, RankLinear(part.module, inputs, outputs, split))
    for report in analysed.reports:
        fired = {r.fuser: r for r in report.fusions if r.fires is Fires.YES}
        for path in report.paths if "RMSNorm" in fired else ():
            weight = getattr(rank.get_submodule(path), "weight", None)
            _set(rank, path, RankNorm(None if weight is None else weight.shape[0]))
        for path in report.paths if "MoEBlock" in fired else ():
            internal = "internal" in fired["MoEBlock"].becomes
            _set(rank, path if internal else f"{path}.experts", RankNorm(None))
    return splits


def _set(rank: nn.Module, path: str, module: nn.Module) -> None:
    owner, _, name = path.rpartition(".")
    setattr(rank.get_submodule(owner), name, module)


def latent(analysed: Analysed) -> bool:
    """Does vLLM replace attention by its own for latent attention? Then nothing is known."""
    return any(
        r.fuser == "MLA" and r.fires is Fires.YES
        for report in analysed.reports
        for r in report.fusions
    )
