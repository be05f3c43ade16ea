"""The source line of a finding, with the span underlined."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from modelcheck.findings import Span

TAB = 4  # columns that a tab is shown as
LONGEST = 500  # columns of a line where the width does not limit it: JSON may be one line


def frame(lines: Sequence[str], span: Span, width: int = 0) -> list[str]:
    """A line above, the line of the span, carets below what the span covers of it.

    Empty when the file has no such line. ``width`` is the room for a whole line of the frame, in
    columns, 0 where it is no terminal's; what does not fit is cut off around the span.
    """
    if not 0 < span.line <= len(lines):
        return []
    gutter = len(str(span.line))
    room = max(width - gutter - 3, 20) if width else LONGEST
    line = lines[span.line - 1]
    first = min(span.column - 1, len(line))
    last = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    last = max(min(last, len(line)), first + 1)
    begin = _first_shown(line, first, last, room)
    code = _cut(line, begin, room)
    start = (begin > 0) + _columns(line[begin:first])
    length = min(_columns(line[first:last]), _columns(code) - start)
    shown = [f"{'':{gutter}} |"]
    if span.line > 1 and lines[span.line - 2].strip():
        above = _cut(lines[span.line - 2], begin, room)
        shown.append(f"{span.line - 1:>{gutter}} | {above}".rstrip())
    shown.append(f"{span.line:>{gutter}} | {code}".rstrip())
    shown.append(f"{'':{gutter}} | {' ' * start}{'^' * max(length, 1)}")
    return shown


def _first_shown(line: str, first: int, last: int, room: int) -> int:
    """The character that a line begins with that has too little room: the span is to be seen."""
    if _columns(line[:last]) < room:
        return 0
    return max(0, min(first - room // 4, last + 2 - room))


def _cut(line: str, begin: int, room: int) -> str:
    """The line from a character on, in at most ``room`` columns; dots for what is missing."""
    shown = ("…" if begin else "") + "".join(map(_cell, line[begin : begin + room]))
    if begin + room >= len(line) and _columns(shown) <= room:
        return shown
    while _columns(shown) > room - 1:
        shown = shown[:-1]
    return shown + "…"


def _cell(character: str) -> str:
    """What is shown for a character; nothing that a terminal would obey."""
    if character == "\t":
        return " " * TAB
    return character if character.isprintable() else "�"


def _columns(text: str) -> int:
    """How wide a terminal shows the text."""
    if text.isascii() and "\t" not in text:
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if character == "\t":
        return TAB
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
