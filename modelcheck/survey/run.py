"""A survey from start to end: which lines are missing, who makes them, and the file."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import MissingDependency, UsageError
from modelcheck.fusers.contract import Contract, contract_for
from modelcheck.fusers.results import ClassReport, Evidence
from modelcheck.survey.catalogue import INSTALL, Catalogue, ModelType, choose, class_files
from modelcheck.survey.pool import Done, Failure, Setup, Task, run_tasks
from modelcheck.survey.predict import relative
from modelcheck.survey.records import (
    MODEL,
    STOPPED,
    Record,
    Releases,
    Store,
    SurveyedClass,
    code_version,
)

NO_AUTO_MODEL = "transformers has no AutoModel for this type, and AutoModel is what vLLM builds"
BATCH = 16  # model types that one vLLM process builds: its import costs ten times a model
VLLM_IMPORT = 90.0  # seconds


@dataclass(frozen=True)
class Plan:
    """What a survey is to find out.

    ``timeout`` is in seconds for each model type, ``vllm_python`` the interpreter that has
    vLLM and ``vllm_releases`` what it has (for loaded only).
    """

    catalogue: Catalogue
    types: tuple[ModelType, ...]
    evidence: tuple[Evidence, ...]
    contract: Contract
    tp: int = 1
    jobs: int = 1
    timeout: float = 120.0
    vllm_python: str | None = None
    vllm_releases: Mapping[str, str | None] | None = None

    def releases(self, evidence: Evidence) -> Releases:
        """What the lines of one kind of evidence are made with."""
        code = code_version()
        if evidence is Evidence.LOADED:
            found = self.vllm_releases or {}
            return Releases(found.get("vllm") or "", found.get("transformers") or "", code)
        return Releases(self.contract.version, self.catalogue.version, code, self.tp)

    @property
    def keys(self) -> list[tuple[str, Evidence]]:
        """The lines that there will be."""
        return [(t.name, e) for e in self.evidence for t in self.types]


def make_plan(
    catalogue: Catalogue,
    *,
    model_types: Sequence[str] = (),
    evidence: Sequence[Evidence] = (),
    vllm: str | None = None,
    tp: int = 1,
    jobs: int | None = None,
    timeout: float = 120.0,
    python: str | None = None,
) -> Plan:
    """A plan with what is installed: without ``evidence`` every kind that is possible here.

    Without ``vllm`` the release judged by is the one that is loaded, else the newest known.
    Raises `UsageError` and `MissingDependency`.
    """
    types = choose(catalogue.types, model_types)
    chosen = tuple(e for e in Evidence if e in evidence) or _possible(tp, python)
    if Evidence.TRACED in chosen and not _has("torch"):
        raise MissingDependency(f"traced evidence needs torch: {INSTALL}")
    if Evidence.LOADED in chosen and tp != 1:
        raise UsageError("--tp: loaded evidence is of one device only, leave it out of --evidence")
    interpreter, releases = None, None
    if Evidence.LOADED in chosen:
        from modelcheck.vllm.load import find_python, require_vllm

        interpreter = find_python(python)
        releases = require_vllm(interpreter)
    contract = contract_for(vllm or (releases or {}).get("vllm"))
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return Plan(
        catalogue, types, chosen, contract, tp, jobs or available, timeout, interpreter, releases
    )


def _possible(tp: int, python: str | None) -> tuple[Evidence, ...]:
    from modelcheck.vllm.load import PYTHON

    found = [Evidence.PREDICTED]
    if _has("torch"):
        found.append(Evidence.TRACED)
    if tp == 1 and (python or os.environ.get(PYTHON) or _has("vllm")):
        found.append(Evidence.LOADED)
    return tuple(found)


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@dataclass(frozen=True)
class Taken:
    """What an earlier run left: how many lines are used again, and how many were out of date."""

    kept: int
    dropped: int


def run(
    plan: Plan,
    output: Path | None = None,
    *,
    resume: bool = True,
    started: Callable[[Taken], None] = lambda taken: None,
    progress: Callable[[Record], None] = lambda record: None,
) -> list[Record]:
    """Make the missing lines, append each to ``output`` as it comes, and return all of the plan.

    ``started`` is told once what is there already, ``progress`` every new line. Raises
    `UsageError` when the file cannot be used.
    """
    if output is None:
        started(Taken(0, 0))
        return _finish(plan, {}, None, progress)
    with Store(output) as store:
        known, dropped = store.take_over(lambda r: resume and _is_good(r, plan))
        started(Taken(len(known.keys() & set(plan.keys)), dropped))
        return _finish(plan, known, store, progress)


def _is_good(record: Record, plan: Plan) -> bool:
    return (
        record.evidence in plan.evidence
        and record.releases == plan.releases(record.evidence)
        and record.failed != STOPPED
    )


def _finish(
    plan: Plan,
    known: dict[tuple[str, Evidence], Record],
    store: Store | None,
    progress: Callable[[Record], None],
) -> list[Record]:
    found = dict(known)
    with closing(_missing(plan, set(known))) as records:
        for record in records:
            found[record.key] = record
            if store is not None:
                store.append(record)
            progress(record)
    return [found[key] for key in plan.keys]


def _missing(plan: Plan, known: set[tuple[str, Evidence]]) -> Generator[Record, None, None]:
    makers = {
        Evidence.PREDICTED: _predicted,
        Evidence.TRACED: _traced,
        Evidence.LOADED: _loaded,
    }
    for evidence in plan.evidence:
        missing = [t for t in plan.types if (t.name, evidence) not in known]
        types = [t for t in missing if t.base]
        for t in missing:
            if not t.base:
                yield _failed(plan, evidence, t.name, NO_AUTO_MODEL)
        with closing(makers[evidence](plan, types)) as records:
            yield from records


def _failed(
    plan: Plan,
    evidence: Evidence,
    name: str,
    error: str,
    kind: str = MODEL,
    seconds: float = 0.0,
) -> Record:
    line = " ".join(error.split()).removeprefix(f"{name}: ")
    releases = plan.releases(evidence)
    return Record(name, evidence, releases, error=line, failed=kind, seconds=round(seconds, 3))


def _failure(plan: Plan, evidence: Evidence, name: str, failure: Failure, seconds: float) -> Record:
    kind = STOPPED if failure.stopped else MODEL
    return _failed(plan, evidence, name, failure.error, kind, seconds)


def _predicted(plan: Plan, types: Sequence[ModelType]) -> Generator[Record, None, None]:
    """One task for each modeling file, which answers for all of its types."""
    evidence = Evidence.PREDICTED
    bases: dict[Path, dict[str, str]] = {}
    for t in types:
        if t.file is not None:
            bases.setdefault(t.file, {})[t.name] = t.base
        else:
            error = f"no modeling file of transformers has the class {t.base}"
            yield _failed(plan, evidence, t.name, error)
    tasks = [
        Task(
            tuple(of),
            "modelcheck.survey.predict:job",
            {
                "root": str(plan.catalogue.root),
                "file": str(file),
                "bases": of,
                "vllm": plan.contract.version,
                "tp": plan.tp,
            },
            plan.timeout * len(of),
        )
        for file, of in bases.items()
    ]
    setup = Setup(modules=("modelcheck.survey.predict",))
    with closing(run_tasks(tasks, setup, plan.jobs)) as answers:
        for done in answers:
            answer = done.answer
            for name in done.task.about:
                if isinstance(answer, Failure):
                    yield _failure(plan, evidence, name, answer, done.seconds)
                else:
                    yield _record(plan, evidence, name, answer["models"][name], answer["seconds"])


def _record(
    plan: Plan, evidence: Evidence, name: str, found: Mapping[str, Any], seconds: float
) -> Record:
    classes = tuple(SurveyedClass.from_json(c) for c in found["classes"])
    silent = tuple(found["silent"])
    return Record(
        name, evidence, plan.releases(evidence), classes, silent, seconds=round(seconds, 3)
    )


def _traced(plan: Plan, types: Sequence[ModelType]) -> Generator[Record, None, None]:
    evidence = Evidence.TRACED
    root = str(plan.catalogue.root)
    common = {"root": root, "vllm": plan.contract.version, "tp": plan.tp}
    tasks = [
        Task(t.name, "modelcheck.survey.trace:job", {"model_type": t.name, **common}, plan.timeout)
        for t in types
    ]
    setup = Setup(modules=("modelcheck.survey.trace",))
    with closing(run_tasks(tasks, setup, plan.jobs)) as answers:
        for done in answers:
            answer, name = done.answer, done.task.about
            if isinstance(answer, Failure):
                yield _failure(plan, evidence, name, answer, done.seconds)
            else:
                yield _record(plan, evidence, name, answer, answer["seconds"])


def _loaded(plan: Plan, types: Sequence[ModelType]) -> Generator[Record, None, None]:
    """Batches of types, each in a fresh process, as vLLM changes what is built after it."""
    names = [t.name for t in types]
    batches = [tuple(names[i : i + BATCH]) for i in range(0, len(names), BATCH)]
    places = _places(plan.catalogue)
    alone: list[tuple[str, ...]] = []
    with closing(_load(plan, batches)) as answers:
        for done in answers:
            batch = done.task.about
            if isinstance(done.answer, Failure) and len(batch) > 1:
                alone += [(name,) for name in batch]  # one of them took the others along
            else:
                yield from _load_records(plan, done, places)
    with closing(_load(plan, alone)) as answers:
        for done in answers:
            yield from _load_records(plan, done, places)


def _load(
    plan: Plan, batches: Sequence[tuple[str, ...]]
) -> Generator[Done[tuple[str, ...]], None, None]:
    from modelcheck.vllm.load import worker_environment

    assert plan.vllm_python is not None
    tasks = [
        Task(
            batch,
            "modelcheck.vllm.worker:jobs",
            {
                "specs": [BuildSpec(model_type=name).to_json() for name in batch],
                "device": "meta",
                "engine": False,
            },
            # A batch that takes longer is done again one by one, with the time of one each.
            VLLM_IMPORT + plan.timeout + 10 * (len(batch) - 1),
        )
        for batch in batches
    ]
    setup = Setup(
        modules=("modelcheck.vllm.worker",),
        python=plan.vllm_python,
        env=worker_environment(plan.vllm_python),
        memory_mb=None,
        fresh=True,
    )
    with closing(run_tasks(tasks, setup, plan.jobs)) as answers:
        yield from answers


def _load_records(
    plan: Plan,
    done: Done[tuple[str, ...]],
    places: Mapping[str, tuple[str, int]],
) -> Iterator[Record]:
    evidence, answer, batch = Evidence.LOADED, done.answer, done.task.about
    seconds = round(done.seconds / len(batch), 3)
    if isinstance(answer, Failure):
        for name in batch:
            yield _failure(plan, evidence, name, answer, seconds)
        return
    for name, model in zip(batch, answer["models"], strict=True):
        if "error" in model:
            yield _failed(plan, evidence, name, model["error"], MODEL, seconds)
            continue
        reports = [ClassReport.from_json(c) for c in model["vllm"]]
        classes = tuple(
            SurveyedClass(report, *places.get(report.class_name, ("", 0))) for report in reports
        )
        yield Record(name, evidence, plan.releases(evidence), classes, seconds=seconds)


def _places(catalogue: Catalogue) -> dict[str, tuple[str, int]]:
    """File and line of the classes whose name is unique; vLLM only names them."""
    found: dict[str, tuple[str, int]] = {}
    for name, files in class_files(catalogue.root).items():
        if len(files) == 1:
            found[name] = relative(str(files[0]), catalogue.root), 0
    return found
