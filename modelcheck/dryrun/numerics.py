"""Does a fusion keep the numbers? A module against what vLLM puts in its place, as arithmetic.

The module gets random weights on the CPU and both run on the same random input, in float32.
The replacements are written out here from what the vLLM releases compute: an RMS norm over the
last axis with ``weight`` or ``1 + weight``, and top-k routing by the config's numbers.
Merged projections are exact by construction and are not run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from modelcheck.fusers.results import ClassReport, FusionResult

MAX_ELEMENTS = 700_000_000  # 2.8 GB of float32: larger blocks are not made real
TOLERANCE = 1e-3  # of the largest output: far above rounding, far below a wrong factor
TOKENS = 6


@dataclass(frozen=True)
class Difference:
    """The largest absolute difference, and the largest absolute output of the module."""

    largest: float
    scale: float

    @property
    def differs(self) -> bool:
        """More than rounding explains?"""
        return self.largest > TOLERANCE * max(self.scale, 1e-12)

    def __str__(self) -> str:
        verdict = "the numbers change" if self.differs else "the numbers stay"
        return f"{verdict} (largest difference {self.largest:.2g} of {self.scale:.2g})"


def with_numerics(
    model: nn.Module, reports: list[ClassReport], config: Callable[[str], Any]
) -> list[ClassReport]:
    """The same reports, each norm and MoE block measured on its first module.

    ``config`` reads a field of the text config. What was measured is the detail "numerics" of
    a result; a result that changes the numbers without a known reason becomes ``wrong``.
    """
    measured = []
    for report in reports:
        module = model.get_submodule(report.paths[0])
        fusions = tuple(_measured(module, fusion, config) for fusion in report.fusions)
        measured.append(replace(report, fusions=fusions))
    return measured


def _measured(
    module: nn.Module, result: FusionResult, config: Callable[[str], Any]
) -> FusionResult:
    try:
        difference = measure(module, result, config)
    except _NotMeasured as error:
        return _with_detail(result, f"not measured: {error}")
    except Exception as error:  # the user's forward, on an input that may not suit it
        return _with_detail(result, f"not measured: {type(error).__name__}: {error}")
    if difference is None:
        return result
    wrong = result.wrong
    if difference.differs and not wrong:
        wrong = "the outputs differ from those of the replacement"
    return _with_detail(replace(result, wrong=wrong), str(difference))


def _with_detail(result: FusionResult, text: str) -> FusionResult:
    details = dict(result.details) | {"numerics": text.splitlines()[0]}
    return replace(result, details=tuple(sorted(details.items())))


class _NotMeasured(Exception):
    pass


def measure(
    module: nn.Module, result: FusionResult, config: Callable[[str], Any]
) -> Difference | None:
    """Run a module and its replacement; None for fusions that are exact by construction."""
    if result.fuser == "RMSNorm":
        real = _real(module)
        width = _width(real)
        x = torch.randn(2, TOKENS, width, generator=_seed())
        eps = _eps(real, result)
        with torch.no_grad():
            expected = real(x)
            replaced = _rms_norm(x, getattr(real, "weight", None), eps, result.becomes)
        return _difference(expected, replaced)
    if result.fuser == "MoEBlock" and "internal" in result.becomes:
        real = _real(module)
        details = dict(result.details)
        gate = real.get_submodule(details["gate"])
        x = torch.randn(1, TOKENS, gate.weight.shape[-1], generator=_seed())
        with torch.no_grad():
            expected = real(x)
            replaced = _route(real, gate, x, details, config)
        return _difference(expected, replaced.reshape(expected.shape))
    return None


def _seed() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _real(module: nn.Module) -> nn.Module:
    """A copy on the CPU with random weights, in evaluation mode."""
    elements = sum(p.numel() for p in module.parameters())
    if elements > MAX_ELEMENTS:
        raise _NotMeasured(f"it has {elements / 1e9:.1f} billion weights")
    real = copy.deepcopy(module).to_empty(device="cpu").float().eval()
    generator = _seed()
    with torch.no_grad():
        for tensor in (*real.parameters(), *real.buffers()):
            if tensor.is_floating_point():
                spread = tensor.shape[-1] ** -0.5 if tensor.ndim > 1 else 0.5
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * spread)
            else:
                tensor.zero_()
    return real


def _width(module: nn.Module) -> int:
    for parameter in module.parameters():
        return int(parameter.shape[-1])
    return 32


def _eps(module: nn.Module, result: FusionResult) -> float:
    named = dict(result.details).get("eps", "")
    value = getattr(module, named, None) if named.isidentifier() else None
    if isinstance(value, int | float):
        return float(value)
    try:
        return float(named)
    except ValueError:
        return float(torch.finfo(torch.float32).eps)


def _rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, eps: float, becomes: str
) -> torch.Tensor:
    normalised = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    if becomes == "GemmaRMSNorm":
        return normalised * (1.0 + weight) if weight is not None else normalised
    return normalised * weight if weight is not None else normalised


def _route(
    block: nn.Module,
    gate: nn.Module,
    x: torch.Tensor,
    details: dict[str, str],
    config: Callable[[str], Any],
) -> torch.Tensor:
    """Top-k routing by the config, the block's own experts, and its shared expert."""
    flat = x.reshape(-1, x.shape[-1])
    logits = functional.linear(flat, gate.weight)
    softmax = details["scoring"] == "softmax"
    scores = logits.softmax(-1) if softmax else logits.sigmoid()
    bias = getattr(gate, "e_score_correction_bias", None)
    count = config("num_experts_per_tok") or config("top_k")
    if not isinstance(count, int):
        raise _NotMeasured("the number of experts per token is not one number")
    ids = _choose(scores if bias is None else scores + bias, count, bias is not None, config)
    weights = scores.gather(1, ids)
    renormalise = details.get("renormalises")
    if renormalise is None:
        configured = config("norm_topk_prob")
        renormalise = str(count > 1 if configured is None else bool(configured)).lower()
    if renormalise == "true":
        weights = weights / weights.sum(-1, keepdim=True)
    experts: Any = block.get_submodule("experts")
    factor = config("routed_scaling_factor")
    out = experts(flat, ids, weights) * (1.0 if factor is None else factor)
    if "shared" in details:
        shared = block.get_submodule(details["shared"])(flat)
        if "shared_gate" in details:
            shared = block.get_submodule(details["shared_gate"])(flat).sigmoid() * shared
        out = out + shared
    return torch.as_tensor(out)


def _choose(
    scores: torch.Tensor, count: int, biased: bool, config: Callable[[str], Any]
) -> torch.Tensor:
    """Expert ids, from the best groups where the config has groups."""
    groups, kept = config("n_group"), config("topk_group")
    if isinstance(groups, int) and isinstance(kept, int) and groups > 1:
        grouped = scores.view(scores.shape[0], groups, -1)
        best = grouped.topk(2, -1).values.sum(-1) if biased else grouped.amax(-1)
        mask = torch.zeros_like(best).scatter(1, best.topk(kept, -1).indices, 1.0)
        scores = scores.masked_fill(
            mask[..., None].expand_as(grouped).reshape(scores.shape) == 0, float("-inf")
        )
    return scores.topk(count, -1).indices


def _difference(expected: Any, replaced: torch.Tensor) -> Difference:
    if isinstance(expected, tuple):
        expected = expected[0]
    return Difference(
        float((expected.float() - replaced.float()).abs().max()), float(expected.abs().max())
    )
