"""What each vLLM release accepts, as data. Source: the wheels of vLLM 0.25.1 to 0.33.0.

A matcher asks the contract for a named behaviour; it never compares version numbers.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache

from packaging.version import InvalidVersion, Version

from modelcheck.errors import UsageError


@dataclass(frozen=True)
class Contract:
    """One release of vLLM's Transformers modeling backend."""

    version: str
    transformers: str  # the range in the wheel's metadata
    fusers: tuple[str, ...]  # in vLLM's order of trial; AttentionFuser last, MoE apart
    # Acceptance
    text_gate: bool = False  # 0.30: `_can_set_attn_implementation` also opens the gate
    refuses_undispatched: bool = False  # 0.30: "Layer i does not dispatch"
    scaling_from_source: bool = False  # 0.30: `scaling=` resolved when the model is built
    sinks: bool = False  # 0.30: `s_aux=` is honoured
    state_in_kwargs: bool = True  # to 0.29: attention_instances travel through **kwargs
    # Tracing
    meta_execution: bool = True  # 0.27: ops run on meta tensors, past_key_values is None
    interface_leaf: bool = True  # 0.27: get_interface(...) does not end the trace
    item_assignment: bool = False  # 0.30: x[i] = y on a proxy is recorded
    parameters_known: bool = False  # 0.33: the meta value of a parameter; before, a recursion
    # Matching
    keyed_by_children: bool = True  # 0.28: one match per (class, child names)
    next_after_failed_rewrite: bool = True  # 0.27
    one_fuser_per_class: bool = True  # to 0.29
    existence_guards: bool = False  # 0.30: `if self.p is not None` is folded
    input_stability: bool = False  # 0.30: a rebound or mutated input refuses
    equal_glu_sizes: bool = False  # 0.30: also divisible by the TP size
    o_proj_by_dataflow: bool = True  # 0.27; before: the one child of the right width
    module_head_dim: bool = True  # 0.28: the module's own head_dim before the model's
    pow_as_rsqrt: bool = False  # 0.31: x ** -0.5 and keyword operands
    crashes_on_pow_keyword: bool = True  # to 0.30: pow(exponent=...) ends the load
    eps_by_attribute: bool = True  # 0.29: one attribute, read per instance
    # MoE
    moe_runner: str = "MoERunner"  # "FusedMoE" to 0.26
    moe_dataflow: bool = False  # 0.33: fail-closed matching of the block
    moe_correction_bias: bool = True  # 0.27
    moe_score_after_topk: bool = False  # 0.33
    moe_topk_aliases: tuple[str, ...] = ("num_experts_per_tok", "top_k")


_BEFORE_PACKED = ("GLU", "QKV", "RMSNorm")
_PACKED = ("GLU", "QKV", "PackedQKV", "RMSNorm")
_MLA = ("MLA", *_PACKED)
_ATTENTION = ("MLA", "GLU", "QKV", "PackedQKV", "MergedColumnParallel", "RMSNorm", "Attention")


def _releases() -> tuple[Contract, ...]:
    v25 = Contract(
        version="0.25.1",
        transformers=">=5.5.3",
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
        fusers=_PACKED,
        meta_execution=True,
        interface_leaf=True,
        next_after_failed_rewrite=True,
        o_proj_by_dataflow=True,
        moe_runner="MoERunner",
        moe_correction_bias=True,
    )
    v28 = dataclasses.replace(
        v27, version="0.28.0", fusers=_MLA, keyed_by_children=True, module_head_dim=True
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
        input_stability=True,
        equal_glu_sizes=True,
    )
    v31 = dataclasses.replace(
        v30,
        version="0.31.0",
        transformers=">=5.10.4,<5.18.0",
        pow_as_rsqrt=True,
        crashes_on_pow_keyword=False,
    )
    v32 = dataclasses.replace(v31, version="0.32.0", transformers=">=5.16.1,<5.20.0")
    v33 = dataclasses.replace(
        v32,
        version="0.33.0",
        transformers=">=5.16.1,<5.21.0",
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


@cache
def known_releases() -> tuple[Contract, ...]:
    """All contracts, oldest first."""
    return _releases()


def newest() -> Contract:
    """The newest release that modelcheck knows."""
    return known_releases()[-1]


def contract_for(version: str | None) -> Contract:
    """The contract of a vLLM release ("0.33", "0.32.0+cpu"); the newest known without one.

    A release newer than the newest known is judged by that one (`is_newer` tells). Raises
    `UsageError` for text that is no version and for releases before 0.25, which had no fusers.
    """
    if version is None:
        return newest()
    try:
        wanted = Version(version).release[:2]
    except InvalidVersion:
        raise UsageError(f"--vllm: {version!r} is not a version, try {newest().version}") from None
    known = known_releases()
    if wanted < Version(known[0].version).release[:2]:
        raise UsageError(
            f"--vllm: {version} has no fusers, the oldest release known is {known[0].version}"
        )
    for contract in reversed(known):
        if Version(contract.version).release[:2] <= wanted:
            return contract
    raise AssertionError("unreachable: the oldest known release was checked above")


def is_newer(version: str) -> bool:
    """Is this a release that modelcheck does not know yet?"""
    return Version(version).release[:2] > Version(newest().version).release[:2]
