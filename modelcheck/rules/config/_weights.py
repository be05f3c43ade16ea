"""Checkpoint names as vLLM maps them to modules, against the modules that a model has.

The mapping is that of vLLM 0.32 and 0.33 (contract section 1.14): the base model's prefix becomes
``model.``, or is put in front, or is taken away; buffers of rotary embeddings are dropped.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from modelcheck.rules.plans._models import EXPERTS, PlannedModel
from modelcheck.source.plans import generic_name
from modelcheck.source.repo import Repo

PREFIX = "model."
_DROPPED = re.compile(
    r"rotary_pos_emb\.inv_freq|rotary_emb\.(inv_freq|cos_cached|sin_cached)|lm_head\."
)
_DRAFTS = ("n_predict", "num_nextn_predict_layers", "mtp_num_hidden_layers")
_LEGACY = (".gamma", ".beta")  # transformers may rename these


@dataclass(frozen=True)
class Known:
    """The names of a model with numbers as ``*``, and those that stay open."""

    names: frozenset[str]
    open: frozenset[str]

    def takes(self, name: str) -> bool:
        """Is there, or may there be, something for this name (relative to the base model)?"""
        generic = generic_name(name)
        if generic in self.names or name.endswith((".bias", *_LEGACY)):
            return True
        parts = generic.split(".")
        return EXPERTS in parts or any(
            ".".join(parts[:length]) in self.open for length in range(len(parts) + 1)
        )


def is_judged(model: PlannedModel) -> bool:
    """Is enough known of the model to compare names?"""
    return "" not in model.names.open and _ignored(model) is not None


def generic_names(model: PlannedModel) -> Known:
    """What a model takes."""
    names = {generic_name(n) for n in (*model.names.parameters, *model.names.optional)}
    return Known(frozenset(names), frozenset(generic_name(path) for path in model.names.open))


def module_name(model: PlannedModel, key: str, repo: Repo | None) -> str:
    """The name below the base model that a checkpoint's key is loaded into; "" when dropped."""
    if _DROPPED.search(key) or _is_draft(model, key):
        return ""
    if any(re.search(pattern, key) for pattern in _ignored(model) or ()):
        return ""
    prefix = model.info.find_attribute("base_model_prefix")
    own = getattr(prefix[1], "value", "") if prefix is not None else ""
    if own and own != "model" and key.startswith(f"{own}."):
        return key.removeprefix(f"{own}.")
    return key.removeprefix(PREFIX)


def unfilled(model: PlannedModel, loaded: set[str]) -> set[str]:
    """Parameters that certainly exist, and that none of the loaded names fills."""
    return {
        name
        for name in model.names.parameters
        if name not in loaded
        and EXPERTS not in name.split(".")
        and not name.endswith(".bias")
        and f"{name.rpartition('.')[0]}.gamma" not in loaded
    }


def _is_draft(model: PlannedModel, key: str) -> bool:
    """Is it of a layer behind the last, for speculative decoding?"""
    layers = model.config.values.get("num_hidden_layers")
    if not any(model.config.values.get(name) for name in _DRAFTS) or not isinstance(layers, int):
        return False
    return any(int(n) >= layers for n in re.findall(r"\.(\d+)\.", key)[:1])


def _ignored(model: PlannedModel) -> list[str] | None:
    """The patterns of ``_keys_to_ignore_on_load_unexpected``; None where they cannot be told."""
    found = model.info.find_attribute("_keys_to_ignore_on_load_unexpected")
    if found is None:
        return []
    try:
        value = ast.literal_eval(found[1])
        patterns = [str(item) for item in value or ()]
        for pattern in patterns:
            re.compile(pattern)
    except (ValueError, TypeError, re.error):
        return None
    return patterns
