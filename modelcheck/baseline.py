"""The baseline: findings that are known and accepted, so that a run reports only new ones.

An entry names its finding by file (from the baseline's folder), code, class, message and the
text of its line, not by the line's number: it survives lines that come or go elsewhere. Numbers
in the message do not count, for they change with the vLLM release.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modelcheck.errors import UsageError
from modelcheck.findings import Finding

SCHEMA = 1

Lines = Callable[[str], Sequence[str]]  # the lines of a file, () when it cannot be read


@dataclass(frozen=True, order=True)
class Entry:
    """What identifies a finding; the fields are those of the file."""

    path: str
    code: str
    class_name: str
    message: str
    text: str  # of the line, its blanks made single

    def __str__(self) -> str:
        owner = f" {self.class_name}" if self.class_name else ""
        return f"{self.path}: {self.code}{owner}"


@dataclass(frozen=True)
class Baseline:
    """Entries with how often each was found; ``path`` is the file."""

    path: str
    entries: Counter[Entry]

    @property
    def folder(self) -> str:
        """What the entries' paths start from."""
        return os.path.dirname(os.path.abspath(self.path))

    def new(self, findings: Iterable[Finding], lines: Lines) -> list[Finding]:
        """The findings that no entry accepts; an entry accepts as many as it was written for."""
        left = self.entries.copy()
        kept = []
        for finding in findings:
            entry = entry_of(finding, self.folder, lines)
            if left[entry] > 0:
                left[entry] -= 1
            else:
                kept.append(finding)
        return kept

    def unused(
        self, findings: Iterable[Finding], lines: Lines, checked: Iterable[str], codes: set[str]
    ) -> list[Entry]:
        """The entries that accept nothing any more, of the files and rules that were checked.

        An entry for a file that is gone is unused as well.
        """
        left = self.entries.copy()
        left.subtract(entry_of(finding, self.folder, lines) for finding in findings)
        looked_at = {_relative(path, self.folder) for path in checked}
        return sorted(
            entry
            for entry, count in left.items()
            if count > 0
            and entry.code in codes
            and (entry.path in looked_at or not os.path.exists(f"{self.folder}/{entry.path}"))
        )


def entry_of(finding: Finding, folder: str, lines: Lines) -> Entry:
    """The entry that accepts a finding, in a baseline in ``folder``."""
    text = lines(finding.path)
    line = text[finding.span.line - 1] if 0 < finding.span.line <= len(text) else ""
    return Entry(
        path=_relative(finding.path, folder),
        code=finding.code,
        class_name=finding.class_name,
        message=re.sub(r"\d+(\.\d+)*", "#", finding.message),
        text=" ".join(line.split()),
    )


def read(path: str) -> Baseline:
    """A baseline file. Raises `UsageError` when it is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            data = json.load(stream)
        if data["schema"] != SCHEMA:
            raise UsageError(
                f"{path}: a baseline of schema {data['schema']}, not {SCHEMA}: write it anew"
            )
        entries = Counter[Entry]()
        for item in data["findings"]:
            entries[_entry(item)] += int(item["count"])
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror} (--write-baseline makes one)") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: not a baseline file: write it anew") from None
    return Baseline(path, entries)


def write(path: str, findings: Iterable[Finding], lines: Lines) -> int:
    """Accept these findings, and no others; how many they are. Raises `UsageError`."""
    folder = os.path.dirname(os.path.abspath(path))
    entries = Counter(entry_of(finding, folder, lines) for finding in findings)
    data = {
        "schema": SCHEMA,
        "findings": [_data(entry, count) for entry, count in sorted(entries.items())],
    }
    try:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return entries.total()


def _data(entry: Entry, count: int) -> dict[str, Any]:
    return {
        "path": entry.path,
        "code": entry.code,
        "class": entry.class_name,
        "message": entry.message,
        "text": entry.text,
        "count": count,
    }


def _entry(item: dict[str, Any]) -> Entry:
    return Entry(
        str(item["path"]),
        str(item["code"]),
        str(item["class"]),
        str(item["message"]),
        str(item["text"]),
    )


def _relative(path: str, folder: str) -> str:
    absolute = os.path.abspath(path)
    try:
        return os.path.relpath(absolute, folder).replace(os.sep, "/")
    except ValueError:  # another drive
        return absolute.replace(os.sep, "/")
