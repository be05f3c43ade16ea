"""What ``scan`` checks: paths less the excluded and unchanged ones, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding
from modelcheck.releases import ReleaseScanner
from modelcheck.report.model import Report
from modelcheck.report.sources import lines_of
from modelcheck.scan import ScanResult
from modelcheck.settings import common_folder, is_excluded
from modelcheck.source.discovery import Discovered, discover

if TYPE_CHECKING:
    from modelcheck.baseline import Baseline

STDIN = "-"
DEFAULT_NAME = "modeling_stdin.py"


@dataclass(frozen=True)
class Filters:
    """Which files are left out. Globs start from ``root``; ``base`` is a git revision."""

    exclude: tuple[str, ...] = ()
    root: str = ""
    force: bool = False  # exclude also what is named on the command line
    base: str | None = None


@dataclass
class Look:
    """One run's looks at what it checks: the first, and those after fixes.

    ``texts`` holds standard input under the name that it is taken for, ``paths[0]``.
    """

    scanner: ReleaseScanner
    paths: tuple[str, ...]
    stdin: bool = False
    filters: Filters = field(default_factory=Filters)
    baseline: Baseline | None = None
    texts: dict[str, str] = field(default_factory=dict)
    _lines: dict[str, Sequence[str]] = field(default_factory=dict)

    def scan(self) -> ScanResult:
        """All that is found, accepted or not. Raises `UsageError`."""
        self._lines.clear()
        return self._scan_stdin() if self.stdin else self._scan_paths()

    def new(self, findings: Iterable[Finding], text: str | None = None) -> list[Finding]:
        """The findings that no baseline accepts; ``text`` is that of their file, if changed."""
        if self.baseline is None:
            return list(findings)
        changed = None if text is None else text.splitlines()
        return self.baseline.new(findings, self.lines if changed is None else lambda path: changed)

    def lines(self, path: str) -> Sequence[str]:
        """The lines of a checked file."""
        if path not in self._lines:
            self._lines[path] = lines_of(Report(texts=self.texts), path)
        return self._lines[path]

    def _scan_paths(self) -> ScanResult:
        filters = self.filters
        if not filters.exclude and filters.base is None:
            return self.scanner.scan(self.paths)
        found = discover(self.paths)
        targets = _kept(found, self.paths, filters)
        if filters.base is not None:
            from modelcheck.changed import changed_files, touched

            targets = touched(targets, changed_files(common_folder(self.paths), filters.base))
        result = self.scanner.scan(targets)
        missing = (*found.unreadable, *result.unreadable)
        return replace(result, unreadable=missing, empty=found.empty)

    def _scan_stdin(self) -> ScanResult:
        name = self.paths[0]
        data = sys.stdin.buffer.read()
        self.texts[name] = data.decode("utf-8", "replace")
        if is_excluded(name, self.filters.exclude, self.filters.root) and self.filters.force:
            return ScanResult((), (), 0)
        try:
            self.texts[name] = self.scanner.put(name, data)
            return ScanResult(tuple(self.scanner.check(name)), (), 1)
        except UnreadableFile as error:
            return ScanResult((), (error,), 0)


def _kept(found: Discovered, paths: Sequence[str], filters: Filters) -> list[str]:
    named = set() if filters.force else set(paths)
    return [
        path
        for path in (*found.modeling, *found.configs)
        if path in named or not is_excluded(path, filters.exclude, filters.root)
    ]
