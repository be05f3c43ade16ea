"""The releases of vLLM, and what an author should know beside the fusers.

Source: the wheels of vLLM 0.25.1 to 0.33.0 (metadata and the Transformers backend's folder).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from packaging.version import Version

from modelcheck.fusers.contract import Contract, Effect

_BEFORE_PACKED = ("GLU", "QKV", "RMSNorm")
_PACKED = ("GLU", "QKV", "PackedQKV", "RMSNorm")
_MLA = ("MLA", *_PACKED)
_ATTENTION = ("MLA", "GLU", "QKV", "PackedQKV", "MergedColumnParallel", "RMSNorm", "Attention")


def releases() -> tuple[Contract, ...]:
    """All known releases, oldest first; each is the one before it with what changed."""
    v25 = Contract(
        version="0.25.1",
        transformers=">=5.5.3",
        torch="2.11.0",
        fusers=_BEFORE_PACKED,
        meta_execution=False,
        interface_leaf=False,
        keyed_by_children=False,
        next_after_failed_rewrite=False,
        o_proj_by_dataflow=False,
        module_head_dim=False,
        eps_by_attribute=False,
        moe_runner="FusedMoE",
        moe_correction_bias=False,
    )
    v26 = dataclasses.replace(v25, version="0.26.0")
    v27 = dataclasses.replace(
        v26,
        version="0.27.1",
        torch="2.13.0",
        fusers=_PACKED,
        meta_execution=True,
        interface_leaf=True,
        last_instance_decides=True,
        next_after_failed_rewrite=True,
        o_proj_by_dataflow=True,
        moe_runner="MoERunner",
        moe_correction_bias=True,
    )
    v28 = dataclasses.replace(
        v27,
        version="0.28.0",
        fusers=_MLA,
        keyed_by_children=True,
        last_instance_decides=False,
        module_head_dim=True,
    )
    v29 = dataclasses.replace(v28, version="0.29.0", transformers=">=5.10.4", eps_by_attribute=True)
    v30 = dataclasses.replace(
        v29,
        version="0.30.0",
        fusers=_ATTENTION,
        text_gate=True,
        refuses_undispatched=True,
        scaling_from_source=True,
        sinks=True,
        state_in_kwargs=False,
        item_assignment=True,
        one_fuser_per_class=False,
        existence_guards=True,
        counts_every_mention=False,
        input_stability=True,
        numbered_temporaries=True,
        equal_glu_sizes=True,
        glu_per_instance=True,
    )
    v31 = dataclasses.replace(
        v30,
        version="0.31.0",
        transformers=">=5.10.4,<5.18.0",
        pow_as_rsqrt=True,
        crashes_on_pow_keyword=False,
    )
    v32 = dataclasses.replace(
        v31, version="0.32.0", transformers=">=5.16.1,<5.20.0", python=">=3.11"
    )
    v33 = dataclasses.replace(
        v32,
        version="0.33.0",
        transformers=">=5.16.1,<5.21.0",
        torch="2.14.0",
        parameters_known=True,
        moe_dataflow=True,
        moe_score_after_topk=True,
        moe_topk_aliases=(
            "num_experts_per_tok",
            "num_experts_per_token",
            "top_k_experts",
            "moe_topk",
            "moe_top_k",
            "top_k",
        ),
    )
    return (v25, v26, v27, v28, v29, v30, v31, v32, v33)


# What each fuser makes of a model, for the line that says it is new (or gone).
FUSER_WORDS = {
    "MLA": "latent attention becomes MLAAttention",
    "GLU": "act(gate(x)) * up(x) becomes one merged projection and a fused activation",
    "QKV": "query, key and value projections become one",
    "PackedQKV": "self.c_attn(x).split((q, kv, kv), dim=-1) becomes a QKVParallelLinear",
    "MergedColumnParallel": "two or more linears on one input of the forward become one, where "
    "no better fuser takes them",
    "RMSNorm": "RMS norms become vLLM's kernel",
    "Attention": "the attention call is read from the source and given its own vLLM layer",
}


@dataclass(frozen=True)
class Topic:
    """Something beside the fusers that an author cares about, since a release ("0.28")."""

    name: str
    since: str
    gained: str
    lost: str
    effect: Effect = Effect.ALLOWED
    reverse: Effect = Effect.REFUSED

    def holds(self, release: tuple[int, ...]) -> bool:
        """Is it so in a release, given as (0, 28)?"""
        return release >= Version(self.since).release


def _changed(name: str, since: str, gained: str, lost: str) -> Topic:
    return Topic(name, since, gained, lost, Effect.CHANGED, Effect.CHANGED)


TOPICS = (
    _changed(
        "inputs",
        "0.26",
        "a forward is called with either input_ids or inputs_embeds, never both",
        "a forward may be called with both input_ids and inputs_embeds",
    ),
    Topic(
        "value padding",
        "0.27",
        "values may be narrower than queries: vLLM pads them and cuts the result back",
        "values must be as wide as queries",
    ),
    Topic(
        "MoE routing",
        "0.27",
        "n_group, topk_group, routed_scaling_factor and moe_router_dtype of the config are used",
        "n_group, topk_group, routed_scaling_factor and moe_router_dtype are not used",
    ),
    Topic(
        "multimodal",
        "0.27",
        "models with audio inputs (transformers 5.13 or newer)",
        "audio inputs are not served",
    ),
    _changed(
        "multimodal",
        "0.28",
        "a model is multimodal when get_text_config() returns another object than the config",
        "a model is multimodal when get_text_config() returns something unequal to the config",
    ),
    Topic(
        "LM head",
        "0.28",
        "final_logit_softcapping of the config is applied to the logits",
        "final_logit_softcapping is ignored and the logits are wrong",
    ),
    _changed(
        "sliding window",
        "0.28",
        "layer_types and sliding_window are read from the text config",
        "layer_types and sliding_window are read from the top-level config",
    ),
    Topic(
        "precision",
        "0.28",
        "_keep_in_fp32_modules_strict is honoured",
        "_keep_in_fp32_modules_strict is ignored",
    ),
    Topic(
        "MLA",
        "0.28",
        "latent attention needs transformers 5.15 or newer",
        "latent attention is served as plain attention",
        Effect.CHANGED,
        Effect.UNFUSED,
    ),
    Topic(
        "embeddings",
        "0.28",
        "a subclass of nn.Embedding keeps its own behaviour, not only embed_scale",
        "of a subclass of nn.Embedding only the attribute embed_scale is kept",
    ),
    Topic(
        "MoE routing",
        "0.29",
        "top-k, expert width and norm_topk_prob may be lists, one value per layer",
        "top-k, expert width and norm_topk_prob are one value for all layers",
    ),
    _changed(
        "multimodal",
        "0.29",
        "a processor that honours return_text_replacement_offsets is asked where its "
        "placeholders are",
        "placeholders are found through mm_token_type_ids only",
    ),
    Topic(
        "embeddings",
        "0.30",
        "every vocabulary table is split over the ranks, wherever the model keeps it",
        "only the input embedding is split over the ranks",
        Effect.FUSED,
        Effect.UNFUSED,
    ),
    _changed(
        "attention",
        "0.30",
        "vLLM keeps its layer as the attribute attn of the attention module: do not use that "
        "name, neither as a child nor as a class attribute",
        "vLLM finds its layer by module.layer_idx in the keyword arguments",
    ),
    Topic(
        "classification",
        "0.31",
        "cross-encoders get their token_type_ids",
        "cross-encoders do not get their token_type_ids",
    ),
    Topic(
        "LayerNorm",
        "0.32",
        "an nn.LayerNorm over one dimension, with weight and bias, becomes vLLM's kernel",
        "nn.LayerNorm stays as it is",
        Effect.FUSED,
        Effect.UNFUSED,
    ),
    Topic(
        "multimodal",
        "0.32",
        "a processor must honour return_text_replacement_offsets, else the model is refused",
        "a processor need not honour return_text_replacement_offsets",
        Effect.REFUSED,
        Effect.ALLOWED,
    ),
    Topic(
        "multimodal",
        "0.32",
        "models with video inputs (transformers 5.18 or newer)",
        "video inputs are not served",
    ),
    _changed(
        "quantisation",
        "0.32",
        "scales of a quantised KV cache are found under the attention module's full path",
        "scales of a quantised KV cache are found under <layer>.attn",
    ),
    Topic(
        "dynamic rope",
        "0.33",
        'rope_type "dynamic" is compiled when the served length fits max_position_embeddings',
        'rope_type "dynamic" switches compilation off',
        Effect.FUSED,
        Effect.UNFUSED,
    ),
    _changed(
        "MoE routing",
        "0.33",
        "whether weights are renormalised is read from the router's forward",
        "whether weights are renormalised is read from norm_topk_prob of the config",
    ),
    Topic(
        "MoE routing",
        "0.33",
        "experts stored transposed (is_transposed = True on the experts) are loaded",
        "experts must be stored as [experts, out, in]",
    ),
    Topic(
        "MoE routing",
        "0.33",
        "a block whose router vLLM does not know, but with a shared expert, is replaced too: "
        "routing stays outside",
        "a block whose router vLLM does not know keeps its own forward",
        Effect.FUSED,
        Effect.UNFUSED,
    ),
    Topic(
        "MoE routing",
        "0.33",
        "a config with a list of expert counts is refused",
        "of a list of expert counts the first is taken",
        Effect.REFUSED,
        Effect.ALLOWED,
    ),
    Topic(
        "speculative decoding",
        "0.33",
        "multi-token-prediction heads (num_mtp_layers, transformers 5.20 or newer)",
        "multi-token-prediction heads are not served",
    ),
)
