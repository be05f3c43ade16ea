"""How ``scan`` shows its result: the report in its format, on stdout or in a file."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

from modelcheck.cli.options import note
from modelcheck.cli.targets import Targets
from modelcheck.errors import UsageError
from modelcheck.releases import ReleaseScanner
from modelcheck.report import Report, render
from modelcheck.report.text import terminal_width, use_colour
from modelcheck.scan import ScanResult
from modelcheck.verdict import Verdict, lines

PEOPLE = ("text", "grouped")  # the formats that begin with the verdicts


@dataclass(frozen=True)
class _Line:
    """The verdicts as the one line that a report has room for."""

    line: str


@dataclass(frozen=True)
class Output:
    """Where a report goes: a format, a file (None for ``stream``), counts instead of findings."""

    output_format: str
    file: str | None = None
    statistics: bool = False
    stream: TextIO | None = None
    targets: Targets = field(default_factory=lambda: Targets(()))

    def show(
        self,
        result: ScanResult,
        scanner: ReleaseScanner,
        verdicts: Sequence[Verdict],
        texts: dict[str, str],
    ) -> None:
        """Write the report. Raises `UsageError` when its file cannot be written."""
        out = self.stream or sys.stdout
        terminal = self.file is None
        report = Report(
            result.findings,
            result.unreadable,
            result.files,
            ", ".join(contract.version for contract in scanner.contracts),
            colour=terminal and use_colour(out),
            width=terminal_width(out) if terminal else 0,
            texts=texts,
            verdicts=verdicts,
            releases_of=scanner.releases_of,
        )
        text = self._text(report, scanner)
        if self.file is not None:
            write(self.file, text, "--output-file")
        elif text:
            print(text, file=out)
        out.flush()
        if self.output_format in (*PEOPLE, "concise") and result.findings and not result.failing:
            note("info findings do not fail a run")

    def _text(self, report: Report, scanner: ReleaseScanner) -> str:
        if self.statistics:
            from modelcheck.report import statistics

            as_json = self.output_format == "json"
            return statistics.render_json(report) if as_json else statistics.render(report)
        if self.output_format == "json":
            return render(self.output_format, self.targets.renamed(report))
        named = tuple(scanner.with_releases(f) for f in report.findings)
        report = self.targets.renamed(dataclasses.replace(report, findings=named))
        verdicts = report.verdicts
        said = lines(verdicts)
        if self.output_format in PEOPLE:
            return "\n\n".join(filter(None, ["\n".join(said), render(self.output_format, report)]))
        if self.output_format != "concise" and said:
            line = "; ".join(v.full for v in verdicts) if len(verdicts) <= 20 else "; ".join(said)
            report = dataclasses.replace(report, verdict=_Line(line))
        return render(self.output_format, report)


def write(path: str, text: str, option: str) -> None:
    """Write a report to the file that an option names. Raises `UsageError`."""
    try:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(f"{text}\n" if text else "")
    except OSError as error:
        raise UsageError(f"{option}: {path}: {error.strerror}") from None
