"""Where vLLM's numbers begin to differ: hooks on its modules, beside what transformers' do.

vLLM keeps the module tree of the model and replaces modules in place, so most paths are on both
sides; of a projection that was merged the module around it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from modelcheck.emulate.locate import Captures, first_difference, record, selected
from modelcheck.emulate.results import FirstDifference

CAPTURES = "captures.pt"  # in the model's folder: what transformers' modules do, `save`d


def save(captures: Captures, folder: Path) -> None:
    """Keep what `modelcheck.emulate.locate.captured` found, for `first`."""
    torch.save(captures, folder / CAPTURES)


def first(
    llm: Any,
    folder: Path,
    fed: Sequence[Sequence[int]],
    index: int,
    length: int,
    tolerance: float,
    prefill: bool,
) -> dict[str, Any] | None:
    """The first module of vLLM's that makes another output of equal input, as JSON.

    The prompt ``index`` of those that were ``fed`` to transformers, ``length`` tokens long, goes
    through the engine once more; its tokens after that are looked at as long as they are the
    same. ``class_name`` is that in vLLM. "head" where all modules agree on the prompt although
    the ``prefill`` differs; None where nothing is known, as of an engine in another process.
    """
    path = folder / CAPTURES
    calls, made = _calls(llm, fed[index], length)
    if not path.exists() or not calls or calls[0][0] != length:
        return None
    captures = torch.load(path, weights_only=True)
    row = sum(len(tokens) for tokens in fed[:index])
    for number, (tokens, theirs) in enumerate(calls):
        if list(made[:number]) != list(fed[index][length : length + number]):
            break  # fed with another token than transformers was
        mine = selected(captures, range(row, row + tokens))
        known = comparable(mine, theirs)
        found = first_difference(mine, known, tolerance, "decode" if number else "prefill")
        if found is not None:
            return asdict(found)
        if prefill:
            agree = first_difference(_outputs_of(mine), _outputs_of(known), tolerance, "") is None
            return asdict(FirstDifference("head", "", "prefill", 0.0)) if agree and known else None
        row += tokens
    return None


def comparable(mine: Captures, theirs: Captures) -> Captures:
    """Of vLLM's modules those that are called with the same tensors as transformers'.

    An activation that vLLM gives two merged projections is not one of them.
    """
    found: Captures = {}
    for path, one in theirs.items():
        given = mine[path]["inputs"] if path in mine else {}
        both = [(value, given[name]) for name, value in one["inputs"].items() if name in given]
        if both and all(a.shape == b.shape for a, b in both):
            found[path] = one
    return found


def _outputs_of(captures: Captures) -> Captures:
    return {path: {**one, "inputs": {}} for path, one in captures.items()}


def _calls(llm: Any, fed: Sequence[int], length: int) -> tuple[list[tuple[int, Captures]], Any]:
    """What vLLM's modules do in each call of the base model: (tokens, captures); and its tokens."""
    from vllm import SamplingParams

    (backend,) = llm.apply_model(_itself)
    base = getattr(backend, "model", None)
    if base is None:
        return [], ()
    original, calls = base.forward, []

    def forward(*args: Any, **kwargs: Any) -> Any:
        outputs: list[Any] = []
        tokens = kwargs["position_ids"].shape[-1]
        call = record(base, lambda: outputs.append(original(*args, **kwargs)), tokens)
        calls.append((tokens, call))
        return outputs[0]

    sampling = SamplingParams(temperature=0.0, max_tokens=len(fed) - length, ignore_eos=True)
    sampling.detokenize = False
    base.forward = forward
    try:
        prompt = {"prompt_token_ids": list(fed[:length])}
        (answer,) = llm.generate([prompt], sampling, use_tqdm=False)
    finally:
        base.forward = original
    return calls, answer.outputs[0].token_ids


def _itself(model: Any) -> Any:
    return model
