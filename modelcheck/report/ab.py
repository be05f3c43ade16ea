"""An A/B run in words: the figures, what they show, and the fusions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelcheck.ab.intervals import CONFIDENCE
from modelcheck.ab.results import BACKEND, OWN
from modelcheck.report.model import from_here, plural

if TYPE_CHECKING:
    from rich.console import Console

    from modelcheck.ab.intervals import Estimate
    from modelcheck.ab.results import AbReport

TITLES = {OWN: "vLLM's own", BACKEND: "Transformers backend"}
NAMED = max(map(len, TITLES.values()))


def render_text(report: AbReport, console: Console) -> None:
    """Print a report."""
    from rich.text import Text

    for line in (*figures(report), *lines(report)):
        console.print(Text(line), soft_wrap=True)


def figures(report: AbReport) -> Iterator[str]:
    """For each metric both sides and the ratio, with their intervals."""
    for compared in report.comparisons:
        yield f"{compared.metric.name}, {compared.metric.unit}"
        for name, side in compared.sides.items():
            bounds = interval(side.mean)
            yield f"  {TITLES[name]:<{NAMED}}  {short(side.median)}{bounds}"
        if compared.ratio is not None:
            yield f"  {'ratio':<{NAMED}}  {number(compared.ratio)}: {compared.verdict}"
    yield ""


def number(value: Estimate) -> str:
    """A ratio with its interval: "0.98 [0.95, 1.01]"."""
    return short(value.value) + interval(value)


def interval(value: Estimate) -> str:
    """ " [0.95, 1.01]", "" where there is none."""
    if value.low is None or value.high is None:
        return ""
    return f" [{short(value.low)}, {short(value.high)}]"


def short(value: float) -> str:
    """Four digits that count, or more before the point: 1234.5 is "1234"."""
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}" if value < 1e7 else f"{value:.1e}"


def lines(report: AbReport) -> Iterator[str]:
    """How to read the figures, and the fusions."""
    if report.one_sided:
        yield f"{report.one_sided}: only --model-impl {BACKEND} can run, there is no ratio"
    pairs = len({run.pair for run in report.runs})
    ran = plural(pairs, "run") + ("" if report.one_sided else " of each side")
    how = f"{CONFIDENCE:.0%} intervals of the geometric mean (Student's t on logarithms)"
    yield f"{ran}: medians, and {how}" if pairs > 1 else f"{ran}: no intervals from one"
    if not report.one_sided:
        yield "ratio: the speed of the Transformers backend in that of vLLM's own, pair by pair"
    yield from _fusions(report)


def _fusions(report: AbReport) -> Iterator[str]:
    by = from_here(report.expected) if report.expected.endswith(".lock") else report.expected
    for missing in report.missing:
        name = f" ({missing.name})" if missing.name else ""
        reason = f": {missing.reason}" if missing.reason else ""
        yield f"not fused: {missing.class_name}: {missing.fuser}{name}{reason}"
    for doubt in report.doubts:
        yield f"fusions: {doubt}"
    if not report.missing:
        yield f"fusions: all {report.fusions} that are expected are in every log ({by})"
    else:
        yield f"fusions: {len(report.missing)} of {report.fusions} are missing ({by})"
