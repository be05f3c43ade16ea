"""Making a configuration small enough to run: windows that a prompt leaves, then widths.

Only random weights of our own go with it. Each change is kept only if the model
still builds with it; what was changed is reported.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from modelcheck.dryrun.shrink import configs
from modelcheck.emulate.spec import WINDOW

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from modelcheck.dryrun.target import BuildSpec

ENOUGH = 30_000_000  # parameters of a model that runs in seconds; smaller ones stay as they are
MOST = 300_000_000  # parameters, 1.2 GB a copy; larger ones are not run

VOCABULARY, WIDTH, HIDDEN, HEADS = 512, 128, 128, 8
WINDOWS = ("sliding_window", "attention_chunk_size")
TEXT_WINDOWS = (*WINDOWS, "window_size")  # an image's window_size goes by the size of the image
EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "top_k")
INNER = re.compile(r"(^|_)(intermediate|ffn|inner|expert)(_\w+)?_(size|dim)$|^d_ff$|^n_inner$")

Change = tuple[str, Any]  # name of a value ("text_config.vocab_size") and what it becomes


def shorten_windows(config: PretrainedConfig) -> list[Change]:
    """Windows and chunks that a prompt is longer than, so that what they do is seen."""
    return [
        (prefix + name, WINDOW)
        for prefix, part in configs(config)
        for name in (TEXT_WINDOWS if "vocab_size" in vars(part) else WINDOWS)
        if isinstance(value := vars(part).get(name), int) and value > WINDOW
    ]


def steps(config: PretrainedConfig) -> Iterator[list[Change]]:
    """Changes to try one after another, each a few values that belong together."""
    for prefix, part in configs(config):
        values = {k: v for k, v in vars(part).items() if type(v) is int}
        if values.get("vocab_size", 0) > VOCABULARY:
            ids = [k for k, v in values.items() if k.endswith("_token_id") and v >= VOCABULARY]
            yield [(prefix + "vocab_size", VOCABULARY), *((prefix + name, 1) for name in ids)]
        yield _experts(prefix, values)
        yield [(prefix + k, WIDTH) for k, v in values.items() if INNER.search(k) and v > WIDTH]
        yield _heads(prefix, values)


def _heads(prefix: str, values: dict[str, int]) -> list[Change]:
    """Fewer heads of the same size, as many queries to a key, and a narrower model."""
    heads, width = values.get("num_attention_heads", 0), values.get("hidden_size", 0)
    shared = values.get("num_key_value_heads", heads)
    if not heads or not shared or heads % shared or width <= HIDDEN:
        return []
    fewer = heads
    if heads > HEADS:
        fewer = max(1, HEADS * shared // heads) * heads // shared
    changes = {"num_attention_heads": fewer, "num_key_value_heads": fewer * shared // heads}
    # Without a head_dim it is the width by the heads, and rotary settings go by that.
    changes["hidden_size"] = HIDDEN if "head_dim" in values else fewer * (width // heads)
    return [(prefix + name, value) for name, value in changes.items() if name in values]


def _experts(prefix: str, values: dict[str, int]) -> list[Change]:
    chosen = next((values[name] for name in CHOSEN if name in values), 1)
    groups = max(values.get("n_group", 1), 1)
    least = -(-max(4, 2 * chosen) // groups) * groups
    return [(prefix + name, least) for name in EXPERTS if values.get(name, 0) > least]


def changed(config: PretrainedConfig, changes: list[Change]) -> PretrainedConfig:
    """A copy with other values."""
    new = copy.deepcopy(config)
    parts = dict(configs(new))
    for name, value in changes:
        prefix, dot, key = name.rpartition(".")
        setattr(parts[prefix + dot], key, value)
    return new


def parameters(config: PretrainedConfig, spec: BuildSpec) -> int | None:
    """How many parameters a configuration gives, built on meta; None where it does not build."""
    from modelcheck.dryrun import build

    try:
        model = build.instantiate(copy.deepcopy(config), spec)
    except Exception:
        return None
    return sum(int(p.numel()) for p in model.parameters())


def narrow(
    config: PretrainedConfig, parameters: Callable[[PretrainedConfig], int | None]
) -> tuple[PretrainedConfig, list[Change], int]:
    """Shrink until there are few enough parameters; (configuration, what was changed, how many).

    ``parameters`` builds a configuration on meta and counts; None where it does not build.
    """
    done = shorten_windows(config)
    config = changed(config, done)
    count = parameters(config) or 0
    for change in steps(config) if count > ENOUGH else ():
        if not change:
            continue
        smaller = changed(config, change)
        fewer = parameters(smaller)
        if fewer is not None and fewer < count:
            config, count = smaller, fewer
            done += change
        if count <= ENOUGH:
            break
    return config, done, count
