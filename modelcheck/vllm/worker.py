"""The worker side of ``load``: builds models in vLLM and says what really fused.

Run through `modelcheck.worker.run_job`, with an interpreter that has vLLM. One process can
look at many models: vLLM's import costs ten seconds, a model a second.
"""

from __future__ import annotations

import contextlib
import copy
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelcheck.errors import BuildError, ModelcheckError
from modelcheck.fusers.contract import Contract, contract_for, is_newer, newest
from modelcheck.fusers.results import ClassReport, FusionResult
from modelcheck.vllm.probe import job as releases

if TYPE_CHECKING:
    from modelcheck.dryrun.build import Built as MetaModel
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.vllm.adapter import Built


def job(payload: Mapping[str, Any]) -> dict[str, Any]:
    """One model. ``payload``: ``spec`` (a `BuildSpec` as JSON), ``device``, ``engine``, ``full``.

    Where weights are held in memory the model is made narrower, unless ``full`` is true.

    The answer holds ``dryrun`` and ``vllm`` (lists of `ClassReport` as JSON), ``backend``,
    ``tokens`` (None without an engine), ``depths``, ``warnings``, ``log`` (the Fused and Found
    lines), ``notes`` and ``versions``. Raises `BuildError` with the model's own fault, or with
    vLLM's refusal.
    """
    answer: dict[str, Any] = jobs({**payload, "specs": [payload["spec"]]})["models"][0]
    if "error" in answer:
        raise BuildError(answer["error"])
    return answer


def jobs(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Many models in one process: ``specs`` instead of ``spec``; an answer or error for each."""
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.vllm import adapter, engine

    specs = [BuildSpec(**spec) for spec in payload["specs"]]
    contract = contract_for(releases({})["vllm"])
    # All of them before vLLM is imported: it changes transformers, and the classes it builds.
    device = payload["device"]
    small = (payload["engine"] or device != "meta") and not payload.get("full")
    references = [_reference(spec, contract, small) for spec in specs]
    if any(isinstance(reference, Reference) for reference in references):
        if payload["engine"]:
            engine.engine_environment()
        adapter.import_vllm(device)
    models = []
    for reference in references:
        try:
            if isinstance(reference, ModelcheckError):
                raise reference
            models.append(_load(reference, device, bool(payload["engine"])))
        except ModelcheckError as error:
            models.append({"error": str(error)})
    return {"models": models}


@dataclass(frozen=True)
class Reference:
    """A model built by transformers alone, its modules' classes, and what dryrun says of it."""

    spec: BuildSpec
    built: MetaModel
    classes: Mapping[str, str]
    said: tuple[ClassReport, ...]


def _reference(spec: BuildSpec, contract: Contract, small: bool) -> Reference | ModelcheckError:
    """Errors of this build are the model's own; from vLLM they come under misleading names."""
    from modelcheck.dryrun.build import build
    from modelcheck.fusers.traced import analyse_model

    try:
        built = build(spec)
        if small:
            spec, built = _narrowed(spec, built)
    except ModelcheckError as error:
        return error
    classes = {path: type(module).__name__ for path, module in built.model.named_modules()}
    said = analyse_model(built.model, config=built.config, contract=contract)
    return Reference(spec, built, classes, tuple(said))


def _narrowed(spec: BuildSpec, built: MetaModel) -> tuple[BuildSpec, MetaModel]:
    """The same model with less width, where its weights would fill much memory."""
    from modelcheck.dryrun.build import instantiate, load_config
    from modelcheck.emulate import narrow
    from modelcheck.vllm.folder import changes

    if (narrow.parameters(built.config, spec) or 0) <= narrow.ENOUGH:
        return spec, built
    config, done, _ = narrow.narrow(built.config, lambda c: narrow.parameters(c, spec))
    whole, _ = load_config(spec)
    overrides = {**spec.overrides, **changes(whole.to_dict(), config.to_dict())}
    words = ", ".join(f"{name} to {value}" for name, value in done)
    notes = (*built.notes, f"{spec.target}: made narrower ({words}); --full keeps the real sizes")
    model = instantiate(copy.deepcopy(config), spec)
    return replace(spec, overrides=overrides), replace(
        built, config=config, model=model, notes=notes
    )


def _load(reference: Reference, device: str, engine: bool) -> dict[str, Any]:
    from modelcheck.vllm import adapter
    from modelcheck.vllm.folder import write_folder
    from modelcheck.vllm.logs import warnings

    spec, meta = reference.spec, reference.built
    with tempfile.TemporaryDirectory() as folder:
        write_folder(spec, meta, Path(folder))
        with _model(spec, folder, device, engine) as (built, tokens):
            did = reports(built, reference.classes)
            lines = [line.message for line in built.log]
            return {
                "dryrun": [report.to_json() for report in reference.said],
                "vllm": [report.to_json() for report in did],
                "backend": adapter.backend_name(built),
                "tokens": tokens,
                "depths": [[d.name, d.built, d.total] for d in meta.depths],
                "warnings": list(warnings(built.log)),
                "log": [line for line in lines if line.startswith(("Fused: ", "Found: "))],
                "notes": [*meta.notes, *_release_notes()],
                "versions": releases({}),
            }


def _release_notes() -> list[str]:
    release = releases({})["vllm"]
    if release is not None and is_newer(release):
        return [f"vLLM {release} is not known yet, dryrun judged by {newest().version}"]
    return []


@contextlib.contextmanager
def _model(
    spec: BuildSpec, folder: str, device: str, engine: bool
) -> Iterator[tuple[Built, int | None]]:
    """vLLM's model, and how many tokens its engine made. Only vLLM's own faults are refusals."""
    from modelcheck.vllm.adapter import built
    from modelcheck.vllm.engine import generate

    trusted = spec.trust_remote_code
    with contextlib.ExitStack() as stack:
        with _refusals(spec, device):
            if engine:
                answer: tuple[Built, int | None] = generate(folder, trust_remote_code=trusted)
            else:
                opened = built(folder, device=device, trust_remote_code=trusted)
                answer = stack.enter_context(opened), None
        yield answer


@contextlib.contextmanager
def _refusals(spec: BuildSpec, device: str) -> Iterator[None]:
    """Turn whatever vLLM raises into one line."""
    from modelcheck.vllm.refusal import refusal

    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        traceback.print_exc()  # to the worker's log, which --verbose shows
        raise BuildError(f"{spec.target}: {refusal(error, spec.folder, device)}") from error


def reports(built: Built, classes: Mapping[str, str]) -> tuple[ClassReport, ...]:
    """Group equal modules: same class, same fusers applied, same misses."""
    from modelcheck.vllm.adapter import fusions
    from modelcheck.vllm.logs import misses

    applied, missed = fusions(built, classes), misses(built.log)
    groups: dict[tuple[str, tuple[FusionResult, ...], tuple[FusionResult, ...]], list[str]] = {}
    for path, name in classes.items():
        results = applied.get(path, ())
        lost = tuple(m for m in missed if m.class_name == name and not _outranked(m, results))
        if results or lost:
            groups.setdefault((name, results, lost), []).append(path)
    return tuple(
        ClassReport(name, tuple(paths), results, lost)
        for (name, results, lost), paths in groups.items()
    )


def _outranked(miss: FusionResult, results: tuple[FusionResult, ...]) -> bool:
    """Only one fuser rewrites a module: what vLLM tries after the one applied is not lost."""
    order = newest().fusers
    rewriting = [r.fuser for r in results if r.fuser in order and r.fuser != "Attention"]
    return any(order.index(fuser) <= order.index(miss.fuser) for fuser in rewriting)
