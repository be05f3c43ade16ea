"""What to write for the names that transformers 5 no longer has, beside plain moves.

Read off the wheels: the new names have the same source or, for types, only annotate; the
constants are true for every torch that transformers 5 runs with (2.4 and later).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from modelcheck.versions.table import Change

# Old name to where its successor is.
RENAMED: Mapping[str, tuple[str, str]] = {
    "LossKwargs": ("transformers.utils", "TransformersKwargs"),
    "SequenceSummary": ("transformers.models.gpt2.modeling_gpt2", "GPT2SequenceSummary"),
    "is_flash_attn_available": ("transformers.utils", "is_flash_attn_2_available"),
}
# What an instance of a removed class is one of now; the new class is not built as the old one was.
STAND_INS: Mapping[str, tuple[str, str]] = {
    "HybridCache": ("transformers.cache_utils", "StaticCache"),
}
MOVED_MODULES: Mapping[str, str] = {"transformers.deepspeed": "transformers.integrations.deepspeed"}
TRUE_CALLS = frozenset(("is_torch_fx_available", "is_torchdynamo_available"))
TRUE_NAME = re.compile(r"is_torch_greater_or_equal_than_(1_\d+|2_[0-4])")
# Helpers of methods that nothing in transformers 5 calls, and those methods.
DEAD_HELPERS = frozenset(
    (
        "find_pruneable_heads_and_indices",
        "prune_conv1d_layer",
        "prune_linear_layer",
        "prune_layer",
        "assert_device_map",
        "get_device_map",
    )
)
# Packages whose base classes only served an export that transformers 5 has no more.
EXPORTS = ("transformers.onnx",)
DEAD_METHODS = frozenset(("prune_heads", "_prune_heads", "parallelize", "deparallelize"))


def successor(change: Change, module: str, name: str) -> tuple[str, str] | None:
    """Module and name to import in place of a removed one, None when there is none."""
    if change.replacement:
        home = change.replacement.split()[1]
        return home, name
    if name in RENAMED:
        return RENAMED[name]
    if name in STAND_INS:
        return STAND_INS[name]
    for old, new in MOVED_MODULES.items():
        if module == old:
            return new, name
    return None


def is_export(module: str) -> bool:
    """Is a module of a package in `EXPORTS`?"""
    return any(module == package or module.startswith(f"{package}.") for package in EXPORTS)


def always_true(name: str) -> bool:
    """Is what the name calls, or holds, true wherever transformers 5 runs?"""
    return name in TRUE_CALLS or bool(TRUE_NAME.fullmatch(name))
