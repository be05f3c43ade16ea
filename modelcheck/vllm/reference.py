"""The transformers side of parity: tiny random weights saved for vLLM, and the outputs for them.

Runs in a process of its own, before vLLM is imported anywhere: vLLM changes transformers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from modelcheck.dryrun.build import build
from modelcheck.emulate import ordinary
from modelcheck.emulate.attention import Refused
from modelcheck.emulate.locate import captured
from modelcheck.emulate.models import Models, prepare
from modelcheck.emulate.results import Outcome
from modelcheck.emulate.spec import EmulateSpec
from modelcheck.emulate.worker import job as emulated
from modelcheck.emulate.worker import make_prompts
from modelcheck.errors import BuildError, ModelcheckError
from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.fusers.traced import analyse_model
from modelcheck.vllm import parity_locate
from modelcheck.vllm.folder import write_folder
from modelcheck.vllm.probe import job as releases

RECORD = "reference.pt"  # in the model's folder; vLLM does not look at it


def job(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Write models with random weights, and what transformers makes of them.

    ``payload``: ``models``, each with ``spec`` (an `EmulateSpec` as JSON), an empty ``folder``
    and ``emulate``, whether to run the emulation first. In the folder are afterwards what vLLM
    loads and `RECORD`: ``prompts`` (token lists), ``fed`` (with the greedy tokens) and
    ``outputs`` (log-probabilities, [tokens, vocabulary] for each).
    The answer's ``models`` have ``emulation`` (as JSON, or None), ``reduced``, what was made
    smaller, ``wrong``, what a dry run says of fusions that change the numbers, ``latent``,
    whether it is an MLA model, ``fused_latent``, whether the MLA fuser takes it, and ``notes``;
    or ``error``, or ``refused``.
    """
    torch.set_num_threads(1)
    return {"models": [_guarded(model) for model in payload["models"]]}


def _guarded(payload: Mapping[str, Any]) -> dict[str, Any]:
    spec = EmulateSpec.from_json(payload["spec"])
    try:
        emulation = emulated({"spec": payload["spec"]})["report"] if payload["emulate"] else None
        if emulation is not None and emulation["outcome"] == Outcome.REFUSED.value:
            return {"emulation": emulation, "refused": emulation["causes"][0]}
        models = prepare(spec)
        return {"emulation": emulation, **_reference(spec, models, Path(payload["folder"]))}
    except Refused as refused:
        return {"emulation": None, "refused": str(refused)}
    except ModelcheckError as error:
        return {"error": str(error)}


def _reference(spec: EmulateSpec, models: Models, folder: Path) -> dict[str, Any]:
    if not models.has_head:
        raise BuildError(f"{spec.build.target}: no language model head, whose outputs to compare")
    save(spec, models, folder)
    prompts = make_prompts(models.config, spec.seed)
    fed, outputs = zip(*(greedy(models.whole, p, spec.steps) for p in prompts), strict=True)
    record = {"prompts": prompts, "fed": list(fed), "outputs": list(outputs)}
    torch.save(record, folder / RECORD)
    base = type(models.base).__name__
    parity_locate.save(captured(models.whole, fed, models.has_head, base), folder)
    fusions = _fusions(spec, models)
    return {
        "reduced": list(models.reduced),
        "notes": list(models.notes),
        "wrong": [f"{r.class_name}, {r.fuser}: {r.wrong}" for r in fusions if r.wrong],
        "latent": getattr(models.config.get_text_config(), "kv_lora_rank", None) is not None,
        "fused_latent": any(r.fuser == "MLA" for r in fusions),
    }


def save(spec: EmulateSpec, models: Models, folder: Path) -> None:
    """The weights by ``save_pretrained``, the repository's code, and the configuration run."""
    models.whole.save_pretrained(folder)
    if spec.build.folder is None:
        return  # the configuration of transformers' own type is saved with it
    built = dataclasses.replace(build(spec.build), config=models.config)
    changed = dataclasses.replace(spec.build, overrides=models.changes)
    write_folder(changed, built, folder)


def greedy(model: Any, prompt: Sequence[int], steps: int) -> tuple[list[int], torch.Tensor]:
    """A prompt with the ``steps`` likeliest tokens after it, and the outputs at each token.

    The whole sequence goes through the model again for every token, so that no cache counts.
    """
    tokens = list(prompt)
    rows = ordinary.outputs(model, tokens, True)
    for _ in range(steps):
        tokens.append(int(rows[-1].argmax()))
        rows = ordinary.outputs(model, tokens, True)
    if not bool(rows.isfinite().all()):
        raise BuildError("transformers' own run gives NaN or infinity")
    return tokens, rows


def _fusions(spec: EmulateSpec, models: Models) -> list[FusionResult]:
    contract = contract_for(releases({})["vllm"])
    model = build(dataclasses.replace(spec.build, overrides=models.changes)).model
    reports = analyse_model(model, config=models.config, contract=contract)
    return [r for report in reports for r in report.fusions if r.fires is Fires.YES]
