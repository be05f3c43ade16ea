"""The table of fusions, class by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from modelcheck.fusers.results import ClassReport, Fires, FusionResult

if TYPE_CHECKING:
    from rich.console import Console

    from modelcheck.dryrun.results import DryrunReport

STYLE = {Fires.YES: "green", Fires.NO: "yellow", Fires.UNKNOWN: "cyan"}
WORD = {Fires.YES: "yes", Fires.NO: "missed", Fires.UNKNOWN: "unknown"}


def render_text(report: DryrunReport, console: Console) -> None:
    """Print a report: one line of what was built, the table, one line of what came of it."""
    console.print(Text(heading(report)), soft_wrap=True)
    console.print()
    if report.classes:
        console.print(table(report.classes))
        console.print()
    console.print(Text(summary(report)), soft_wrap=True)


def heading(report: DryrunReport) -> str:
    """``LlamaModel, 2 of 32 layers built; vLLM 0.33.0, transformers ..., torch ...``."""
    depth = ""
    if report.total_depth is not None:
        depth = f", {report.built_depth} of {report.total_depth} layers built"
    versions = f"vLLM {report.vllm}, transformers {report.transformers}, torch {report.torch}"
    return f"{report.model_class}{depth}; {versions}"


def table(classes: tuple[ClassReport, ...]) -> Table:
    """One row for every fuser of every class."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    shown.add_column("Class", overflow="fold")
    shown.add_column("Count", justify="right")
    shown.add_column("Fuser", no_wrap=True)
    shown.add_column("Fires", no_wrap=True)
    shown.add_column("Becomes, or why not", overflow="fold", ratio=1)
    for report in classes:
        name, count = report.class_name, str(report.count)
        for result in results(report):
            shown.add_row(
                Text(name),
                count,
                Text(result.fuser),
                Text("wrong", "bold red")
                if result.wrong
                else Text(WORD[result.fires], STYLE[result.fires]),
                Text(outcome(result)),
            )
            name = count = ""
    return shown


def results(report: ClassReport) -> Iterator[FusionResult]:
    """What fires, then what is missed."""
    yield from report.fusions
    yield from report.missed


def outcome(result: FusionResult) -> str:
    """What vLLM puts in place, or the reason why it does not, with the line it blames."""
    if result.fires is Fires.YES:
        children = ", ".join(dict.fromkeys(child for child, _ in result.shards))
        parts = [f"{result.becomes} ({children})" if children else result.becomes]
        numerics = dict(result.details).get("numerics", "")
        return "; ".join([*parts, *filter(None, (result.wrong, numerics))])
    where = f"line {result.span.line}: " if result.span is not None else ""
    return where + result.reason


def summary(report: DryrunReport) -> str:
    """``5 fusions in 3 classes; 1 missed``."""
    fires = Counter(r.fires for report in report.classes for r in results(report))
    wrong = sum(bool(r.wrong) for report in report.classes for r in results(report))
    fused = sum(1 for report in report.classes if report.fired)
    if not fires:
        return "no class fuses, and none looks as if it should"
    parts = [f"{_plural(fires[Fires.YES], 'fusion', 's')} in {_plural(fused, 'class', 'es')}"]
    parts += [f"{fires[f]} {WORD[f]}" for f in (Fires.NO, Fires.UNKNOWN) if fires[f]]
    parts += [f"{wrong} with wrong numbers"] if wrong else []
    return "; ".join(parts)


def _plural(count: int, noun: str, ending: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"
