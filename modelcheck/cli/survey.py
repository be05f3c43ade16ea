"""``modelcheck survey``: what fuses in every model type of the installed transformers."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelcheck.cli.options import chosen_contract, note, split_codes, timeout_option
from modelcheck.errors import ExitCode, UsageError
from modelcheck.fusers.results import Evidence

if TYPE_CHECKING:
    from modelcheck.survey.records import Record
    from modelcheck.survey.run import Plan, Taken


@click.command()
@click.option(
    "--model-type",
    "model_types",
    multiple=True,
    metavar="TYPES",
    help="Only these types, comma-separated or repeated. [default: all]",
)
@click.option(
    "--evidence",
    multiple=True,
    metavar="KINDS",
    help="predicted, traced, loaded, comma-separated. [default: all that is installed for]",
)
@click.option(
    "--vllm",
    metavar="VERSION",
    help="Judge by this vLLM release. [default: the one loaded, else the newest known]",
)
@click.option(
    "--tp",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Tensor-parallel size to judge for.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Worker processes. [default: one for each CPU]"
)
@timeout_option(120.0, "Seconds for each model type.")
@click.option(
    "--python",
    metavar="PATH",
    help="For loaded: a Python that has vLLM. [default: $MODELCHECK_VLLM_PYTHON, else this one]",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="survey.jsonl",
    show_default=True,
    help="Where the results go as JSON lines.",
)
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Go on with what the output file holds, as far as it is up to date.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write one self-contained page.",
)
def survey(
    model_types: tuple[str, ...],
    evidence: tuple[str, ...],
    vllm: str | None,
    tp: int,
    jobs: int | None,
    timeout: float,
    python: str | None,
    output: Path,
    resume: bool,
    html: Path | None,
) -> int:
    """Show what fuses in all model types of the installed transformers.

    An interrupted survey goes on where it was when it is started again. Exits with 0 whatever
    is found.
    """
    from modelcheck.survey.catalogue import installed
    from modelcheck.survey.run import make_plan, run

    kinds = _kinds(split_codes(evidence))
    if vllm is not None:
        chosen_contract(vllm)
    _check_writable(html)
    plan = make_plan(
        installed(),
        model_types=split_codes(model_types),
        evidence=kinds,
        vllm=vllm,
        tp=tp,
        jobs=jobs,
        timeout=timeout,
        python=python,
    )
    _notes(plan)
    with _progress(len(plan.keys)) as (advance, shown):

        def started(taken: Taken) -> None:
            shown(taken.kept)
            if taken.dropped and resume:
                note(f"{output}: {taken.dropped} lines were of other releases or evidence: removed")

        def progress(record: Record) -> None:
            advance(record.model_type)

        records = run(plan, output, resume=resume, started=started, progress=progress)
    _show(records, plan)
    if html is not None:
        from modelcheck.report.survey_html import page

        html.write_text(page(records, plan), encoding="utf-8")
    note(f"written: {', '.join(str(path) for path in (output, html) if path)}")
    return ExitCode.OK


def _kinds(names: tuple[str, ...]) -> tuple[Evidence, ...]:
    known = [str(e) for e in Evidence]
    for name in names:
        if name not in known:
            raise UsageError(f"--evidence: {name!r} is none of {', '.join(known)}")
    return tuple(Evidence(name) for name in names)


def _check_writable(path: Path | None) -> None:
    """An hour of work should not end in a folder that does not exist."""
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"--html: {path.parent}: no such folder")


def _notes(plan: Plan) -> None:
    loaded = (plan.vllm_releases or {}).get("transformers")
    if loaded and loaded != plan.catalogue.version:
        note(f"vLLM's Python has transformers {loaded}, this one {plan.catalogue.version}")
    release = (plan.vllm_releases or {}).get("vllm")
    if release and not release.startswith(plan.contract.version):
        note(f"loaded is vLLM {release}, the other evidence is judged by {plan.contract.version}")


Progress = tuple[Callable[[str], None], Callable[[int], None]]


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Progress]:
    """A bar on stderr where that is a terminal: what to call for each line, and once before."""
    if not sys.stderr.isatty():
        yield (lambda name: None), (lambda done: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("survey"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield (
            lambda name: bar.update(task, advance=1, description=name),
            lambda done: bar.update(task, completed=done),
        )


def _show(records: list[Record], plan: Plan) -> None:
    from rich.console import Console

    from modelcheck.report.survey import render_text

    render_text(records, plan, Console(highlight=False))
