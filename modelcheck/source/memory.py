"""Memory while many files are read: what is remembered of each, and when it is let go.

Syntax trees are a great many small objects without circles; Python's collector goes through all
of them again and again while they are made, and finds nothing. So it runs seldom, and a finished
file is let go of by hand: what is remembered of it here, and the circles of its classes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
BETWEEN = 1000  # files
_CACHES: list[Any] = []


def remembered(maxsize: int) -> Callable[[F], F]:
    """`functools.lru_cache` for what is found out about a file, its classes or its nodes.

    The answers keep the file in memory, so that all are dropped together, by `forget`.
    """

    def decorate(function: F) -> F:
        cached = lru_cache(maxsize=maxsize)(function)
        _CACHES.append(cached)
        return cached  # type: ignore[return-value]

    return decorate


def forget() -> None:
    """Drop every `remembered` answer. What is asked again is found out again."""
    for cached in _CACHES:
        cached.cache_clear()


def collecting_seldom(items: Iterable[T]) -> Iterator[T]:
    """The items; until the last, the collector runs once every `BETWEEN` of them only."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for number, item in enumerate(items, 1):
            yield item
            if number % BETWEEN == 0:
                gc.collect()
    finally:
        if was_enabled:
            gc.enable()
