"""What a rule reports: a finding, where it is, and which fix would remove it."""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Severity(enum.StrEnum):
    """What the author's users will see, gravest first."""

    WRONG = "wrong"  # vLLM serves different numbers without an error
    ERROR = "error"  # vLLM refuses the model or crashes
    SLOW = "slow"  # loads and is right, a fusion is lost
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 is gravest."""
        return list(Severity).index(self)


class Safety(enum.StrEnum):
    """How sure a fix is (ruff's words)."""

    SAFE = "safe"  # same numbers, same state-dict keys, same module tree
    UNSAFE = "unsafe"  # one of those may change, or it rests on an assumption
    DISPLAY = "display"  # shown, never applied


@dataclass(frozen=True, order=True)
class Span:
    """A range of source text: 1-based lines, 1-based columns (in characters), end exclusive."""

    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0

    @classmethod
    def of(cls, node: ast.AST, lines: tuple[str, ...] | None = None) -> Span:
        """The span of an AST node that has a position.

        ``ast`` counts columns in UTF-8 bytes; give the file's ``lines`` to have characters.
        """
        line = getattr(node, "lineno", 1)
        end_line = getattr(node, "end_lineno", None) or line
        column = getattr(node, "col_offset", 0)
        end_column = getattr(node, "end_col_offset", None) or column
        if lines is not None:
            column = _characters(lines, line, column)
            end_column = _characters(lines, end_line, end_column)
        return cls(line, column + 1, end_line, end_column + 1)


def _characters(lines: tuple[str, ...], line: int, byte_offset: int) -> int:
    if not 0 < line <= len(lines) or lines[line - 1].isascii():
        return byte_offset
    return len(lines[line - 1].encode()[:byte_offset].decode(errors="ignore"))


@dataclass(frozen=True)
class Fix:
    """Names the fixer that removes a finding.

    ``fixer`` is the stem of a module in the top-level ``fixers`` package, ``title`` one
    imperative sentence, ``data`` what the rule found out and the fixer needs.
    """

    fixer: str
    title: str
    safety: Safety = Safety.SAFE
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """One thing an author should know, at one place."""

    code: str  # "MC101"
    severity: Severity
    path: str  # as the user named it
    span: Span
    class_name: str  # "" for a file or config.json
    message: str  # what is wrong, one sentence
    advice: str  # what to do, one sentence
    fix: Fix | None = None
    tp_only: bool = False  # only with tensor parallelism, that is more than one rank

    @property
    def sort_key(self) -> tuple[str, Span, str, str]:
        """Reports are in this order."""
        return (self.path, self.span, self.code, self.message)
