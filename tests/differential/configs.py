"""Tiny configurations of the models that the differential tests compare."""

from __future__ import annotations

from typing import Any

DENSE: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
MOE = {**DENSE, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

# The head size of gemma3 and qwen3 is a value of its own; two kinds of layers in gemma3 and
# gpt_oss (sliding and full), dense and expert layers in deepseek_v3.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**DENSE},
    "mistral": {**DENSE, "sliding_window": None},
    "qwen3": {**DENSE, "head_dim": 32},
    "qwen3_moe": {**MOE, "head_dim": 32, "num_experts": 4, "norm_topk_prob": True},
    "gemma3_text": {
        **DENSE,
        "head_dim": 32,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 16,
    },
    "olmoe": {**DENSE, "num_experts": 4, "num_experts_per_tok": 2},
    "granitemoe": {**DENSE, "num_local_experts": 4, "num_experts_per_tok": 2},
    "gpt_oss": {
        **DENSE,
        "head_dim": 32,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 16,
    },
    "deepseek_v3": {
        **MOE,
        "num_key_value_heads": 4,
        "n_routed_experts": 8,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "q_lora_rank": 32,
        "kv_lora_rank": 32,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
    },
}
