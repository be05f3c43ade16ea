"""The table of ``emulate``: prompt by prompt, then what differs first and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from modelcheck.emulate.results import Outcome

if TYPE_CHECKING:
    from rich.console import Console

    from modelcheck.emulate.results import (
        EmulationReport,
        FirstDifference,
        PromptResult,
        VersionsReport,
    )


def render_text(report: EmulationReport, console: Console) -> None:
    """Print a report: what was run, the prompts, what differs, and the verdict."""
    console.print(Text(heading(report)), soft_wrap=True)
    if report.prompts:
        console.print()
        console.print(table(report.prompts, report.tolerance))
        console.print()
    for line in remarks(report):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(summary(report)), soft_wrap=True)


def render_versions(report: VersionsReport, console: Console) -> None:
    """Print the comparison with the old version, after the report of the new one."""
    console.print()
    releases = ", ".join(f"{name} {version}" for name, version in report.old_versions.items())
    console.print(Text(f"Against {report.old}{f'; {releases}' if releases else ''}"))
    if report.prompts:
        console.print()
        console.print(table(report.prompts, report.new.tolerance))
        console.print()
    for line in version_remarks(report):
        console.print(Text(line), soft_wrap=True)


def heading(report: EmulationReport) -> str:
    """What was run on what, and the releases."""
    name = report.model_class or report.target
    versions = ", ".join(f"{key} {version}" for key, version in report.versions.items())
    return f"{name}, {report.weights} weights, float32; {versions}"


def table(prompts: Sequence[PromptResult], tolerance: float) -> Table:
    """One row for every prompt."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("Prompt", "Prefill", "Generated", "Top-1", "Greedy"):
        shown.add_column(title, justify="right")
    shown.add_column("Same", no_wrap=True)
    for prompt in prompts:
        differs = prompt.differs(tolerance)
        shown.add_row(
            f"{prompt.length} tokens",
            _number(prompt.prefill),
            _number(prompt.decode),
            "-" if prompt.top1 is None else f"{prompt.top1}/{prompt.tokens}",
            "-" if prompt.greedy is None else f"{prompt.greedy}/{prompt.steps}",
            Text("no", "red") if differs else Text("yes", "green"),
        )
    return shown


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2g}" if math.isfinite(value) else "not finite"


def remarks(report: EmulationReport) -> list[str]:
    """Below the table: where it differs first, why, and what was made smaller."""
    lines = []
    if report.reduced:
        lines.append(f"Made smaller: {'; '.join(report.reduced)}")
    if report.first is not None:
        lines.append(f"First difference: {_place(report.first)}")
    if report.outcome is Outcome.DIFFERS:
        lines += [f"Likely cause: {cause}" for cause in report.causes]
    if report.lost_buffers:
        names = ", ".join(report.lost_buffers[:3]) + (", ..." if report.lost_buffers[3:] else "")
        lines.append(
            f"Buffers that from_pretrained makes otherwise than the constructor: {names} "
            "(vLLM has the constructor's, transformers computes with the others)"
        )
    return lines


def _place(first: FirstDifference) -> str:
    path = first.path or "the base model itself"
    return f"{path} ({first.class_name}), in {first.phase}"


def summary(report: EmulationReport) -> str:
    """The verdict in one line."""
    if report.outcome is Outcome.REFUSED:
        return f"vLLM would refuse: {'; '.join(report.causes)}"
    differ = sum(1 for prompt in report.prompts if prompt.differs(report.tolerance))
    if differ:
        return f"The {report.compared} of {differ} of {len(report.prompts)} prompts differ"
    same = f"The {report.compared} are the same, as vLLM calls it and as transformers runs it"
    return same if report.same else f"{same}, until it is saved and loaded"


def version_remarks(report: VersionsReport) -> list[str]:
    """Keys that differ, the first module that does, and the verdict."""
    lines = [
        f"{words}: {', '.join(names[:5])}{', ...' if names[5:] else ''}"
        for words, names in (
            ("Weights that only the old version has", report.missing),
            ("Weights that only the new version has", report.unexpected),
            ("Weights of another shape", report.reshaped),
        )
        if names
    ]
    if report.first is not None:
        lines.append(f"First difference from the old version: {_place(report.first)}")
    if report.same:
        lines.append("The new version gives what the old one gave, from the same weights")
    elif report.prompts:
        lines.append("The new version does not replace the old one")
    else:
        lines.append("Not compared: vLLM would refuse the new version")
    return lines
