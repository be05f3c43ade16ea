"""A dry run in a process of its own, from both sides."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from typing import TYPE_CHECKING, Any

from modelcheck.dryrun.results import DryrunReport
from modelcheck.dryrun.target import BuildSpec, check_target
from modelcheck.fusers.contract import Contract, contract_for, is_newer
from modelcheck.worker import run_job

if TYPE_CHECKING:
    from modelcheck.dryrun.build import Built

JOB = "modelcheck.dryrun.worker:job"
TIMEOUT = 300.0  # seconds; a build takes a few, the import of torch and transformers up to 30
MEMORY_MB = 8192  # 0.5 GB is usual: a model on the meta device has no weights
# One thread: nothing is computed, and idle pools only cost memory. No GPU is needed.
QUIET = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def run_dryrun(
    target: str | os.PathLike[str] | BuildSpec,
    *,
    vllm: str | None = None,
    tp: int = 1,
    trust_remote_code: bool = False,
    timeout: float = TIMEOUT,
    python: str | None = None,
    numerics: bool = False,
) -> DryrunReport:
    """Build a model on meta in another process and report its fusers.

    ``target`` is a folder with a config.json, or a `BuildSpec` (which then also decides on
    remote code). ``vllm`` is the release to judge by: the installed one by default, else the
    newest known. ``timeout`` is in seconds; ``python`` another interpreter to build in;
    ``numerics`` also runs norms and MoE blocks against what replaces them.
    Raises a `ModelcheckError` of one line for whatever goes wrong.
    """
    spec = _spec(target, trust_remote_code)
    answer = _ask(spec, vllm, tp, None, timeout, python, numerics)
    return DryrunReport.from_json(answer["report"])


def show_graphs(
    target: str | os.PathLike[str] | BuildSpec,
    class_name: str,
    *,
    vllm: str | None = None,
    trust_remote_code: bool = False,
    timeout: float = TIMEOUT,
    python: str | None = None,
) -> list[str]:
    """The traced graphs of one class of a model, as text; none where it has no such class."""
    spec = _spec(target, trust_remote_code)
    graphs: list[str] = _ask(spec, vllm, 1, class_name, timeout, python)["graphs"]
    return graphs


def _spec(target: str | os.PathLike[str] | BuildSpec, trust_remote_code: bool) -> BuildSpec:
    if isinstance(target, BuildSpec):
        return target
    return BuildSpec(path=os.fspath(target), trust_remote_code=trust_remote_code)


def _ask(
    spec: BuildSpec,
    vllm: str | None,
    tp: int,
    graphs_of: str | None,
    timeout: float,
    python: str | None,
    numerics: bool = False,
) -> dict[str, Any]:
    check_target(spec)
    contract_for(vllm)  # a wrong version is told before anything is started
    payload = {
        "spec": spec.to_json(),
        "vllm": vllm,
        "tp": tp,
        "graphs_of": graphs_of,
        "numerics": numerics,
    }
    return run_job(
        JOB,
        payload,
        about=spec.target,
        timeout=timeout,
        memory_mb=MEMORY_MB,
        python=python,
        env=QUIET,
    )


def job(payload: dict[str, Any]) -> dict[str, Any]:
    """What the worker process does: {"report": ...}, or {"graphs": [...]} when asked for."""
    from modelcheck.dryrun.build import build
    from modelcheck.dryrun.causes import our_fault

    spec = BuildSpec(**payload["spec"])
    contract, notes = _contract(payload["vllm"])
    built = build(spec)
    with our_fault(spec.folder):
        from modelcheck.fusers import traced

        if payload["graphs_of"] is not None:
            return {"graphs": traced.graphs_of(built.model, payload["graphs_of"], contract)}
        classes = traced.analyse_model(
            built.model, config=built.config, contract=contract, tp=payload["tp"]
        )
        if payload.get("numerics"):
            from modelcheck.dryrun.numerics import with_numerics

            read = traced.config_reader(built.config)
            classes = with_numerics(built.model, classes, read)
    report = DryrunReport(
        target=spec.target,
        model_class=type(built.model).__name__,
        vllm=contract.version,
        transformers=_installed("transformers") or "",
        torch=_installed("torch") or "",
        classes=tuple(classes),
        built_depth=built.built_depth,
        total_depth=built.total_depth,
        notes=(*built.notes, *_depth_notes(built), *notes),
    )
    return {"report": report.to_json()}


def _contract(wanted: str | None) -> tuple[Contract, tuple[str, ...]]:
    """The contract to judge by, and what the user should know of the choice."""
    from packaging.specifiers import SpecifierSet

    version = wanted or _installed("vllm")
    contract = contract_for(version)
    notes = []
    if version is not None and is_newer(version):
        notes.append(f"vLLM {version} is not known yet, judged by {contract.version}")
    transformers = _installed("transformers")
    if transformers and not SpecifierSet(contract.transformers).contains(transformers, True):
        notes.append(
            f"vLLM {contract.version} wants transformers{contract.transformers}, "
            f"this is {transformers}"
        )
    return contract, tuple(notes)


def _installed(module: str) -> str | None:
    """The version of the distribution that a module is from (vLLM has several names)."""
    if importlib.util.find_spec(module) is None:
        return None
    for name in importlib.metadata.packages_distributions().get(module, ()):
        return importlib.metadata.version(name)
    return None


def _depth_notes(built: Built) -> list[str]:
    """The cut depths other than that of the text model, which the report names itself."""
    text = built.built_depth, built.total_depth
    others = [d for d in built.depths if (d.built, d.total) != text]
    return [f"{d.name}: {d.built} of {d.total} built" for d in others]
