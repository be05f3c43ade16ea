"""The text of a file that a report shows or fixes."""

from __future__ import annotations

import io
import tokenize

from modelcheck.errors import UnreadableFile
from modelcheck.report.model import Report
from modelcheck.source.text import read_bytes


def text_of(report: Report, path: str) -> str | None:
    """The text with its own line ends, None when it cannot be read (any more)."""
    if path in report.texts:
        return report.texts[path]
    try:
        data = read_bytes(path)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (UnreadableFile, SyntaxError, ValueError):
        return None


def lines_of(report: Report, path: str) -> tuple[str, ...]:
    """The lines as findings count them; none when the file cannot be read."""
    text = text_of(report, path)
    return () if text is None else tuple(io.StringIO(text, newline=None).read().split("\n"))
