"""A plan in a process of its own, from both sides."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelcheck.dryrun.target import BuildSpec, check_target
from modelcheck.errors import ModelcheckError, UsageError
from modelcheck.fusers.contract import contract_for
from modelcheck.tensor_parallel.results import Problem, SizePlan, TpReport
from modelcheck.worker import run_job

if TYPE_CHECKING:
    import torch

    from modelcheck.fusers.contract import Contract

JOB = "modelcheck.tensor_parallel.run:job"
SIZES = (1, 2, 4, 8)
TIMEOUT = 300.0  # seconds; 10 for most models, nearly all of it imports
MEMORY_MB = 8192
QUIET = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def run_tp(
    spec: BuildSpec,
    sizes: Sequence[int] = SIZES,
    *,
    vllm: str | None = None,
    timeout: float = TIMEOUT,
    python: str | None = None,
    verbose: bool = False,
) -> TpReport:
    """How vLLM shards a model over each of ``sizes`` ranks, and what breaks.

    Fusers are found as a dry run does (torch.fx on the meta device). What `scan` finds for
    tensor parallelism in a folder's files is added to the sizes over 1. ``timeout`` is in seconds.
    Raises a `ModelcheckError` of one line.
    """
    check_target(spec)
    if not sizes or any(size < 1 for size in sizes):
        raise UsageError("--sizes: one or more numbers from 1 on, such as 1,2,4,8")
    contract = contract_for(vllm)
    payload = {"spec": spec.to_json(), "vllm": vllm, "sizes": sorted(set(sizes))}
    answer = run_job(
        JOB,
        payload,
        about=spec.target,
        timeout=timeout,
        memory_mb=MEMORY_MB,
        python=python,
        env=QUIET,
        verbose=verbose,
    )
    report = TpReport.from_json(answer["report"])
    return _with_findings(report, spec, contract)


def _with_findings(report: TpReport, spec: BuildSpec, contract: Contract) -> TpReport:
    """Add what the rules know of more than one rank."""
    if spec.folder is None or not any(size.size > 1 for size in report.sizes):
        return report
    from modelcheck.scan import Scanner

    found = tuple(
        Problem(str(f.severity), f"{f.code} at {f.path}:{f.span.line}: {f.message}")
        for f in Scanner(contract).scan([str(spec.folder)]).findings
        if f.tp_only
    )
    sizes = tuple(
        dataclasses.replace(size, problems=(*size.problems, *found)) if size.size > 1 else size
        for size in report.sizes
    )
    return dataclasses.replace(report, sizes=sizes)


def job(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What the worker does. ``payload``: ``spec``, ``vllm``, ``sizes``; the answer: ``report``."""
    from modelcheck.dryrun.build import build
    from modelcheck.dryrun.causes import our_fault

    spec = BuildSpec(**payload["spec"])
    contract = contract_for(payload["vllm"])
    few = build(spec)
    whole = few if not few.depths else build(dataclasses.replace(spec, full_depth=True))
    with our_fault(spec.folder):
        sizes, notes = _sizes(few, whole, spec, contract, payload["sizes"])
    report = TpReport(
        target=spec.target,
        model_class=type(whole.model).__name__,
        vllm=contract.version,
        dtype=str(_dtype(spec)).removeprefix("torch."),
        sizes=tuple(sizes),
        notes=(*whole.notes, *notes),
        versions={name: importlib.metadata.version(name) for name in ("transformers", "torch")},
    )
    return {"report": report.to_json()}


def _sizes(
    few: Any, whole: Any, spec: BuildSpec, contract: Contract, wanted: Sequence[int]
) -> tuple[list[SizePlan], list[str]]:
    from modelcheck.tensor_parallel.plan import analyse, size_plan

    width = _dtype(spec).itemsize
    plans, notes = [], []
    unfollowed = _unfollowed(few, spec, contract)
    if unfollowed:
        notes.append(f"shapes inside the forward were not followed: {unfollowed}")
    for size in wanted:
        analysed = analyse(whole.model, whole.config, contract, size)
        plan = size_plan(whole.model, whole.config, analysed, width)
        if size > 1 and not unfollowed and not plan.breaks:
            plan = _followed(plan, few, spec, contract)
        plans.append(plan)
    return plans, notes


def _unfollowed(few: Any, spec: BuildSpec, contract: Contract) -> str | None:
    """Why the forward of one rank says nothing, None when it runs for a single one."""
    from modelcheck.tensor_parallel.plan import analyse
    from modelcheck.tensor_parallel.rank import failure, latent

    analysed = analyse(few.model, few.config, contract, 1)
    if latent(analysed):
        return "vLLM's own latent attention takes its place"
    try:
        return failure(few.model, few.config, analysed, spec.folder)
    except ModelcheckError as error:  # attention that vLLM would refuse
        return str(error)


def _followed(plan: SizePlan, few: Any, spec: BuildSpec, contract: Contract) -> SizePlan:
    """The plan with what a forward of one rank raises."""
    from modelcheck.tensor_parallel.plan import analyse
    from modelcheck.tensor_parallel.rank import failure

    analysed = analyse(few.model, few.config, contract, plan.size)
    cause = failure(few.model, few.config, analysed, spec.folder)
    if cause is None:
        return plan
    problem = Problem("error", f"the forward fails on one rank's share: {cause}")
    return dataclasses.replace(plan, problems=(*plan.problems, problem))


def _dtype(spec: BuildSpec) -> torch.dtype:
    """What vLLM keeps the weights in: the configuration's type, bfloat16 without one."""
    import torch

    from modelcheck.dryrun.build import load_config

    config, _ = load_config(spec)
    for part in (config, config.get_text_config()):
        value = getattr(part, "dtype", None)
        value = getattr(torch, value, None) if isinstance(value, str) else value
        if isinstance(value, torch.dtype) and value is not torch.float32:
            return value  # float32 is served in bfloat16 or float16, unless vLLM is told
    return torch.bfloat16
