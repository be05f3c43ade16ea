"""What an A/B run measured, and what it shows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from modelcheck.ab.intervals import CONFIDENCE, Estimate, estimate
from modelcheck.gate.logcheck import Missing

SCHEMA_VERSION = 1
OWN, BACKEND = "vllm", "transformers"  # the values of --model-impl


@dataclass(frozen=True)
class Metric:
    """A figure of a benchmark: its key in vLLM's result, and which way is better."""

    key: str
    name: str
    unit: str
    more_is_better: bool


METRICS: Mapping[str, tuple[Metric, ...]] = {
    "latency": (Metric("avg_latency", "latency of a batch", "s", False),),
    "throughput": (
        Metric("tokens_per_second", "throughput", "tokens/s", True),
        Metric("requests_per_second", "requests", "1/s", True),
    ),
    "serve": (
        Metric("output_throughput", "output throughput", "tokens/s", True),
        Metric("total_token_throughput", "total throughput", "tokens/s", True),
        Metric("median_ttft_ms", "median TTFT", "ms", False),
        Metric("median_tpot_ms", "median TPOT", "ms", False),
        Metric("median_itl_ms", "median ITL", "ms", False),
    ),
}


@dataclass(frozen=True)
class Run:
    """One benchmark of one side.

    ``pair`` counts from 0, ``values`` are vLLM's by key. ``missing`` are expected fusions that
    the log does not show, ``fused`` how many kinds of lines about fusions it has, ``doubt`` why
    it has none; all empty for vLLM's own implementation.
    """

    pair: int
    side: str
    values: Mapping[str, float]
    missing: tuple[Missing, ...] = ()
    fused: int = 0
    doubt: str = ""


@dataclass(frozen=True)
class Side:
    """A metric of one side over all runs; the interval is that of the geometric mean."""

    median: float
    mean: Estimate


@dataclass(frozen=True)
class Comparison:
    """A metric on both sides; None where a side did not run.

    ``ratio`` is the speed of the Transformers backend in that of vLLM's own implementation:
    below 1 it is slower, whichever way the metric is better.
    """

    metric: Metric
    sides: Mapping[str, Side]
    ratio: Estimate | None

    @property
    def verdict(self) -> str:
        """What the ratio shows, in words."""
        if self.ratio is None:
            return "one side only"
        if self.ratio.low is None:
            return "no interval from one pair"
        if self.ratio.spans_one:
            return "no difference shown: the interval spans 1"
        return f"the Transformers backend is {'slower' if self.ratio.value < 1 else 'faster'}"


@dataclass(frozen=True)
class AbReport:
    """Benchmarks of a model on both sides, in the order in which they ran.

    ``arguments`` are those that both sides got, ``expected`` says where the expectation of
    fusions is from (a lock file, or a dry run), ``fusions`` how many it has, ``one_sided`` why
    only one side ran ("" where both did).
    """

    target: str
    bench: str
    arguments: tuple[str, ...]
    runs: tuple[Run, ...]
    expected: str
    fusions: int
    versions: Mapping[str, str | None] = field(default_factory=dict)
    one_sided: str = ""
    notes: tuple[str, ...] = ()

    def values(self, side: str, metric: Metric) -> list[float]:
        """The figures of one side, pair by pair."""
        runs = sorted((r for r in self.runs if r.side == side), key=lambda r: r.pair)
        return [run.values[metric.key] for run in runs if metric.key in run.values]

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """One for every metric that the benchmark gave."""
        return tuple(
            compared
            for metric in METRICS[self.bench]
            if (
                compared := _compared(
                    metric, self.values(OWN, metric), self.values(BACKEND, metric)
                )
            )
        )

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Expected fusions that a run of the Transformers backend did not show."""
        return tuple(dict.fromkeys(missing for run in self.runs for missing in run.missing))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why logs say nothing of fusions."""
        return tuple(dict.fromkeys(run.doubt for run in self.runs if run.doubt))

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, with the schema's version."""
        return {
            "schema_version": SCHEMA_VERSION,
            "target": self.target,
            "bench": self.bench,
            "arguments": list(self.arguments),
            **self.versions,
            "confidence": CONFIDENCE,
            "one_sided": self.one_sided or None,
            "metrics": [_metric_json(compared) for compared in self.comparisons],
            "fusions": {
                "expected_by": self.expected,
                "expected": self.fusions,
                "missing": [vars(missing) for missing in self.missing],
                "doubts": list(self.doubts),
            },
            "runs": [
                {
                    "pair": run.pair,
                    "side": run.side,
                    "values": dict(run.values),
                    "fused": run.fused,
                    "missing": [vars(missing) for missing in run.missing],
                }
                for run in self.runs
            ],
            "notes": list(self.notes),
        }


def _compared(metric: Metric, own: Sequence[float], backend: Sequence[float]) -> Comparison | None:
    sides = {
        name: Side(statistics.median(values), estimate(values))
        for name, values in ((OWN, own), (BACKEND, backend))
        if values and min(values) > 0
    }
    if not sides:
        return None
    ratio = None
    if len(sides) == 2:
        pairs = zip(own, backend, strict=True)
        ratio = estimate([b / a if metric.more_is_better else a / b for a, b in pairs])
    return Comparison(metric, sides, ratio)


def _metric_json(compared: Comparison) -> dict[str, Any]:
    metric = compared.metric
    return {
        "key": metric.key,
        "name": metric.name,
        "unit": metric.unit,
        "better": "more" if metric.more_is_better else "less",
        **{
            name: {"median": side.median, **asdict(side.mean)}
            for name, side in compared.sides.items()
        },
        "ratio": asdict(compared.ratio) if compared.ratio else None,
        "verdict": compared.verdict,
    }
