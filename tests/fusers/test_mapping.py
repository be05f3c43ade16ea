"""What a merged projection is called, which rows it has, and where checkpoint names go."""

from __future__ import annotations

from torch import nn

import modelcheck
from modelcheck.fusers.results import Fires, FusionResult


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head_dim = 8
        self.q_proj = nn.Linear(32, 64)
        self.k_proj = nn.Linear(32, 8)
        self.v_proj = nn.Linear(32, 8)
        self.o_proj = nn.Linear(64, 32)

    def forward(self, hidden_states):
        q = self.q_proj(hidden_states)
        k = self.k_proj(hidden_states)
        v = self.v_proj(hidden_states)
        return self.o_proj(q + (k * v).sum())


def fired(module: nn.Module, fuser: str) -> FusionResult:
    return next(r for r in modelcheck.trace(module) if r.fuser == fuser and r.fires is Fires.YES)


def test_rows_and_names_of_a_merged_qkv() -> None:
    result = fired(Attention(), "QKV")
    assert result.rows == (64, 8, 8)
    assert result.packed_modules_mapping == {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}
    assert result.orig_to_new_stacked("layers.0.self_attn")["layers.0.self_attn.k_proj"] == (
        "layers.0.self_attn.qkv_proj",
        "k",
    )
    assert dict(result.details)["output"] == "o_proj"


def test_a_result_survives_json() -> None:
    result = fired(Attention(), "QKV")
    assert FusionResult.from_json(result.to_json()) == result


def test_only_one_redefining_fuser_fires() -> None:
    results = {r.fuser: r for r in modelcheck.trace(Attention(), vllm="0.33")}
    assert results["QKV"].fires is Fires.YES
    assert results["MergedColumnParallel"].fires is Fires.NO
    assert "better fuser" in results["MergedColumnParallel"].reason
