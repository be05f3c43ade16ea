"""The releases of transformers that a model is judged for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from modelcheck.errors import UsageError
from modelcheck.findings import Severity
from modelcheck.rules.base import Context


@dataclass(frozen=True)
class Judged:
    """All releases from ``low`` up; ``high`` is None for a range, else the one release."""

    low: Version
    high: Version | None = None

    def lacks(self, until: str) -> bool:
        """Is what ended with ``until`` gone from every one of these releases?"""
        return _minor_of(until) <= _minor(self.low)

    def has(self, since: str) -> bool:
        """Does every one of these releases have what came with ``since``?"""
        return _minor_of(since) <= _minor(self.low)

    def __str__(self) -> str:
        return f"transformers {self.low}" + ("" if self.high else " and later")


def _minor(version: Version) -> tuple[int, ...]:
    return (*version.release, 0)[:2]


@lru_cache(maxsize=256)
def _minor_of(release: str) -> tuple[int, ...]:
    return _minor(Version(release))


@lru_cache(maxsize=64)
def _judged(transformers: str | None, allowed: str) -> Judged:
    if transformers is not None:
        try:
            version = Version(transformers)
        except InvalidVersion:
            raise UsageError(
                f"--transformers: {transformers!r} is not a version, try 5.19"
            ) from None
        return Judged(version, version)
    lowest = [Version(s.version) for s in SpecifierSet(allowed) if s.operator in (">=", "==", "~=")]
    return Judged(max(lowest))


def judged(context: Context) -> Judged:
    """``--transformers``, or what the vLLM release allows.

    Raises `UsageError` for a ``--transformers`` that is no version.
    """
    return _judged(context.transformers, context.contract.transformers)


def transformers_only(context: Context, grave: Severity = Severity.ERROR) -> Severity:
    """The severity of what breaks in transformers' own loading or generation, not in vLLM.

    Only somebody who asks for a transformers release is warned of it.
    """
    return grave if context.transformers is not None else Severity.INFO
