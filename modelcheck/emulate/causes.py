"""Why the outputs differ: what was seen at the interface, and small experiments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from modelcheck.emulate import ordinary
from modelcheck.emulate.attention import SLIDING, Refused, attentions
from modelcheck.emulate.engine import Engine, Fed, Step
from modelcheck.emulate.models import Models
from modelcheck.emulate.results import FirstDifference

FULL = ("full_attention", "attention", SLIDING)


@dataclass(frozen=True)
class Case:
    """A difference to explain: the models, the engine, what it was fed, and the first module.

    ``ordinary`` are the outputs of the ordinary run for each sequence, ``prefill_differs`` says
    whether already the prompts' outputs differ.
    """

    models: Models
    engine: Engine
    sequences: Sequence[Fed]
    ordinary: Sequence[torch.Tensor]
    first: FirstDifference | None
    prefill_differs: bool
    tolerance: float

    def alone(self, **options: Any) -> torch.Tensor | None:
        """vLLM's outputs for the longest prompt in a row of its own; None where it fails."""
        self.engine.reset()
        step = Step(((self.longest, self.sequences[self.longest].prompt, 0),))
        try:
            return self.engine.outputs(self.engine.call(step, **options))
        except Refused:
            return None

    @property
    def longest(self) -> int:
        """Which prompt is the longest."""
        lengths = [len(s.prompt) for s in self.sequences]
        return lengths.index(max(lengths))

    def equals_ordinary(self, outputs: torch.Tensor | None) -> bool:
        """Are these the ordinary outputs of the longest prompt?"""
        if outputs is None:
            return False
        expected = self.ordinary[self.longest][: len(outputs)]
        return _close(expected, outputs, self.tolerance)


def _close(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> bool:
    return bool((one - other).abs().max() <= tolerance)


def causes(case: Case) -> tuple[str, ...]:
    """The likely causes, the likeliest first; none where no experiment shows any."""
    if case.first is not None and case.first.path == "head":
        return (
            f"{type(case.models.whole).__name__} does more to the logits than vLLM's head: only "
            "lm_head, config.final_logit_softcapping and config.logit_scale, in this order",
        )
    found = list(dict.fromkeys((*_direction(case), *_interface(case), *_windows(case))))
    if not found:
        found = [*_positions(case), *_mixing(case)]
    if not found and not case.prefill_differs:
        found = [
            "only generated tokens differ: something is cut to the length of the step, such as a "
            "table of rotary embeddings, or counted along it"
        ]
    return tuple(found)


def _direction(case: Case) -> Iterator[str]:
    """Causal here, bidirectional there?"""
    causal = all(attention.causal for attention in attentions(case.engine.base))
    looks = _looks_ahead(case)
    if causal and looks:
        yield (
            "the model looks at later tokens, vLLM runs it as a causal decoder: its attention "
            "modules need is_causal = False"
        )
    if not causal and not looks:
        names = {
            type(m).__name__
            for m in case.engine.base.modules()
            if not getattr(m, "is_causal", True)
        }
        yield (
            f"the model is causal, vLLM runs it as an encoder: is_causal is false in "
            f"{', '.join(sorted(names))}"
        )


def _looks_ahead(case: Case) -> bool:
    prompt = case.sequences[case.longest].prompt
    other = (*prompt[:-1], (prompt[-1] + 1) % case.models.config.get_text_config().vocab_size)
    head = case.models.has_head
    one, two = (ordinary.outputs(case.models.whole, tokens, head) for tokens in (prompt, other))
    return not _close(one[: len(prompt) // 2], two[: len(prompt) // 2], case.tolerance)


def _interface(case: Case) -> Iterator[str]:
    """What the model asks of the interface, and vLLM does not hear."""
    packing = case.engine.packing
    if packing.masks:
        yield (
            f"{_first(packing.masks)} gives the interface a mask that it made itself, and vLLM "
            "ignores masks"
        )
    for path, (asked, used) in list(packing.windows.items())[:1]:
        yield (
            f"{path} asks the interface for sliding_window={asked}, vLLM takes {used} from "
            "config.layer_types and config.sliding_window"
        )
    for path, (cap, used_cap) in list(packing.softcaps.items())[:1]:
        yield (
            f"{path} asks the interface for softcap={cap}, vLLM takes {used_cap} from "
            "config.attn_logit_softcapping"
        )
    for path, (scale, used_scale) in list(packing.scalings.items())[:1]:
        yield f"{path} is called with scaling={scale:g}, vLLM has taken {used_scale:g}"


def _first(paths: set[str]) -> str:
    return min(paths, key=lambda path: (len(path), path))


def _windows(case: Case) -> Iterator[str]:
    """Would another window give the ordinary outputs?"""
    text = case.models.config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ()) - set(FULL)
    size = getattr(text, "sliding_window", None) or None
    before = [(a, a.window) for a in attentions(case.engine.base)]
    for value, words in ((None, "without a window"), (size, f"with a window of {size}")):
        if all(window == value for _, window in before):
            continue
        for attention, _ in before:
            attention.window = value
        if case.equals_ordinary(case.alone()):
            yield (
                f"the outputs are equal {words} in every layer; vLLM decides it by "
                "config.layer_types and config.sliding_window"
            )
        for attention, window in before:
            attention.window = window
    if kinds and case.prefill_differs:
        yield f"layers of the type {', '.join(sorted(kinds))} are full attention in vLLM"


def _positions(case: Case) -> Iterator[str]:
    """Do positions have an effect? Stretched ones change what every position encoding does."""
    plain, stretched = case.alone(), case.alone(stretch=3)
    if plain is None or stretched is None or not torch.equal(plain, stretched):
        return
    yield (
        "position_ids have no effect: the model counts the tokens of the row itself, and in vLLM "
        "a row holds tokens of many sequences, one of each when it generates"
    )


def _mixing(case: Case) -> Iterator[str]:
    if case.prefill_differs and case.equals_ordinary(case.alone()):
        yield (
            "one prompt alone gives the ordinary outputs, several in one row do not: something "
            "outside attention mixes the tokens of the row"
        )
