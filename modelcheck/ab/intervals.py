"""Medians, and intervals by Student's t on logarithms.

Speeds are positive, and their errors multiply: what is compared is a ratio. The two sides of a
pair ran one after the other, so each pair gives one ratio, and what slows the machine down for
both cancels out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A geometric mean and its interval; None for the bounds where there is one value only."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def spans_one(self) -> bool:
        """Can a ratio as well be 1? Also of one whose interval is not known."""
        return self.low is None or self.high is None or self.low <= 1 <= self.high


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """The geometric mean of positive values, with its interval. Raises ValueError for others."""
    logs = [math.log(value) for value in values]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Estimate(math.exp(mean))
    margin = statistics.stdev(logs) / math.sqrt(len(logs)) * t_quantile(len(logs) - 1, confidence)
    return Estimate(math.exp(mean), math.exp(mean - margin), math.exp(mean + margin))


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t that encloses ``confidence`` of the distribution on both sides of zero."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """P(-t < T < t) for a whole number of degrees of freedom.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    return (angle + sine * total) * 2 / math.pi if odd else sine * total
