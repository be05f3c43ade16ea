"""``load --parity`` and ``--tp``: the numbers that vLLM serves, beside those of transformers.

Tiny random weights are saved once. The same prompts go through transformers (eager, float32, no
cache), through vLLM's engine on one rank, and on several.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from modelcheck.dryrun.target import BuildSpec, check_target
from modelcheck.emulate.results import (
    EmulationReport,
    FirstDifference,
    Outcome,
    PromptResult,
    finite,
)
from modelcheck.emulate.spec import TOLERANCE, EmulateSpec
from modelcheck.errors import BuildError, WorkerError
from modelcheck.vllm.load import find_python, require_vllm, run_in_vllm
from modelcheck.worker import run_job

SCHEMA_VERSION = 1
REFERENCE = "modelcheck.vllm.reference:job"
ENGINE = "parity_engine:job"
TIMEOUT = 900.0  # seconds; 30 for one model on one rank
RECORD, FIRST = "reference.pt", "first.pt"  # outputs of transformers, and of one rank
UNKNOWN = "the emulation of vLLM's call is the same, and no fusion is known to change the numbers"


@dataclass(frozen=True)
class Numbers:
    """Outputs of one engine beside others, for the same weights and prompts.

    ``error`` is what vLLM raised instead, in one line.
    """

    prompts: tuple[PromptResult, ...] = ()
    error: str | None = None
    tolerance: float = TOLERANCE

    @property
    def same(self) -> bool:
        """Log-probabilities within the tolerance, and the same greedy tokens."""
        return (
            self.error is None
            and bool(self.prompts)
            and not any(p.differs(self.tolerance) or p.greedy != p.steps for p in self.prompts)
        )

    @property
    def largest(self) -> float:
        """The largest absolute difference of a log-probability; NaN without any."""
        values = [v for p in self.prompts for v in (p.prefill, p.decode) if v is not None]
        return max(values, default=float("nan"))

    @property
    def top1(self) -> tuple[int, int]:
        """At how many of how many tokens the most likely token is the same."""
        return sum(p.top1 or 0 for p in self.prompts), sum(p.tokens for p in self.prompts)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        same, tokens = self.top1
        return {
            "same": self.same,
            "error": self.error,
            "largest": self.largest,
            "top1": same,
            "tokens": tokens,
            "prompts": [asdict(p) for p in self.prompts],
        }


@dataclass(frozen=True)
class Held:
    """A linear of vLLM's and what each rank holds of it.

    ``sizes`` are the rows of its parts, ``ranks`` those of every rank, ``inputs`` the columns of
    a rank, ``kv_replicas`` how many ranks hold the same key-value head.
    """

    path: str
    layer: str
    sizes: tuple[int, ...]
    ranks: tuple[tuple[int, ...], ...]
    inputs: int
    kv_replicas: int = 1


@dataclass(frozen=True)
class ParityReport:
    """The numbers of a model in vLLM.

    ``one`` compares one rank with transformers, ``several`` ``tp`` ranks with one (None: not
    asked for). ``refused`` is why vLLM would not take the model at all. ``causes`` explain a
    difference of ``one``, as far as known, and ``first`` is the module of vLLM's where it begins.
    ``held`` is what the ranks hold.
    """

    target: str
    one: Numbers
    several: Numbers | None = None
    tp: int = 1
    refused: str | None = None
    causes: tuple[str, ...] = ()
    first: FirstDifference | None = None
    emulation: EmulationReport | None = None
    held: tuple[Held, ...] = ()
    reduced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Nothing differs that was compared."""
        return self.refused is None and self.one.same and (not self.several or self.several.same)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, with the schema's version; a difference of NaN is null."""
        data: dict[str, Any] = finite(
            {
                "schema_version": SCHEMA_VERSION,
                "evidence": "loaded",
                "target": self.target,
                "same": self.same,
                "refused": self.refused,
                "parity": self.one.to_json(),
                "causes": list(self.causes),
                "first": asdict(self.first) if self.first else None,
                "tp": self.tp,
                "tp_parity": self.several.to_json() if self.several else None,
                "shards": [asdict(held) for held in self.held],
                "emulation": self.emulation.to_json() if self.emulation else None,
                "reduced": list(self.reduced),
                "notes": list(self.notes),
                **self.versions,
            }
        )
        return data


def run_parity(
    specs: Sequence[BuildSpec],
    *,
    tp: int = 1,
    emulate: bool = True,
    python: str | None = None,
    timeout: float = TIMEOUT,
    verbose: bool = False,
) -> list[ParityReport | BuildError]:
    """Run models in transformers and in vLLM's engine; one report for each, in order.

    All models share two processes, as an import of vLLM takes ten seconds; where one ends the
    process, or has it hang, each is run in processes of its own. With ``tp`` over 1
    each runs on so many ranks as well (gloo between CPU processes where there is no GPU).
    ``emulate``: also imitate vLLM's call, which names a cause. ``timeout`` is in seconds for each
    process. A model's own failure is returned, not raised; raises `UsageError`,
    `MissingDependency` or, of a single model, `WorkerError`.
    """
    for spec in specs:
        check_target(spec)
    interpreter = find_python(python)
    versions = require_vllm(interpreter)

    def run(some: Sequence[BuildSpec]) -> list[ParityReport | BuildError]:
        return _run_together(some, tp, emulate, interpreter, versions, timeout, verbose)

    try:
        return run(specs)
    except WorkerError:
        if len(specs) == 1:
            raise
    reports: list[ParityReport | BuildError] = []
    for spec in specs:
        try:
            reports += run([spec])
        except WorkerError as error:
            reports.append(BuildError(str(error)))
    return reports


def _run_together(
    specs: Sequence[BuildSpec],
    tp: int,
    emulate: bool,
    interpreter: str,
    versions: Mapping[str, str | None],
    timeout: float,
    verbose: bool,
) -> list[ParityReport | BuildError]:
    about = ", ".join(spec.target for spec in specs)
    wanted = [EmulateSpec(spec, weights="random") for spec in specs]
    with ExitStack() as stack:
        folders = [
            stack.enter_context(tempfile.TemporaryDirectory(prefix="modelcheck-")) for _ in specs
        ]
        models = [
            {"spec": spec.to_json(), "folder": folder, "emulate": emulate}
            for spec, folder in zip(wanted, folders, strict=True)
        ]
        references = run_job(
            REFERENCE,
            {"models": models},
            about=about,
            timeout=timeout,
            python=interpreter,
            env={"OMP_NUM_THREADS": "1"},
            verbose=verbose,
        )["models"]
        runs: list[dict[str, Any]] = []
        for spec, folder, reference in zip(specs, folders, references, strict=True):
            if "error" not in reference and "refused" not in reference:
                runs += _runs(spec, folder, tp, reference)
        done: list[dict[str, Any]] = []
        if runs:
            payload = {"runs": runs}
            done = run_in_vllm(ENGINE, payload, interpreter, timeout, verbose, about)["runs"]
    reports: list[ParityReport | BuildError] = []
    for spec, reference in zip(specs, references, strict=True):
        if "error" in reference:
            reports.append(BuildError(reference["error"]))
        elif "refused" in reference:
            reports.append(
                ParityReport(
                    spec.target,
                    Numbers(),
                    refused=reference["refused"],
                    emulation=_emulation(reference),
                    versions=versions,
                )
            )
        else:
            own = [done.pop(0) for _ in range(2 if tp > 1 else 1)]
            reports.append(_report(spec, reference, own, tp, versions))
    return reports


def _runs(
    spec: BuildSpec, folder: str, tp: int, reference: Mapping[str, Any]
) -> list[dict[str, Any]]:
    one = {
        "latent": reference["latent"],
        "fused_latent": reference["fused_latent"],
        "folder": folder,
        "trust_remote_code": spec.trust_remote_code,
        "tolerance": TOLERANCE,
        "tp": 1,
        "record": RECORD,
        "write": FIRST,
    }
    return [one, {**one, "tp": tp, "record": FIRST, "write": None}] if tp > 1 else [one]


def _report(
    spec: BuildSpec,
    reference: Mapping[str, Any],
    done: Sequence[Mapping[str, Any]],
    tp: int,
    versions: Mapping[str, str | None],
) -> ParityReport:
    one = _numbers(done[0])
    found = done[0].get("first")
    first = FirstDifference(**found) if found else None
    emulation = _emulation(reference)
    return ParityReport(
        target=spec.target,
        one=one,
        several=_numbers(done[1]) if tp > 1 else None,
        tp=tp,
        causes=() if one.same or one.error else _causes(emulation, reference["wrong"], first),
        first=first,
        emulation=emulation,
        held=_held(done[-1].get("shards") or ()),
        reduced=tuple(reference["reduced"]),
        notes=tuple(reference["notes"]),
        versions=versions,
    )


def _emulation(reference: Mapping[str, Any]) -> EmulationReport | None:
    data = reference["emulation"]
    return None if data is None else EmulationReport.from_answer(data)


def _numbers(run: Mapping[str, Any]) -> Numbers:
    if "error" in run:
        return Numbers(error=run["error"])
    return Numbers(tuple(PromptResult(**prompt) for prompt in run["prompts"]))


def _causes(
    emulation: EmulationReport | None, wrong: Sequence[str], located: FirstDifference | None
) -> tuple[str, ...]:
    """Why one rank differs from transformers: the call, else a fusion, else where it begins."""
    if emulation is not None and emulation.outcome is Outcome.DIFFERS:
        first = emulation.first
        where = f"first in {first.path or 'the base model'} ({first.class_name})" if first else ""
        return tuple(filter(None, (*emulation.causes, where)))
    begins = (_begins(located),) if located is not None else ()
    if wrong:
        return (*wrong, *begins)
    return (*((UNKNOWN,) if emulation is not None else ()), *begins)


def _begins(located: FirstDifference) -> str:
    if located.path == "head":
        return "all modules of the base model agree on the prompt: look at the head after it"
    return (
        f"vLLM's {located.class_name} at {located.path or 'the base model'} is the first to make "
        f"another output of the same input ({located.largest:.2g}, {located.phase})"
    )


def _held(shards: Sequence[Mapping[str, Any]]) -> tuple[Held, ...]:
    """One entry for every linear, with the rows of each rank."""
    if not shards:
        return ()
    return tuple(
        Held(
            path,
            first["layer"],
            tuple(first["sizes"]),
            tuple(tuple(rank[path]["rows"]) for rank in shards),
            first["inputs"],
            first["kv_replicas"],
        )
        for path, first in shards[0].items()
    )
