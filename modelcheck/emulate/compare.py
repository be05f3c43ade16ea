"""Two runs of one sequence, row by row. Also used under an old transformers."""

from __future__ import annotations

import torch

from modelcheck.emulate.results import PromptResult


def prompt_result(
    ordinary: torch.Tensor, emulated: torch.Tensor, length: int, has_head: bool, tolerance: float
) -> PromptResult:
    """Compare outputs of a prompt of ``length`` tokens and what was generated after it.

    Both are [tokens, width]; the last row is what follows the last generated token. A most
    likely token that is as likely as another, within ``tolerance``, counts as the same.
    """
    steps = len(ordinary) - length
    difference = (ordinary - emulated).abs().nan_to_num(nan=float("inf")).amax(-1)
    top1 = greedy = None
    if has_head:
        agree = _same_choice(ordinary, emulated, tolerance)
        top1 = int(agree.sum())
        chosen = agree[length - 1 : length - 1 + steps].tolist()
        greedy = chosen.index(False) if False in chosen else steps
    return PromptResult(
        length=length,
        tokens=len(ordinary),
        steps=steps,
        prefill=float(difference[:length].max()),
        decode=float(difference[length:].max()) if steps else None,
        top1=top1,
        greedy=greedy,
    )


def _same_choice(ordinary: torch.Tensor, emulated: torch.Tensor, tolerance: float) -> torch.Tensor:
    theirs = ordinary.gather(-1, emulated.argmax(-1, keepdim=True))[:, 0]
    return theirs >= ordinary.amax(-1) - tolerance


def relative(ordinary: torch.Tensor, tolerance: float) -> float:
    """The tolerance for outputs that are no log-probabilities: relative to the largest."""
    return tolerance * max(1.0, float(ordinary.abs().max()))
