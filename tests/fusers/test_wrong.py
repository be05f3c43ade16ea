"""Fusions that change the numbers: told by both evidences, and shown by running both sides."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import modelcheck
from modelcheck.dryrun.numerics import measure
from modelcheck.fusers.results import Fires, FusionResult

WIDTH = 32


class Norm(nn.Module):
    """The canonical form; the others below change one thing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.eps = 1e-6

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Gemma(Norm):
    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return (1.0 + self.weight) * x


class WeightFirst(Norm):
    def forward(self, x):
        return x * self.weight * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class CastBack(Norm):
    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (self.weight.float() * y).type_as(x)


class NativePlusOne(Norm):
    def forward(self, x):
        return F.rms_norm(x, (WIDTH,), 1 + self.weight, self.eps)


class OtherAxis(Norm):
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-2, keepdim=True) + self.eps))


class Centred(Norm):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * (centred * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class ExtraFactor(Norm):
    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return (self.weight * self.gamma) * x


class OtherName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


RIGHT = [Norm, Gemma, WeightFirst, CastBack]
WRONG = [NativePlusOne, OtherAxis, Centred, ExtraFactor, OtherName]


def norm_result(module: nn.Module, vllm: str) -> FusionResult:
    return next(r for r in modelcheck.trace(module, vllm=vllm) if r.fuser == "RMSNorm")


@pytest.mark.parametrize("vllm", ["0.25.1", "0.29.0", "0.33.0"])
@pytest.mark.parametrize("kind", RIGHT + WRONG)
def test_a_norm_is_called_wrong_exactly_when_its_numbers_change(kind, vllm) -> None:
    module = kind()
    result = norm_result(module, vllm)
    assert result.fires is Fires.YES
    difference = measure(module, result, lambda name: None)
    assert difference is not None
    assert bool(result.wrong) == difference.differs == (kind in WRONG)


def test_the_same_is_predicted_from_the_text() -> None:
    results = {
        r.class_name: r for r in modelcheck.predict(__file__, "0.33") if r.fuser == "RMSNorm"
    }
    for kind in RIGHT + WRONG:
        assert results[kind.__name__].fires is Fires.YES
        assert bool(results[kind.__name__].wrong) == (kind in WRONG), kind


class Router(nn.Module):
    scale = 1.0
    renormalise = True

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8, WIDTH))

    def forward(self, hidden_states):
        logits = self.logits(hidden_states)
        weights, ids = torch.topk(F.softmax(logits, dim=-1), 2, dim=-1)
        if self.renormalise:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return logits, weights * self.scale, ids

    def logits(self, hidden_states):
        return F.linear(hidden_states, self.weight)


class Capped(Router):
    def logits(self, hidden_states):
        return torch.tanh(F.linear(hidden_states, self.weight))


class Experts(nn.Module):
    activation: nn.Module = nn.SiLU()

    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.zeros(8, 2 * 16, WIDTH))
        self.down_proj = nn.Parameter(torch.zeros(8, WIDTH, 16))

    def forward(self, hidden_states, top_k_index, top_k_weights):
        out = torch.zeros_like(hidden_states)
        for expert in range(8):
            token, slot = torch.where(top_k_index == expert)
            gate, up = F.linear(hidden_states[token], self.gate_up_proj[expert]).chunk(2, dim=-1)
            value = F.linear(F.silu(gate) * up, self.down_proj[expert])
            out.index_add_(0, token, value * top_k_weights[token, slot, None])
        return out


class Block(nn.Module):
    def __init__(self, router: nn.Module, **config: object) -> None:
        super().__init__()
        self.config = SimpleNamespace(num_experts_per_tok=2, **config)
        self.gate = router
        self.experts = Experts()

    def forward(self, hidden_states):
        flat = hidden_states.view(-1, hidden_states.shape[-1])
        _, weights, ids = self.gate(flat)
        return self.experts(flat, ids, weights).view(hidden_states.shape)


class Squashed(Block):
    def forward(self, hidden_states):
        return torch.tanh(super().forward(hidden_states))


def router(kind: type[Router] = Router, scale: float = 1.0, renormalise: bool = True) -> Router:
    made = kind()
    made.scale = scale
    made.renormalise = renormalise
    return made


BLOCKS = {
    "plain": (Block(router(), norm_topk_prob=True), False),
    "scaled as the config says": (
        Block(router(scale=2.5), norm_topk_prob=True, routed_scaling_factor=2.5),
        False,
    ),
    "scaled beside the config": (Block(router(scale=2.5), norm_topk_prob=True), True),
    "capped logits": (Block(router(Capped), norm_topk_prob=True), True),
    "not renormalised": (Block(router(renormalise=False), norm_topk_prob=False), False),
}


@pytest.mark.parametrize("vllm", ["0.29.0", "0.32.0", "0.33.0"])
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_called_wrong_exactly_when_its_numbers_change(name: str, vllm: str) -> None:
    block, wrong = BLOCKS[name]
    result = next(r for r in modelcheck.trace(block, vllm=vllm) if r.fuser == "MoEBlock")
    assert "internal" in result.becomes
    difference = measure(block, result, lambda field: getattr(block.config, field, None))
    assert difference is not None
    assert bool(result.wrong) == difference.differs == wrong


def test_renormalising_against_the_config_is_wrong_up_to_0_32() -> None:
    block = Block(router(), norm_topk_prob=False)
    told = {
        vllm: next(r for r in modelcheck.trace(block, vllm=vllm) if r.fuser == "MoEBlock").wrong
        for vllm in ("0.32.0", "0.33.0")
    }
    assert "norm_topk_prob" in told["0.32.0"]
    assert told["0.33.0"] == ""  # 0.33 reads it off the trace


def test_experts_with_another_activation_are_wrong() -> None:
    block = Block(router(), norm_topk_prob=True)
    block.experts.act_fn = nn.GELU()
    result = next(r for r in modelcheck.trace(block, vllm="0.33") if r.fuser == "MoEBlock")
    assert "gelu" in result.wrong
