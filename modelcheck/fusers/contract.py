"""What each vLLM release accepts: the questions that matchers ask, and the words for them.

A matcher asks the contract for a named behaviour; it never compares version numbers. The
releases themselves are in `contract_data`; what changed between two, in `contract_diff`.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.version import InvalidVersion, Version

from modelcheck.errors import UsageError


class Effect(enum.StrEnum):
    """What a difference between two releases means to an author."""

    ALLOWED = "you may now write"
    REFUSED = "now refused"
    FUSED = "now fused"
    UNFUSED = "no longer fused"
    CHANGED = "changed"


def flag(
    default: Any,
    gained: str,
    lost: str,
    effect: Effect = Effect.ALLOWED,
    reverse: Effect = Effect.REFUSED,
    about: str = "fusers",
) -> Any:
    """A behaviour with the words for gaining and losing it, and what either means.

    Of a text or a list, ``gained`` and ``lost`` are formatted with the new value as ``{new}``.
    """
    words = {"gained": gained, "lost": lost, "effect": effect, "reverse": reverse}
    return dataclasses.field(default=default, metadata={**words, "about": about})


@dataclass(frozen=True)
class Contract:
    """One release of vLLM's Transformers modeling backend."""

    version: str
    transformers: str  # the range in the wheel's metadata
    fusers: tuple[str, ...]  # in vLLM's order of trial; AttentionFuser last, MoE apart
    torch: str = ""  # the version the wheel pins
    python: str = ">=3.10"
    # Acceptance
    text_gate: bool = flag(
        False,
        "a model without _supports_attention_backend is accepted when the text of its file "
        "shows that it uses the attention interface",
        "_supports_attention_backend = True is required, whatever the file shows",
        about="acceptance",
    )
    refuses_undispatched: bool = flag(
        False,
        "a layer that does not call the attention interface (linear attention, Mamba, "
        "convolution) ends the load",
        "a layer that does not call the attention interface is accepted silently, with wrong "
        "memory or wrong numbers",
        Effect.REFUSED,
        Effect.CHANGED,
        about="acceptance",
    )
    scaling_from_source: bool = flag(
        False,
        "scaling= in the attention call must be a plain number or a self attribute: vLLM reads "
        "it from the source when it builds the model",
        "scaling= in the attention call may be any expression, read when the model runs",
        Effect.REFUSED,
        Effect.ALLOWED,
        about="attention",
    )
    sinks: bool = flag(
        False,
        "attention sinks: s_aux=self.<parameter> in the attention call is honoured",
        "s_aux= in the attention call is ignored and the numbers are wrong",
        about="attention",
    )
    state_in_kwargs: bool = flag(
        True,
        "**kwargs must be handed on through every layer down to the attention call: vLLM's own "
        "state travels in it",
        "attention without **kwargs handed on to it: vLLM no longer needs them",
        Effect.REFUSED,
        Effect.ALLOWED,
        about="attention",
    )
    # Tracing
    meta_execution: bool = flag(
        True,
        "shapes of hidden_states may be unpacked, starred and measured anywhere in a forward, "
        "`if past_key_values is not None` and **kwargs no longer end the analysis",
        "only hidden_states.shape and slices of it may be unpacked before the projections",
    )
    interface_leaf: bool = flag(
        True,
        "the analysis goes on behind the attention call",
        "the analysis ends at the attention call",
        Effect.CHANGED,
        Effect.CHANGED,
    )
    item_assignment: bool = flag(
        False,
        "assigning to items of a tensor (x[i] = y) no longer ends the analysis",
        "assigning to items of a tensor (x[i] = y) ends the analysis",
    )
    parameters_known: bool = flag(
        False,
        "shapes computed with the module's own parameters may be unpacked",
        "shapes computed with the module's own parameters are not known",
    )
    # Matching
    keyed_by_children: bool = flag(
        True,
        "instances of one class with different children are judged apart",
        "all instances of a class are judged by one of them, whatever their children",
        Effect.CHANGED,
        Effect.CHANGED,
    )
    last_instance_decides: bool = flag(
        False,
        "where instances of a class have different children, the last one decides for all",
        "where instances of a class have different children, the last one no longer decides",
        Effect.CHANGED,
        Effect.CHANGED,
    )
    next_after_failed_rewrite: bool = flag(
        True,
        "a class whose source one fuser cannot rewrite is offered to the others",
        "a class whose source one fuser cannot rewrite is left as it is",
        Effect.FUSED,
        Effect.UNFUSED,
    )
    one_fuser_per_class: bool = flag(
        True,
        "the first fuser that matches a class is the only one tried on its instances",
        "an instance that the best fuser cannot take is offered to the next one",
        Effect.UNFUSED,
        Effect.FUSED,
    )
    existence_guards: bool = flag(
        False,
        "guards such as `if self.v_proj is not None`, and projections called in different "
        "branches, no longer prevent a fusion",
        "a guard on a projection, or projections called in different branches, prevent a fusion",
    )
    counts_every_mention: bool = flag(
        True,
        "a projection's name as an attribute of any other object (self.other.q_proj) prevents "
        "the fusion",
        "a projection's name may be an attribute of other objects",
        Effect.REFUSED,
        Effect.ALLOWED,
    )
    input_stability: bool = flag(
        False,
        "arithmetic between the first and the last of merged projections (q = self.q_proj(x) * "
        "self.scaling, torch.tanh(self.q_proj(x))) prevents the fusion: compute after the last",
        "arithmetic between merged projections is accepted",
        Effect.REFUSED,
        Effect.ALLOWED,
    )
    numbered_temporaries: bool = flag(
        False,
        "local names that begin with _vllm_merged_ prevent a fusion",
        "local names such as q_proj_fused prevent a fusion",
        Effect.REFUSED,
        Effect.REFUSED,
    )
    equal_glu_sizes: bool = flag(
        False,
        "gate and up projections must be equally wide, and divisible by the tensor-parallel "
        "size: before, unequal ones gave wrong numbers",
        "gate and up projections of unequal width are merged, with wrong numbers",
        Effect.REFUSED,
        Effect.CHANGED,
    )
    glu_per_instance: bool = flag(
        False,
        "input sizes and biases of gate and up are compared for every instance",
        "input sizes and biases of gate and up are compared for one instance of a class",
        Effect.CHANGED,
        Effect.CHANGED,
    )
    o_proj_by_dataflow: bool = flag(
        True,
        "the output projection is the linear that makes the returned value",
        "the output projection is the one other linear as wide as the query",
        Effect.CHANGED,
        Effect.CHANGED,
    )
    module_head_dim: bool = flag(
        True,
        "attention modules may have a head size of their own, as self.head_dim",
        "the model's one head size decides which query, key and value can be merged",
    )
    pow_as_rsqrt: bool = flag(
        False,
        "an RMSNorm with x ** -0.5 or torch.pow(x, -0.5) for rsqrt, or with keyword operands, "
        "is recognised",
        "an RMSNorm with x ** -0.5 for rsqrt, or with keyword operands, is not recognised",
        Effect.FUSED,
        Effect.UNFUSED,
    )
    crashes_on_pow_keyword: bool = flag(
        True,
        "x.pow(exponent=2), with the keyword, in a norm ends the load with a ValueError",
        "x.pow(exponent=2) in a norm no longer ends the load",
        Effect.REFUSED,
        Effect.ALLOWED,
    )
    eps_by_attribute: bool = flag(
        True,
        "an RMSNorm's eps is read from the instance's attribute; a literal one, or one looked "
        "up in the config, is taken from one instance for all",
        "an RMSNorm's eps is found anew for every instance",
        Effect.CHANGED,
        Effect.CHANGED,
    )
    # MoE
    moe_runner: str = flag(
        "MoERunner",
        "experts become {new}",
        "experts become {new}",
        Effect.CHANGED,
        Effect.CHANGED,
        about="MoE routing",
    )
    moe_dataflow: bool = flag(
        False,
        "a MoE block that does more than route, run and add experts (dropout, tanh, scaling, "
        "weights changed in the block) keeps its own forward; before, the extra was lost",
        "what a MoE block does besides routing is dropped silently",
        Effect.UNFUSED,
        Effect.CHANGED,
        about="MoE routing",
    )
    moe_correction_bias: bool = flag(
        True,
        "a router may have an e_score_correction_bias, groups and a routed_scaling_factor",
        "a router has a weight and nothing else; groups and scaling factors are not known",
        about="MoE routing",
    )
    moe_score_after_topk: bool = flag(
        False,
        "a router may apply softmax or sigmoid after its top-k",
        "a router must apply softmax or sigmoid before its top-k",
        about="MoE routing",
    )
    moe_topk_aliases: tuple[str, ...] = flag(
        ("num_experts_per_tok", "top_k"),
        "a config that names the number of experts per token {new}",
        "the config must name the number of experts per token {new}",
        about="MoE routing",
    )


@cache
def known_releases() -> tuple[Contract, ...]:
    """All contracts, oldest first."""
    from modelcheck.fusers.contract_data import releases

    return releases()


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
