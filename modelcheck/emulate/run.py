"""An emulation from outside: a process of its own, one for every version of the code."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from modelcheck.dryrun.target import BuildSpec, check_target
from modelcheck.emulate.results import (
    EmulationReport,
    FirstDifference,
    Outcome,
    PromptResult,
    VersionsReport,
)
from modelcheck.emulate.spec import WEIGHTS, EmulateSpec
from modelcheck.errors import UsageError
from modelcheck.worker import run_job

JOB = "modelcheck.emulate.worker:job"
OLD_JOB = "modelcheck.emulate.ordinary:old_job"
TIMEOUT = 300.0  # seconds; 10 for a small model, nearly all of it imports
MEMORY_MB = 16_384  # three copies of the largest model that is run, and the libraries
QUIET = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
DROPPED = ("rotary_emb.inv_freq", "rotary_pos_emb.inv_freq")  # vLLM does not read them


def run(
    spec: EmulateSpec | BuildSpec | str | os.PathLike[str],
    *,
    timeout: float = TIMEOUT,
    python: str | None = None,
    verbose: bool = False,
) -> EmulationReport:
    """Call a model as vLLM does and compare with transformers' own run of it.

    ``spec`` may be a folder; remote code needs a spec that trusts it. ``timeout`` is in seconds,
    ``python`` another interpreter to run in. Raises a `ModelcheckError` of one line for what
    cannot be built or run; what vLLM would refuse is an outcome.
    """
    return EmulationReport.from_answer(_emulate(_spec(spec), timeout, python, verbose)["report"])


def compare_runs(
    old: EmulateSpec | BuildSpec | str | os.PathLike[str],
    new: EmulateSpec | BuildSpec | str | os.PathLike[str],
    *,
    python: str | None = None,
    timeout: float = TIMEOUT,
    verbose: bool = False,
) -> VersionsReport:
    """The new version of a model's code as vLLM calls it, beside the old one in transformers.

    Both get the same weights, those of the new spec, and the same tokens. ``python`` is an
    interpreter (3.11 or newer) for the old version, one with an older transformers say.
    Raises a `ModelcheckError` of one line, as `run` does.
    """
    before, after = _spec(old), _spec(new)
    if before.build.folder is None:
        raise UsageError("the old version has to be a folder")
    check_target(before.build)
    with tempfile.TemporaryDirectory(prefix="modelcheck-") as folder:
        record = Path(folder, "run.pt")
        answer = _emulate(after, timeout, None, verbose, str(record))
        report = EmulationReport.from_answer(answer["report"])
        if report.outcome is Outcome.REFUSED:
            return VersionsReport(before.build.target, report)
        payload = {
            "folder": str(before.build.folder.resolve()),
            "trust_remote_code": before.build.trust_remote_code,
            "changes": answer["changes"],
            "seed": after.seed,
            "tolerance": report.tolerance,
            "record": str(record),
        }
        found = _run(OLD_JOB, before, payload, timeout, python, verbose)
    first = found["first"]
    lost: list[tuple[str, ...]] = [
        tuple(name for name in found[key] if not name.endswith(DROPPED))
        for key in ("missing", "unexpected", "reshaped")
    ]
    return VersionsReport(
        old=before.build.target,
        new=report,
        prompts=tuple(PromptResult(**p) for p in found["prompts"]),
        first=report.first if first is None else FirstDifference(**first),
        missing=lost[0],
        unexpected=lost[1],
        reshaped=lost[2],
        old_versions=found["versions"],
    )


def _spec(spec: EmulateSpec | BuildSpec | str | os.PathLike[str]) -> EmulateSpec:
    if isinstance(spec, EmulateSpec):
        return spec
    if isinstance(spec, BuildSpec):
        return EmulateSpec(spec)
    return EmulateSpec(BuildSpec(path=os.fspath(spec)))


def _emulate(
    spec: EmulateSpec,
    timeout: float,
    python: str | None,
    verbose: bool,
    record: str | None = None,
) -> dict[str, Any]:
    check_target(spec.build)
    if spec.weights not in WEIGHTS:
        raise UsageError(f"weights: {spec.weights!r} is none of {', '.join(WEIGHTS)}")
    if spec.steps < 0 or not spec.tolerance > 0:
        raise UsageError("steps must not be negative, and the tolerance more than zero")
    payload = {"spec": spec.to_json(), "record": record}
    return _run(JOB, spec, payload, timeout, python, verbose)


def _run(
    job: str,
    spec: EmulateSpec,
    payload: dict[str, Any],
    timeout: float,
    python: str | None,
    verbose: bool,
) -> dict[str, Any]:
    return run_job(
        job,
        payload,
        about=spec.build.target,
        timeout=timeout,
        memory_mb=MEMORY_MB,
        python=python,
        env=QUIET,
        verbose=verbose,
    )
