"""An A/B run as one HTML page with its drawings inside: every run, and the ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from modelcheck.ab.results import BACKEND, OWN, AbReport, Comparison
from modelcheck.report.ab import TITLES, lines, number

WIDTH, ROW, LEFT, RIGHT = 720, 34, 190, 40  # pixels
COLOURS = {OWN: "#4063d8", BACKEND: "#d1495b"}
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 760px; padding: 0 1rem;
  color: #1f2430; background: #fff }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin: 1.6rem 0 .2rem }
svg { width: 100%; height: auto } text { font: 13px system-ui, sans-serif; fill: currentColor }
ul { padding-left: 1.2rem } .axis { stroke: #8a90a0 } .pair { stroke: #b9bfcc }
@media (prefers-color-scheme: dark) { body { color: #e6e8ee; background: #171a21 }
  .pair { stroke: #4a5163 } }
"""


def page(report: AbReport) -> str:
    """The page; it loads nothing."""
    title = escape(f"{report.target}: vllm bench {report.bench}")
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items() if value)
    said = "".join(f"<li>{escape(line)}</li>" for line in (*_shown(report), *lines(report)))
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><meta charset="utf-8"><title>{title}</title>',
            f"<style>{STYLE}</style>",
            f"<h1>{title}</h1><p>{escape(versions)}<br>{escape(' '.join(report.arguments))}</p>",
            f"<ul>{said}</ul>",
            *(_section(report, compared) for compared in report.comparisons),
            *([_ratios(drawn)] if (drawn := _with_ratio(report)) else []),
            "</html>\n",
        ]
    )


def _shown(report: AbReport) -> Iterator[str]:
    for compared in _with_ratio(report):
        assert compared.ratio is not None
        yield f"{compared.metric.name}: ratio {number(compared.ratio)}: {compared.verdict}"


def _with_ratio(report: AbReport) -> list[Comparison]:
    return [c for c in report.comparisons if c.ratio is not None]


def _section(report: AbReport, compared: Comparison) -> str:
    metric = compared.metric
    better = "more is better" if metric.more_is_better else "less is better"
    heading = f"<h2>{escape(metric.name)}, {escape(metric.unit)} ({better})</h2>"
    values = {side: report.values(side, metric) for side in compared.sides}
    return heading + _svg(len(values), list(_points(values)))


def _points(values: dict[str, list[float]]) -> Iterator[str]:
    """A row for each side, a point for each run, and a line from run to run of a pair."""
    scale = _Scale([v for some in values.values() for v in some])
    rows = {side: ROW * (place + 0.5) for place, side in enumerate(values)}
    if len(values) == 2:
        for one, other in zip(values[OWN], values[BACKEND], strict=True):
            yield (
                f'<line class="pair" x1="{scale(one):.1f}" y1="{rows[OWN]}" '
                f'x2="{scale(other):.1f}" y2="{rows[BACKEND]}"/>'
            )
    for side, some in values.items():
        yield f'<text x="0" y="{rows[side] + 4}">{escape(TITLES[side])}</text>'
        for value in some:
            yield (
                f'<circle cx="{scale(value):.1f}" cy="{rows[side]}" r="5" '
                f'fill="{COLOURS[side]}" fill-opacity=".75"><title>{value:.5g}</title></circle>'
            )
    yield from _axis(scale, ROW * len(values))


def _ratios(drawn: Sequence[Comparison]) -> str:
    """A row for each metric, its ratio with the interval, and a line at 1."""
    found = [c.ratio for c in drawn if c.ratio is not None]
    bounds = [v for r in found for v in (r.value, r.low, r.high) if v is not None]
    scale, height = _Scale([1.0, *bounds]), ROW * len(found)
    parts = [f'<line class="axis" x1="{scale(1):.1f}" x2="{scale(1):.1f}" y1="0" y2="{height}"/>']
    for place, (compared, ratio) in enumerate(zip(drawn, found, strict=True)):
        y = ROW * (place + 0.5)
        parts.append(f'<text x="0" y="{y + 4}">{escape(compared.metric.name)}</text>')
        if ratio.low is not None and ratio.high is not None:
            parts.append(
                f'<line x1="{scale(ratio.low):.1f}" x2="{scale(ratio.high):.1f}" y1="{y}" '
                f'y2="{y}" stroke="{COLOURS[BACKEND]}" stroke-width="4" stroke-opacity=".6"/>'
            )
        parts.append(
            f'<circle cx="{scale(ratio.value):.1f}" cy="{y}" r="5" fill="{COLOURS[BACKEND]}">'
            f"<title>{escape(number(ratio))}</title></circle>"
        )
    heading = "<h2>speed of the Transformers backend, vLLM's own being 1</h2>"
    return heading + _svg(len(found), [*parts, *_axis(scale, height)])


class _Scale:
    """Values to pixels, on a logarithmic axis with some room at both ends."""

    def __init__(self, values: Sequence[float]) -> None:
        low, high = math.log(min(values)), math.log(max(values))
        room = max((high - low) * 0.08, 0.005)
        self._low, self._high = low - room, high + room

    def __call__(self, value: float) -> float:
        share = (math.log(value) - self._low) / (self._high - self._low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    @property
    def ticks(self) -> list[float]:
        """Four values along the axis."""
        return [math.exp(self._low + (self._high - self._low) * k / 3) for k in range(4)]


def _axis(scale: _Scale, y: float) -> Iterator[str]:
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
    for value in scale.ticks:
        yield (f'<text x="{scale(value):.1f}" y="{y + 18}" text-anchor="middle">{value:.4g}</text>')


def _svg(rows: int, parts: Sequence[str]) -> str:
    height = ROW * rows + 26
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
