"""Benchmarks of both sides in turn, each in a process of its own, and what their logs show."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from modelcheck.ab import bench as vllm_side
from modelcheck.ab import folder as files
from modelcheck.ab.process import Job, benchmark, serve
from modelcheck.ab.results import BACKEND, METRICS, OWN, AbReport, Run
from modelcheck.dryrun.target import BuildSpec, check_target
from modelcheck.errors import UsageError, WorkerError
from modelcheck.fusers.contract import contract_for
from modelcheck.gate import lock as locks
from modelcheck.gate.check import record
from modelcheck.gate.lock import Lock
from modelcheck.gate.logcheck import LogCheck
from modelcheck.gate.measure import Model
from modelcheck.source.repo import CONFIG, read_config
from modelcheck.vllm.load import find_python, require_vllm, worker_environment
from modelcheck.worker import run_job

BENCHES = tuple(METRICS)
TIMEOUT = 1800.0  # seconds for one run, vLLM's start included
HIGHEST = 10_000  # `vllm bench latency` draws token ids below this
DRYRUN = "dry run"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class AbSpec:
    """What to compare, and how.

    ``arguments`` go to ``vllm bench``, ``engine_arguments`` to vLLM's engine (that of the server
    for "serve"), both to both sides. ``expect`` is a lock file; without it the folder's own, else
    a dry run says which fusions are expected. ``seed`` decides who of a pair runs first.
    """

    target: str
    bench: str = "throughput"
    repeats: int = 5
    trust_remote_code: bool = False
    arguments: tuple[str, ...] = ()
    engine_arguments: tuple[str, ...] = ()
    expect: str | None = None
    seed: int = 0


def run_ab(
    spec: AbSpec,
    *,
    python: str | None = None,
    timeout: float = TIMEOUT,
    verbose: bool = False,
    progress: Progress | None = None,
) -> AbReport:
    """Benchmark a folder by vLLM's own implementation and by its Transformers backend.

    ``timeout`` is in seconds, for each run; ``verbose`` shows on stderr what vLLM prints. A
    failure in the first pair is raised, as `UsageError`, `MissingDependency`, `BuildError` or
    `WorkerError` of one line; a later one ends the measurement, and is a note.
    """
    build = BuildSpec(spec.target, None, spec.trust_remote_code, full_depth=True)
    check_target(build)
    _check(spec)
    interpreter = find_python(python)
    versions = require_vllm(interpreter)
    _, config = read_config(_folder(spec) / CONFIG)
    one_sided = _one_sided(spec, config, interpreter, timeout)
    lock, notes = _expectation(spec, build, str(versions["vllm"]))
    with tempfile.TemporaryDirectory(prefix="modelcheck-") as name:
        job, made = _job(spec, config, Path(name), interpreter, timeout, verbose)
        runs, ended = _runs(spec, job, lock, not one_sided, progress or (lambda text: None))
    return AbReport(
        target=spec.target,
        bench=spec.bench,
        arguments=(*job.engine, *job.arguments),
        runs=tuple(runs),
        expected=lock.path or DRYRUN,
        fusions=len(lock.expectations),
        versions=versions,
        one_sided=one_sided,
        notes=(*notes, *made, *ended),
    )


def _folder(spec: AbSpec) -> Path:
    return Path(spec.target)


def _check(spec: AbSpec) -> None:
    if spec.bench not in BENCHES:
        raise UsageError(f"--bench: {spec.bench!r} is none of {', '.join(BENCHES)}")
    if spec.repeats < 1:
        raise UsageError("--repeats: one or more")
    for argument in (*spec.arguments, *spec.engine_arguments):
        if argument.partition("=")[0] in ("--model", "--model-impl", "--output-json"):
            raise UsageError(f"{argument.partition('=')[0]} is given by modelcheck itself")


def _one_sided(spec: AbSpec, config: Mapping[str, object], interpreter: str, timeout: float) -> str:
    """Why vLLM's own side cannot run, "" where it can."""
    named = config.get("architectures")
    if not isinstance(named, list) or not named:
        raise UsageError(f"{_folder(spec) / CONFIG}: no architectures, which vLLM chooses by")
    known = run_job(
        vllm_side.FACTS,
        {"architectures": named},
        about=spec.target,
        timeout=timeout,
        python=interpreter,
        env=worker_environment(interpreter),
    )
    if known["native"]:
        return ""
    return f"vLLM has no implementation of its own of {', '.join(map(str, named))}"


def _expectation(spec: AbSpec, build: BuildSpec, release: str) -> tuple[Lock, tuple[str, ...]]:
    """Which fusions the Transformers backend has to show."""
    own = _folder(spec) / locks.NAME
    path = Path(spec.expect) if spec.expect is not None else own if own.exists() else None
    if path is not None:
        return locks.read(path), ()
    return record(Model(build), contract_for(release).version)


def _job(
    spec: AbSpec,
    config: Mapping[str, object],
    temporary: Path,
    interpreter: str,
    timeout: float,
    verbose: bool,
) -> tuple[Job, tuple[str, ...]]:
    """What both sides are asked to do, and notes on what stands in for what is not there."""
    notes = []
    folder, vocabulary = _folder(spec), files.vocabulary(config)
    if spec.bench == "latency" and vocabulary is not None and vocabulary < HIGHEST:
        raise UsageError(
            f"{folder}: vllm bench latency draws from {HIGHEST} tokens, the model has "
            f"{vocabulary}: try --bench throughput"
        )
    engine, shared = list(spec.engine_arguments), []
    if spec.trust_remote_code:
        shared.append("--trust-remote-code")
    given = {argument.partition("=")[0] for argument in (*spec.arguments, *engine)}
    if not files.has_weights(folder) and "--load-format" not in given:
        engine += ["--load-format", "dummy"]
        notes.append(f"{folder} has no weights: random ones")
    if not files.has_tokenizer(folder) and "--tokenizer" not in given:
        if vocabulary is None:
            raise UsageError(f"{folder}: no tokenizer, and no vocab_size to make one of")
        made = temporary / "tokenizer"
        made.mkdir()
        files.write_tokenizer(made, vocabulary)
        shared += ["--tokenizer", str(made)]
        notes.append(f"{folder} has no tokenizer: one that knows numbers only")
    default = () if spec.bench == "latency" else ("--dataset-name", "random")
    arguments = (*default, *spec.arguments)
    return (
        Job(
            spec.bench,
            str(folder.resolve()),
            tuple(engine),
            tuple(arguments),
            tuple(shared),
            interpreter,
            timeout,
            verbose,
        ),
        tuple(notes),
    )


def _runs(
    spec: AbSpec, job: Job, lock: Lock, both: bool, progress: Progress
) -> tuple[list[Run], tuple[str, ...]]:
    """The pairs, each in an order drawn by lot, and why there are fewer than asked for."""
    runs: list[Run] = []
    order, sides = random.Random(spec.seed), [OWN, BACKEND] if both else [BACKEND]
    for pair in range(spec.repeats):
        turn = order.sample(sides, len(sides))
        done: list[Run] = []
        try:
            for side in turn:
                number = len(runs) + len(done) + 1
                progress(f"run {number} of {spec.repeats * len(sides)}: --model-impl {side}")
                done.append(_run(job, side, pair, lock))
        except WorkerError as error:
            if not pair:
                raise WorkerError(f"{spec.target}: --model-impl {side}: {error}") from None
            return runs, (f"ended after {pair} of {spec.repeats} pairs: {side}: {error}",)
        runs += done
    return runs, ()


def _run(job: Job, side: str, pair: int, lock: Lock) -> Run:
    result, log = (serve if job.bench == "serve" else benchmark)(job, side)
    wanted = {metric.key for metric in METRICS[job.bench]}
    values = {key: float(result[key]) for key in wanted & set(result) if result[key] is not None}
    check = LogCheck(lock if side == BACKEND else None)
    for line in log.splitlines():
        for _ in check.feed(line):
            pass
    if side == OWN:
        if check.reader.backend:
            raise WorkerError("vLLM ran its Transformers backend for this side too")
        return Run(pair, side, values)
    return Run(pair, side, values, check.missing, len(check.counts), check.doubt)
