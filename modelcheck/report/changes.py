"""What fixing one finding changes, as replaced lines. Imports the fix loop and, with it, libcst."""

from __future__ import annotations

import difflib
import io
from dataclasses import dataclass

from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding
from modelcheck.fixing import fix_text


@dataclass(frozen=True)
class Replacement:
    """The text from the beginning of ``line`` to the end position (exclusive) becomes ``text``.

    Lines and columns are 1-based; the end may be the beginning of the line after the last.
    """

    line: int
    end_line: int
    end_column: int
    text: str


def fixed_text(finding: Finding, text: str) -> str:
    """``text`` with this finding's fix and no other; the same text when the fix is refused."""
    # The loop takes one pass: it is shown the finding at first, and nothing afterwards.
    findings = iter([[finding]])
    try:
        return fix_text(finding.path, text, lambda _: next(findings, [])).text
    except UnreadableFile:
        return text


def replacements(old: str, new: str) -> tuple[Replacement, ...]:
    """Whole lines that turn one text into the other, in order, not touching each other."""
    before, after = _lines(old), _lines(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Replacement(first + 1, *_end(before, last), "".join(after[start:stop]))
        for tag, first, last, start, stop in matcher.get_opcodes()
        if tag != "equal"
    )


def _end(lines: list[str], count: int) -> tuple[int, int]:
    """The position (line, column) behind the first ``count`` lines."""
    if count and not lines[count - 1].endswith(("\n", "\r")):
        return count, len(lines[count - 1]) + 1
    return count + 1, 1


def _lines(text: str) -> list[str]:
    """Lines as Python counts them, with their ends."""
    return list(io.StringIO(text, newline=""))
