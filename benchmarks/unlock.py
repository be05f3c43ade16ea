"""How many old models the fixes unlock: built by vLLM, with the original's numbers.

    PYTHONPATH=. python benchmarks/unlock.py [--release 4.44.2] [--models llama,opt] [--engine]

The corpus is every decoder of an old transformers release, each as a remote-code repository of
its own (see unlock_corpus.py). Every model is looked at before, after ``--fix`` and after
``--unsafe-fixes``: is it parsed; does it import, build and run under the transformers installed;
does vLLM ($MODELCHECK_VLLM_PYTHON) build it, and what does it fuse; are its log-probabilities,
called as vLLM calls it, those of the original under its own release, from the same weights.
What falls out is named with its first reason. Answers are kept in the work folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import unlock_corpus

from modelcheck.errors import BuildError, ModelcheckError
from modelcheck.isolated import environment
from modelcheck.survey.pool import Failure, Setup, Task, run_tasks
from modelcheck.vllm.load import PYTHON, LoadReport, load_many

HERE = Path(__file__).resolve().parent
STAGES = ("before", "fix", "unsafe")
BATCH = 15  # models in one vLLM process
LIMIT = 300.0  # seconds for one job
NORM, QKV, GLU = "RMSNorm", ("QKV", "PackedQKV", "MLA"), "GLU"
UNFUSED = re.compile(r"\bMC[56]\d\d\b")  # what is left to do about norms and GLUs


@dataclass
class Row:
    """One model: its repositories by stage, and what was found out about each."""

    name: str
    stem: str  # what its classes' names begin with
    folders: dict[str, Path] = field(default_factory=dict)
    original: dict[str, Any] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """Does the original run under its own release?"""
        return self.original.get("step") == ""

    @property
    def plain(self) -> bool:
        """A decoder of which nothing has no place in vLLM's backend."""
        return self.runs and not self.original["kinds"]


class Cache:
    """Answers by step and by the text that they are about, in one JSON file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str) -> Any:
        """The answer of an earlier run, or None."""
        return self._known.get(key)

    def put(self, key: str, value: Any) -> None:
        """Keep an answer."""
        self._known[key] = value
        partial = self._path.with_suffix(".part")
        partial.write_text(json.dumps(self._known))
        partial.replace(self._path)


@dataclass
class Run:
    """What the steps share; ``tools`` and ``emulator`` are digests of our own source."""

    work: Path
    release: str
    old_python: str
    cache: Cache
    jobs: int
    tools: str
    emulator: str

    def ask(
        self,
        step: str,
        about: Sequence[tuple[Row, str]],
        payload: Callable[[Row, str], Mapping[str, Any]],
        job: str,
        python: str | None = None,
        extra: str = "",
    ) -> dict[tuple[str, str], dict[str, Any]]:
        """One job for many (model, stage); an answer that is kept is not asked for again."""
        keys = {(r.name, s): self.key(step, r.folders[s], extra) for r, s in about}
        found = {pair: self.cache.get(key) for pair, key in keys.items()}
        missing = {keys[r.name, s]: (r, s) for r, s in about if found[r.name, s] is None}
        tasks = [Task(key, job, payload(r, s), LIMIT) for key, (r, s) in missing.items()]
        env = {
            "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)]),
            "HF_MODULES_CACHE": str(self.work / f"modules-{step}"),
        }
        modules = () if step == "fix" else ("torch", "transformers")
        setup = Setup(modules, python=python, env=env)
        for number, done in enumerate(run_tasks(tasks, setup, self.jobs), 1):
            answer = done.answer
            value = {"failed": answer.error} if isinstance(answer, Failure) else answer
            self.cache.put(done.task.about, value)
            progress(f"{step}: {number}/{len(tasks)}")
        return {pair: self.cache.get(key) for pair, key in keys.items()}

    def key(self, step: str, folder: Path, extra: str = "") -> str:
        """What an answer is about: the step, the release, and all text of a repository."""
        digest = hashlib.sha256(f"{step} {self.release} {extra}".encode())
        for path in sorted(p for p in folder.iterdir() if p.is_file()):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()


def main() -> None:
    """Measure and print."""
    options = arguments()
    work = options.work / options.release
    work.mkdir(parents=True, exist_ok=True)
    package = unlock_corpus.download(options.release, options.work / "wheels")
    python = options.old_python or environment(options.release, options.work / "environments")
    cache = Cache(work / "cache.json")
    tools = digest_of("modelcheck", "fixers")
    emulator = digest_of("modelcheck/emulate", "benchmarks/unlock_worker.py")
    run = Run(work, options.release, python, cache, options.jobs, tools, emulator)
    rows = corpus(package, work, options.models)
    stages = [s for s in STAGES if s in options.stage]
    originals(run, rows)
    able = [row for row in rows if row.plain or (row.runs and options.all)]
    fix(run, able, stages)
    pairs = [(row, stage) for row in able for stage in stages]
    measure(run, pairs, options.engine)
    if options.json:
        options.json.write_text(json.dumps([to_json(row) for row in rows], indent=1))
    print_report(rows, stages)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default="4.44.2", help="the transformers of the corpus")
    parser.add_argument("--models", type=lambda text: text.split(","), help="only these")
    parser.add_argument("--stage", action="append", choices=STAGES, help="repeatable; all")
    parser.add_argument("--all", action="store_true", help="also decoders with ALiBi and the like")
    parser.add_argument("--engine", action="store_true", help="also the numbers of vLLM's engine")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--old-python", help="one with that release, instead of making one")
    parser.add_argument("--json", type=Path, help="write what was found to this file")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir(), "modelcheck-unlock")
    )
    options = parser.parse_args()
    options.stage = options.stage or list(STAGES)
    return options


# The steps --------------------------------------------------------------------------------


def corpus(package: Path, work: Path, only: Sequence[str] | None) -> list[Row]:
    """Every decoder of the release as a repository under ``work``/before."""
    rows = []
    for model in unlock_corpus.models(package):
        if only and model.name not in only:
            continue
        folder = work / f"before_{model.name}"
        shutil.rmtree(folder, ignore_errors=True)
        unlock_corpus.write_repo(model, folder)
        stem = re.sub(r"Config$", "", model.config)
        rows.append(Row(model.name, stem, {"before": folder}))
    return rows


def originals(run: Run, rows: Sequence[Row]) -> None:
    """Does each original run under its own release, and what kind of a decoder is it?"""
    answers = run.ask(
        "original",
        [(row, "before") for row in rows],
        lambda row, stage: {"folder": str(row.folders[stage]), "facts": True},
        "unlock_worker:build",
        run.old_python,
    )
    for row in rows:
        answer = answers[row.name, "before"]
        row.original = {"step": "run", "error": answer["failed"]} if "failed" in answer else answer


def fix(run: Run, rows: Sequence[Row], stages: Sequence[str]) -> None:
    """The repositories of the later stages, and the verdict on each."""
    fixed = [stage for stage in stages if stage != "before"] or []
    for row in rows:
        for stage in fixed:
            row.folders[stage] = row.folders["before"]  # what the answer is about
    pairs = [(row, stage) for row in rows for stage in fixed]
    for stage in fixed:
        answers = run.ask(
            "fix",
            [pair for pair in pairs if pair[1] == stage],
            lambda row, stage: {"folder": str(row.folders["before"]), "unsafe": stage == "unsafe"},
            "unlock_worker:fix",
            extra=f"{stage} {run.tools}",
        )
        for row in rows:
            answer = answers[row.name, stage]
            folder = run.work / f"{stage}_{row.name}"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(row.folders["before"], folder)
            for name, text in answer.get("texts", {}).items():
                (folder / name).write_bytes(text.encode())
            row.folders[stage] = folder
            row.results[stage] = {"fix": {k: v for k, v in answer.items() if k != "texts"}}


def measure(run: Run, pairs: Sequence[tuple[Row, str]], engine: bool) -> None:
    """Build, emulate, compare and load what each stage left."""
    for row, stage in pairs:
        row.results.setdefault(stage, {})["parses"] = parses(row.folders[stage])
    folder = lambda row, stage: {"folder": str(row.folders[stage])}  # noqa: E731
    built = run.ask("build", pairs, folder, "unlock_worker:build")
    note(pairs, "build", built)
    able = [(row, s) for row, s in pairs if built[row.name, s].get("step") == ""]
    note(able, "vllm", load(run, able))
    if PYTHON in os.environ:
        able = [(row, s) for row, s in able if is_built(row.results[s])]
    compared = run.ask(
        "numbers",
        able,
        lambda row, stage: {
            "old": str(row.folders["before"]),
            "new": str(row.folders[stage]),
            "old_python": run.old_python,
        },
        "unlock_worker:numbers",
        extra=run.emulator,
    )
    note(able, "numbers", compared)
    if engine:
        fine = [(row, s) for row, s in able if is_same(row.results[s])]
        note(fine, "engine", in_engine(run, fine))


def note(
    pairs: Sequence[tuple[Row, str]], step: str, answers: Mapping[tuple[str, str], Any]
) -> None:
    """Keep the answers with their rows."""
    for row, stage in pairs:
        row.results[stage][step] = answers[row.name, stage]


def parses(folder: Path) -> bool:
    """Is all of a repository's code Python?"""
    try:
        for path in folder.glob("*.py"):
            compile(path.read_bytes(), path.name, "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def load(run: Run, pairs: Sequence[tuple[Row, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """What vLLM makes of each: an error, or what it fuses."""
    if PYTHON not in os.environ:
        progress(f"vLLM is not asked: ${PYTHON} names no Python that has it")
        return {(row.name, stage): {"error": "not asked"} for row, stage in pairs}
    keys = {(row.name, s): run.key("vllm", row.folders[s]) for row, s in pairs}
    found = {pair: run.cache.get(key) for pair, key in keys.items()}
    missing = [(row, s) for row, s in pairs if found[row.name, s] is None]
    for start in range(0, len(missing), BATCH):
        batch = missing[start : start + BATCH]
        for (row, stage), answer in zip(batch, load_batch(batch), strict=True):
            found[row.name, stage] = answer
            run.cache.put(keys[row.name, stage], answer)
        progress(f"vllm: {min(start + BATCH, len(missing))}/{len(missing)}")
    return {pair: value for pair, value in found.items() if value is not None}


def in_engine(run: Run, pairs: Sequence[tuple[Row, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """vLLM's engine against transformers, on the code whose numbers are the original's."""
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.vllm.parity import run_parity

    found: dict[tuple[str, str], dict[str, Any]] = {}
    for number, (row, stage) in enumerate(pairs, 1):
        key = run.key("engine, differs", row.folders[stage])
        answer = run.cache.get(key)
        if answer is None:
            try:
                (report,) = run_parity([BuildSpec(str(row.folders[stage]), None, True)])
                if isinstance(report, BuildError):
                    raise report
                said = report.refused or report.one.error or "; ".join(report.causes)
                words = said or f"other numbers, by {report.one.largest:.2g}"
                ran = not (report.refused or report.one.error)
                answer = {"same": report.same, "error": "" if report.same else words}
                answer["differs"] = ran and not report.same
            except ModelcheckError as error:
                answer = {"error": str(error)}
            run.cache.put(key, answer)
            progress(f"engine: {number}/{len(pairs)}")
        found[row.name, stage] = answer
    return found


def load_batch(batch: Sequence[tuple[Row, str]]) -> list[dict[str, Any]]:
    """One vLLM process for several models; when it dies, one for each half."""
    from modelcheck.dryrun.target import BuildSpec

    specs = [BuildSpec(str(row.folders[stage]), None, True) for row, stage in batch]
    try:
        reports = load_many(specs)
    except ModelcheckError as error:
        if len(batch) == 1:
            return [{"error": str(error)}]
        half = len(batch) // 2
        return [*load_batch(batch[:half]), *load_batch(batch[half:])]
    return [loaded(report) for report in reports]


def loaded(report: LoadReport | BuildError) -> dict[str, Any]:
    """What fused, by class, and the warnings."""
    if isinstance(report, BuildError):
        return {"error": str(report)}
    fused: dict[str, list[str]] = {}
    for found in report.vllm:
        if found.fired:
            fused[found.class_name] = sorted({*fused.get(found.class_name, ()), *found.fired})
    missed = [f"{c.class_name} {m.fuser}: {m.reason}" for c in report.vllm for m in c.missed]
    return {"fused": fused, "missed": missed}


# What it comes to -------------------------------------------------------------------------


def is_built(result: Mapping[str, Any]) -> bool:
    """Does vLLM build it?"""
    return "vllm" in result and "error" not in result["vllm"]


def is_same(result: Mapping[str, Any]) -> bool:
    """Built, with the original's log-probabilities and tokens."""
    return is_built(result) and bool(result.get("numbers", {}).get("same"))


def fusers(result: Mapping[str, Any]) -> set[str]:
    """The fusers that fire anywhere in the model."""
    return {name for names in result["vllm"].get("fused", {}).values() for name in names}


def first_reason(result: Mapping[str, Any]) -> tuple[str, str]:
    """The first step that a model does not pass, and why; ("", "") for one that passes all."""
    if not result["parses"]:
        return "parses", "not Python"
    if "failed" in result["build"]:
        return "builds", result["build"]["failed"]
    if result["build"]["step"]:
        return f"{result['build']['step']}s", result["build"]["error"]
    if not is_built(result):
        return "vLLM builds", result["vllm"]["error"]
    numbers = result["numbers"]
    if not numbers.get("same"):
        return "numbers", numbers.get("failed") or numbers.get("error", "")
    if "engine" in result and not result["engine"].get("same"):
        return "engine", result["engine"].get("failed") or result["engine"].get("error", "")
    return "", ""


def told(result: Mapping[str, Any]) -> bool:
    """Do the findings that are left say that the numbers are wrong, or that vLLM refuses?"""
    return result.get("fix", {}).get("verdict") in ("wrong output", "refused")


def silently_wrong(result: Mapping[str, Any]) -> bool:
    """Built, with other numbers in vLLM's way of calling or in its engine; no finding says so."""
    differs = is_built(result) and (
        result["numbers"].get("differs") or result.get("engine", {}).get("differs")
    )
    return bool(differs) and "fix" in result and not told(result)


def print_report(rows: Sequence[Row], stages: Sequence[str]) -> None:
    """The funnel, what fell out of it, and the reasons by number."""
    plain = [row for row in rows if row.plain]
    print(f"corpus: {len(rows)} decoders")
    for row in rows:
        if not row.runs:
            print(f"  set aside: {row.name}: the original does not run: {row.original['error']}")
        elif row.original["kinds"]:
            print(f"  set aside: {row.name}: {', '.join(row.original['kinds'])}")
    print(f"plain decoders: {len(plain)}\n")
    print(f"{'':34}{''.join(stage.rjust(9) for stage in stages)}")
    for title, passes in LINES.items():
        counts = [sum(passes(row.results[s]) for row in plain if s in row.results) for s in stages]
        print(f"{title:34}{''.join(str(count).rjust(9) for count in counts)}")
    print_shares([row.results["unsafe"] for row in plain if "unsafe" in row.results])
    for stage in stages:
        print_stage(plain, stage)


def print_shares(results: Sequence[Mapping[str, Any]]) -> None:
    """What is asked of the corpus: of the plain decoders, and of those with the right numbers."""
    fine = [r for r in results if is_same(r)]
    if not fine:
        return
    queries = [r for r in fine if fusers(r) & set(QKV)]
    whole = [r for r in queries if not any(UNFUSED.search(text) for text in r["fix"]["left"])]
    print(f"\n{len(fine) / len(results):.1%} give the original's numbers")
    print(f"{len(queries) / len(fine):.1%} of those with QKV or MLA fused")
    print(f"{len(whole) / len(fine):.1%} of those also with every norm and GLU that they have")


LINES: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "parses": lambda r: bool(r["parses"]),
    "imports, builds and runs": lambda r: r["build"].get("step") == "",
    "vLLM builds": is_built,
    "  with the original's numbers": is_same,
    "    QKV or MLA fused": lambda r: is_same(r) and bool(fusers(r) & set(QKV)),
    "    RMS norm fused": lambda r: is_same(r) and NORM in fusers(r),
    "    GLU fused": lambda r: is_same(r) and GLU in fusers(r),
    "    and in vLLM's engine": lambda r: is_same(r) and bool(r.get("engine", {}).get("same")),
    "other numbers, not told": silently_wrong,
}


def print_stage(rows: Sequence[Row], stage: str) -> None:
    """What falls out of a stage, and the reasons, most frequent first."""
    reasons: Counter[str] = Counter()
    who: dict[str, list[str]] = {}
    print(f"\n{stage}:")
    for row in rows:
        result = row.results[stage]
        step, reason = first_reason(result)
        if not step:
            print(f"  {row.name}: passes; {', '.join(sorted(fusers(result))) or 'nothing fused'}")
            continue
        print(f"  {row.name}: {step}: {reason[:220]}")
        general = f"{step}: {generalised(reason, row.stem)}"
        reasons[general] += 1
        who.setdefault(general, []).append(row.name)
    print(f"\n{stage}, first reasons:")
    for reason, count in reasons.most_common():
        print(f"  {count:3} {reason[:160]} ({', '.join(who[reason][:6])})")


def generalised(reason: str, stem: str) -> str:
    """A reason without the names of one model."""
    text = re.sub(r"\S*/(?=\w)", "", reason)
    text = re.sub(rf"\b_?{re.escape(stem)}(?=[A-Z\b])", "*", text) if stem else text
    text = re.sub(r"\b\w+_remote\b|\b(before|fix|unsafe)_\w+", "*", text)
    text = re.sub(r"modeling_\w+\.py:\d+|modeling_\w+", "modeling", text)
    return re.sub(r"\d+(\.\d+)?(e-?\d+)?", "N", text)


def to_json(row: Row) -> dict[str, Any]:
    """Plain data of a row."""
    return {"name": row.name, "original": row.original, "results": row.results}


def digest_of(*places: str) -> str:
    """A digest of our own source: what another version of it answered is not kept."""
    digest = hashlib.sha256()
    for place in (HERE.parent / name for name in places):
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def progress(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
