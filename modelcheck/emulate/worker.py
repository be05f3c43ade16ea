"""The worker side of an emulation: both runs, and what became of them."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from modelcheck.dryrun.causes import describe
from modelcheck.emulate import locate, ordinary
from modelcheck.emulate.attention import Refused, attach, attentions
from modelcheck.emulate.causes import Case, causes
from modelcheck.emulate.compare import prompt_result, relative
from modelcheck.emulate.engine import Engine, Fed, Step, head_of
from modelcheck.emulate.models import Models, lost_buffers, prepare
from modelcheck.emulate.results import EmulationReport, FirstDifference, Outcome, PromptResult
from modelcheck.emulate.spec import PROMPTS, EmulateSpec
from modelcheck.errors import BuildError

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def job(payload: Mapping[str, Any]) -> dict[str, Any]:
    """``payload``: ``spec``, and ``record``, a file to write the run to for another version.

    The answer: ``report``, and ``changes`` of the configuration.
    """
    spec = EmulateSpec.from_json(payload["spec"])
    torch.set_num_threads(1)
    try:
        models = prepare(spec)
    except Refused as refused:
        return {"report": _refusal(spec, "", str(refused)).answer(), "changes": {}}
    name = type(models.whole).__name__
    try:
        report = emulate(spec, models, payload.get("record"))
    except Refused as refused:
        report = _refusal(spec, name, str(refused), models)
    return {"report": report.answer(), "changes": dict(models.changes)}


def _refusal(
    spec: EmulateSpec, name: str, cause: str, models: Models | None = None
) -> EmulationReport:
    return EmulationReport(
        target=spec.build.target,
        model_class=name,
        outcome=Outcome.REFUSED,
        causes=(cause,),
        tolerance=spec.tolerance,
        weights=models.weights if models else "random",
        reduced=models.reduced if models else (),
        notes=models.notes if models else (),
        versions=_versions(),
    )


def emulate(spec: EmulateSpec, models: Models, record: str | None = None) -> EmulationReport:
    """Run both and compare. Raises `Refused` where vLLM would stop, `BuildError` for a fault of
    the ordinary run."""
    packing = attach(models.base, models.config)
    head = head_of(models.whole, models.config) if models.has_head else None
    engine = Engine(models.base, packing, head, spec.build.folder)
    causal = all(attention.causal for attention in attentions(models.base))
    steps = spec.steps if causal else 0
    prompts = make_prompts(models.config, spec.seed)
    lost, problem = lost_buffers(models.whole)  # a call may fill or widen them
    ours = _ordinary(spec, models, prompts)  # a fault of the model itself comes first
    sequences, done = engine.generate(prompts, steps, spec.seed)
    ours = _ordinary(spec, models, [s.fed for s in sequences])
    tolerance = spec.tolerance
    if not models.has_head:
        tolerance = max(relative(rows, spec.tolerance) for rows in ours)
    theirs = [torch.stack(s.outputs) for s in sequences]
    results = tuple(
        prompt_result(mine, other, len(s.prompt), models.has_head, tolerance)
        for mine, other, s in zip(ours, theirs, sequences, strict=True)
    )
    differs = any(result.differs(tolerance) for result in results)
    first: FirstDifference | None = None
    why: tuple[str, ...] = ()
    if record is not None:
        _write(record, models, sequences, ours=theirs)
    if differs:
        first, why = _explain(models, engine, sequences, done, ours, results, tolerance)
    return EmulationReport(
        target=spec.build.target,
        model_class=type(models.whole).__name__,
        outcome=Outcome.DIFFERS if differs or lost else Outcome.SAME,
        compared="log-probabilities" if models.has_head else "hidden states",
        tolerance=tolerance,
        prompts=results,
        first=first,
        causes=why,
        lost_buffers=lost,
        weights=models.weights,
        reduced=models.reduced,
        notes=(
            *models.notes,
            *([problem] if problem else ()),
            *_cached_note(models, sequences, ours, tolerance),
            *_embeds_note(engine, prompts, tolerance),
        ),
        versions=_versions(),
    )


def make_prompts(config: PretrainedConfig, seed: int) -> list[list[int]]:
    """Random tokens, none of those that the configuration gives a meaning."""
    text = config.get_text_config()
    special = {
        value
        for part in (text, config)
        for name, value in vars(part).items()
        if name.endswith("token_id") and isinstance(value, int)
    }
    allowed = torch.tensor([i for i in range(text.vocab_size) if i not in special])
    generator = torch.Generator().manual_seed(seed)
    return [
        allowed[torch.randint(len(allowed), (length,), generator=generator)].tolist()
        for length in PROMPTS
    ]


def _ordinary(
    spec: EmulateSpec, models: Models, sequences: Sequence[Sequence[int]]
) -> list[torch.Tensor]:
    try:
        found = [ordinary.outputs(models.whole, s, models.has_head) for s in sequences]
    except Exception as error:
        traceback.print_exc()
        cause = describe(error, spec.build.folder)
        small = f", with {'; '.join(models.reduced)}" if models.reduced else ""
        raise BuildError(f"{spec.build.target}: transformers' own run fails: {cause}{small}") from (
            error
        )
    if not all(bool(rows.isfinite().all()) for rows in found):
        raise BuildError(f"{spec.build.target}: transformers' own run gives NaN or infinity")
    return found


def _explain(
    models: Models,
    engine: Engine,
    sequences: Sequence[Fed],
    done: Sequence[Step],
    ours: Sequence[torch.Tensor],
    results: Sequence[PromptResult],
    tolerance: float,
) -> tuple[FirstDifference | None, tuple[str, ...]]:
    prefill = any(not r.prefill <= tolerance for r in results)
    first = _locate(models, engine, sequences, done, prefill, tolerance)
    case = Case(models, engine, sequences, ours, first, prefill, tolerance)
    return first, causes(case)


def _locate(
    models: Models,
    engine: Engine,
    sequences: Sequence[Fed],
    done: Sequence[Step],
    prefill: bool,
    tolerance: float,
) -> FirstDifference | None:
    """Run again, and look at the first step that differs."""
    fed = [s.fed for s in sequences]
    ordinary_side = locate.captured(models.whole, fed, models.has_head, type(models.base).__name__)
    offsets = [sum(len(tokens) for tokens in fed[:i]) for i in range(len(fed))]
    engine.reset()
    for step in done:
        theirs = locate.record(engine.base, lambda s=step: engine.call(s), step.tokens)  # type: ignore[misc]
        rows = [offsets[i] + p + k for i, tokens, p in step.parts for k in range(len(tokens))]
        phase = "prefill" if prefill else "decode"
        mine = locate.selected(ordinary_side, rows)
        found = locate.first_difference(mine, theirs, tolerance, phase)
        if found is not None:
            return found
    if engine.head is None:
        return None
    return FirstDifference("head", type(models.whole).__name__, "prefill", float("nan"))


def _cached_note(
    models: Models, sequences: Sequence[Fed], ours: Sequence[torch.Tensor], tolerance: float
) -> list[str]:
    """Does transformers' own run with a cache agree with the one without?"""
    if len(sequences[0].fed) == len(sequences[0].prompt):
        return []
    try:
        for sequence, expected in zip(sequences, ours, strict=True):
            rows = ordinary.cached_outputs(
                models.whole, sequence.fed, len(sequence.prompt), models.has_head
            )
            gap = float((rows - expected).abs().max())
            if not gap <= tolerance:
                return [f"transformers' own run with a cache differs from that without: {gap:.2g}"]
    except Exception as error:
        return [f"transformers' own run with a cache fails: {describe(error, None)}"]
    return []


def _embeds_note(engine: Engine, prompts: Sequence[Sequence[int]], tolerance: float) -> list[str]:
    """Is a call with inputs_embeds the same as one with input_ids?"""
    step = Step(((0, tuple(prompts[0]), 0),))
    try:
        gaps = []
        for embeds in (False, True):
            engine.reset()
            gaps.append(engine.outputs(engine.call(step, embeds=embeds)))
    except Refused as refused:
        return [f"with inputs_embeds instead of input_ids: {refused}"]
    gap = float((gaps[0] - gaps[1]).abs().max())
    if gap <= tolerance:
        return []
    return [f"inputs_embeds give other outputs than input_ids ({gap:.2g}): prompt embeddings only"]


def _checkpoint(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The weights by the names that a checkpoint has them under, if the code renames any."""
    state = dict(model.state_dict())
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:  # before transformers 5 nothing is renamed
        return state
    return dict(revert_weight_conversion(model, state))


def _write(
    record: str, models: Models, sequences: Sequence[Fed], ours: Sequence[torch.Tensor]
) -> None:
    """What another version of the code needs to be compared with this run."""
    fed = [list(s.fed) for s in sequences]
    torch.save(
        {
            "state": _checkpoint(models.whole),
            "has_head": models.has_head,
            "base_class": type(models.base).__name__,
            "sequences": fed,
            "lengths": [len(s.prompt) for s in sequences],
            "outputs": list(ours),
            "captures": locate.captured(
                models.whole, fed, models.has_head, type(models.base).__name__
            ),
        },
        record,
    )


def _versions() -> dict[str, str]:
    import transformers

    return {"transformers": transformers.__version__, "torch": torch.__version__}
