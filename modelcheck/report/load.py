"""The table of ``load``: dryrun's word beside vLLM's deed, class by class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from modelcheck.vllm.compare import Comparison
    from modelcheck.vllm.load import LoadReport


def render_text(report: LoadReport, console: Console) -> None:
    """Print a report: what was built, the table, the reasons, and the verdict."""
    console.print(Text(heading(report)), soft_wrap=True)
    console.print()
    if report.comparisons:
        console.print(table(report.comparisons))
        console.print()
    for line in remarks(report):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(summary(report)), soft_wrap=True)


def heading(report: LoadReport) -> str:
    """What was built where, what was cut, and the releases."""
    depths = [f"{name} {built} of {total}" for name, built, total in report.depths]
    cut = f", {', '.join(depths)}" if depths else ""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return f"{report.backend} on {report.device}{cut}; {versions}"


def table(rows: tuple[Comparison, ...]) -> Table:
    """One row for every class, and every different outcome in it."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    shown.add_column("Class", overflow="fold")
    shown.add_column("Count", justify="right")
    shown.add_column("Dryrun said", overflow="fold")
    shown.add_column("vLLM did", overflow="fold")
    shown.add_column("Agree", no_wrap=True)
    for row in rows:
        shown.add_row(
            Text(row.class_name),
            str(row.count),
            Text(_fusers(row.dryrun, row.undecided)),
            Text(_fusers(row.vllm)),
            Text("yes", "green") if row.agree else Text("no", "red"),
        )
    return shown


def _fusers(fired: tuple[str, ...], undecided: tuple[str, ...] = ()) -> str:
    return ", ".join([*fired, *(f"{name}?" for name in undecided)]) or "-"


def remarks(report: LoadReport) -> list[str]:
    """Below the table: where the two differ, why a fusion is lost, what vLLM warned of."""
    lines = [
        f"{row.class_name}: {text}"
        for row in report.comparisons
        for text in (*row.differences, *row.reasons)
    ]
    lines += [f"vLLM warns: {text}" for text in report.warnings]
    if report.tokens is not None:
        lines.append(f"the engine started with dummy weights: {report.tokens} tokens")
    return list(dict.fromkeys(lines))


def summary(report: LoadReport) -> str:
    """``4 classes agree``, or how many do not."""
    rows = report.comparisons
    if not rows:
        return "vLLM fuses nothing in this model, as dryrun said"
    differ = sum(1 for row in rows if not row.agree)
    if differ:
        return f"{differ} of {len(rows)} rows differ: vLLM does not do what dryrun said"
    return f"vLLM does what dryrun said, in all {len(rows)} rows"
