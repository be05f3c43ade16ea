"""The tables of ``tp`` and of ``load --tp``: which rows of each projection a rank holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from modelcheck.tensor_parallel.results import LinearPlan, Shard, SizePlan, TpReport

Key = tuple[str, str, str, str]
COLOURS = {"error": "red", "wrong": "red", "slow": "yellow"}


def render_text(report: TpReport, console: Console) -> None:
    """Print a plan: the linears by size, what a rank holds, and what breaks."""
    console.print(Text(heading(report)), soft_wrap=True)
    console.print()
    console.print(linears(report.sizes))
    console.print()
    console.print(ranks(report.sizes))
    console.print()
    for size in report.sizes:
        for problem in size.problems:
            where = f"{problem.path}: " if problem.path else ""
            severity = Text(problem.severity, COLOURS.get(problem.severity, ""))
            line = Text.assemble(f"TP {size.size}: ", severity, f": {where}{problem.message}")
            console.print(line, soft_wrap=True)
    console.print(Text(summary(report)), soft_wrap=True)


def heading(report: TpReport) -> str:
    """What was judged, by which releases."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return f"{report.model_class}, judged by vLLM {report.vllm}; {versions}"


def linears(sizes: Iterable[SizePlan]) -> Table:
    """A row for every kind of linear layer and way of sharding it, a column for every size."""
    plans = list(sizes)
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("Linear", "Count", "Style", "From", "Weight"):
        shown.add_column(name, overflow="fold", justify="right" if name == "Count" else "left")
    for plan in plans:
        shown.add_column(f"TP {plan.size}", overflow="fold")
    rows: dict[Key, dict[int, LinearPlan]] = {}
    for plan in plans:
        for linear in plan.linears:
            key = linear.path, str(linear.style), str(linear.origin), linear.because
            rows.setdefault(key, {})[plan.size] = linear
    for (path, style, origin, because), by_size in rows.items():
        first = next(iter(by_size.values()))
        whole = " + ".join(str(shard.rows) for shard in first.shards)
        cells = (by_size.get(plan.size) for plan in plans)
        texts = (path, str(first.count), style, f"{origin} {because}".strip())
        shown.add_row(
            *(Text(text) for text in texts),
            Text(f"{whole} x {first.inputs}"),
            *(Text(_cell(cell)) for cell in cells),
        )
    return shown


def _cell(linear: LinearPlan | None) -> str:
    if linear is None:
        return "-"
    rows = " + ".join(_shard(shard) for shard in linear.shards)
    inputs = "?" if linear.inputs_per_rank is None else str(linear.inputs_per_rank)
    return f"{rows} x {inputs}"


def _shard(shard: Shard) -> str:
    if shard.per_rank is None:
        return "?"
    return f"{shard.per_rank} (on {shard.replicas})" if shard.replicas > 1 else str(shard.per_rank)


def ranks(sizes: Iterable[SizePlan]) -> Table:
    """What one rank holds, for every size."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    names = (
        "A rank of",
        "Heads",
        "KV heads",
        "Weights",
        "Linears",
        "Experts",
        "Embeddings",
        "Rest",
    )
    for name in names:
        shown.add_column(name, justify="right")
    for plan in sizes:
        kv = "?" if plan.kv_heads is None else str(plan.kv_heads)
        if plan.kv_replicas > 1:
            kv += f", each on {plan.kv_replicas} ranks"
        parts = (plan.parts.get(n) for n in ("linears", "experts", "embeddings", "others"))
        shown.add_row(
            str(plan.size),
            "?" if plan.heads is None else str(plan.heads),
            kv,
            *(_bytes(number) for number in (plan.bytes_per_rank, *parts)),
        )
    return shown


def _bytes(number: int | None) -> str:
    if number is None:
        return "?"
    value, units = float(number), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def summary(report: TpReport) -> str:
    """Which sizes work."""
    broken = [str(size.size) for size in report.sizes if size.breaks]
    sizes = ", ".join(str(size.size) for size in report.sizes)
    if not broken:
        return f"nothing was found that breaks with {sizes} (weights in {report.dtype})"
    return f"breaks with {', '.join(broken)} of the sizes {sizes} (weights in {report.dtype})"
