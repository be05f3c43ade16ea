"""Fixers: one module each, named by `Fix.fixer`, that rewrites one file's text.

A fixer has ``fix(text, finding) -> str``: the file's text in, the whole new text out. It changes
nothing but what the finding is about and raises `FixRefused` for whatever it does not
understand. Only modules of this package import libcst, and only when a file is really fixed.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from modelcheck.findings import Finding


class FixRefused(Exception):
    """A fixer left the text alone; ``reason`` is a sentence fragment for the user."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.reason = reason
        self.line = line
        super().__init__(reason)


class Fixer(Protocol):
    """What a module of this package offers."""

    def fix(self, text: str, finding: Finding) -> str:
        """``text`` without the finding. Raises `FixRefused`."""
        ...


def load(stem: str) -> Fixer:
    """The fixer that ``Fix.fixer`` names. Raises `FixRefused` when there is none."""
    try:
        module = importlib.import_module(f"{__name__}.{stem}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{stem}":
            raise
        raise FixRefused(f"there is no fixer named {stem}") from None
    return cast(Fixer, module)
