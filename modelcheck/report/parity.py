"""The tables of ``load --parity`` and ``--tp``: the numbers, and what each rank holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from modelcheck.source.plans import generic_name

if TYPE_CHECKING:
    from rich.console import Console

    from modelcheck.vllm.parity import Held, Numbers, ParityReport


def render_text(report: ParityReport, console: Console) -> None:
    """Print a report: what was run, the numbers, the shards, the causes and the verdict."""
    console.print(Text(heading(report)), soft_wrap=True)
    console.print()
    if report.refused is None:
        console.print(numbers(report))
        console.print()
    if report.held and report.tp > 1:
        console.print(shards(report.held))
        console.print()
    for line in remarks(report):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(summary(report)), soft_wrap=True)


def heading(report: ParityReport) -> str:
    """What ran, what was made smaller, and the releases."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    smaller = f" ({', '.join(report.reduced)})" if report.reduced else ""
    return f"{report.target}, random float32 weights{smaller}; {versions}"


def numbers(report: ParityReport) -> Table:
    """One row for each pair of runs."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("Compared", "Largest difference", "Most likely token", "Greedy tokens", "Same"):
        shown.add_column(name)
    rows = [("vLLM with transformers", report.one)]
    if report.several is not None:
        rows.append((f"{report.tp} ranks with one", report.several))
    for name, found in rows:
        shown.add_row(name, *_row(found))
    return shown


def _row(found: Numbers) -> tuple[str | Text, ...]:
    verdict = Text("yes", "green") if found.same else Text("no", "red")
    if found.error is not None or not found.prompts:
        return ("-", "-", "-", verdict)
    same, tokens = found.top1
    greedy = sum(p.greedy or 0 for p in found.prompts)
    steps = sum(p.steps for p in found.prompts)
    return (f"{found.largest:.2g}", f"{same} of {tokens}", f"{greedy} of {steps}", verdict)


def shards(held: tuple[Held, ...]) -> Table:
    """Rows of each part of every linear, and of each rank; equal layers are one row."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    shown.add_column("Linear", overflow="fold")
    shown.add_column("Layer", overflow="fold")
    shown.add_column("Rows")
    for rank in range(len(held[0].ranks)):
        shown.add_column(f"Rank {rank}")
    rows = dict.fromkeys(
        (
            generic_name(h.path),
            h.layer,
            _rows(h.sizes),
            *(f"{_rows(r)} x {h.inputs}" for r in h.ranks),
        )
        + ((f"each KV head on {h.kv_replicas} ranks",) if h.kv_replicas > 1 else ())
        for h in held
    )
    if any(len(row) > 3 + len(held[0].ranks) for row in rows):
        shown.add_column("")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    return shown


def _rows(sizes: tuple[int, ...]) -> str:
    return " + ".join(str(size) for size in sizes)


def remarks(report: ParityReport) -> list[str]:
    """Below the tables: what vLLM raised, and why the numbers differ."""
    lines = []
    if report.one.error is not None:
        lines.append(f"one rank: {report.one.error}")
    if report.several is not None and report.several.error is not None:
        lines.append(f"{report.tp} ranks: {report.several.error}")
    return [*lines, *(f"cause: {cause}" for cause in report.causes)]


def summary(report: ParityReport) -> str:
    """The verdict in one line."""
    if report.refused is not None:
        return f"vLLM would refuse: {report.refused}"
    if report.one.error is not None:
        return "vLLM's engine does not run this model"
    if not report.one.same:
        return "vLLM serves other numbers than transformers"
    if report.several is None:
        return "vLLM serves the numbers of transformers"
    if report.several.error is not None:
        return f"vLLM fails on {report.tp} ranks"
    if not report.several.same:
        return f"vLLM serves other numbers on {report.tp} ranks than on one"
    return f"vLLM serves the numbers of transformers, on one rank and on {report.tp}"
