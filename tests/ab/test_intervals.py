"""Student's t by its closed form, against printed tables; and intervals of ratios."""

from __future__ import annotations

import math
import random

import pytest

from modelcheck.ab.intervals import estimate, t_quantile

# Two-sided 95 and 99 %, as any table has them.
TABLE = {
    1: (12.706, 63.657),
    2: (4.303, 9.925),
    3: (3.182, 5.841),
    4: (2.776, 4.604),
    5: (2.571, 4.032),
    9: (2.262, 3.250),
    10: (2.228, 3.169),
    29: (2.045, 2.756),
    30: (2.042, 2.750),
    120: (1.980, 2.617),
}


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles(freedom: int) -> None:
    for confidence, expected in zip((0.95, 0.99), TABLE[freedom], strict=True):
        assert t_quantile(freedom, confidence) == pytest.approx(expected, abs=6e-4)


def test_an_interval_by_hand() -> None:
    found = estimate([1.0, math.e, math.e**2])  # logarithms 0, 1, 2
    margin = 4.302653 * 1 / math.sqrt(3)
    assert found.value == pytest.approx(math.e)
    assert found.low == pytest.approx(math.exp(1 - margin))
    assert found.high == pytest.approx(math.exp(1 + margin))


def test_one_value_has_no_interval_and_shows_nothing() -> None:
    found = estimate([0.5])
    assert (found.value, found.low, found.high) == (0.5, None, None)
    assert found.spans_one


def test_the_interval_covers_as_often_as_it_says() -> None:
    draw, covered, times = random.Random(7), 0, 2000
    for _ in range(times):
        found = estimate([math.exp(draw.gauss(0.0, 0.1)) for _ in range(5)])
        covered += found.spans_one
    assert covered / times == pytest.approx(0.95, abs=0.015)
