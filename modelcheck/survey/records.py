"""The lines of a survey's file: one for each model type and kind of evidence."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from modelcheck import __version__
from modelcheck.errors import UnreadableFile, UsageError
from modelcheck.fusers.results import ClassReport, Evidence, FusionResult
from modelcheck.source.text import write_atomic

SCHEMA_VERSION = 1
STOPPED = "worker"  # `Record.failed`: the process hung or died; tried again when resumed
MODEL = "model"  # `Record.failed`: the type itself cannot be built or read


@dataclass(frozen=True)
class Releases:
    """What a line was made with; a line with other releases is out of date.

    ``vllm`` is the release judged by (for loaded: the one that ran), ``modelcheck`` the
    version and a hash of its code, ``tp`` the tensor-parallel size.
    """

    vllm: str
    transformers: str
    modelcheck: str
    tp: int = 1


@dataclass(frozen=True)
class SurveyedClass:
    """One `ClassReport` and where its code is.

    ``file`` is relative to the transformers package, "" for code from elsewhere; ``line`` that
    of the class statement; ``sources`` the text of the lines that results blame, by number,
    in ``source_file``.
    """

    report: ClassReport
    file: str = ""
    line: int = 0
    source_file: str = ""
    sources: Mapping[int, str] | None = None

    @property
    def results(self) -> tuple[FusionResult, ...]:
        """What fires and what does not."""
        return (*self.report.fusions, *self.report.missed)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON: the report's, and the place."""
        return self.report.to_json() | {
            "file": self.file,
            "line": self.line,
            "source_file": self.source_file,
            "sources": {str(k): v for k, v in (self.sources or {}).items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SurveyedClass:
        """The inverse of `to_json`."""
        return cls(
            ClassReport.from_json(data),
            data["file"],
            data["line"],
            data["source_file"],
            {int(k): v for k, v in data["sources"].items()},
        )


@dataclass(frozen=True)
class Record:
    """One line: a model type by one kind of evidence, with its classes or the one-line cause.

    ``silent`` names the classes that were looked at and have nothing to report. ``seconds`` is
    wall-clock time in the worker (predicted: of the whole modeling file; loaded: the type's
    share of its batch).
    """

    model_type: str
    evidence: Evidence
    releases: Releases
    classes: tuple[SurveyedClass, ...] = ()
    silent: tuple[str, ...] = ()
    error: str | None = None
    failed: str | None = None
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, Evidence]:
        """There is one line for each."""
        return self.model_type, self.evidence

    def to_json(self) -> dict[str, Any]:
        """Plain data for one JSON line."""
        return {
            "schema_version": SCHEMA_VERSION,
            "model_type": self.model_type,
            "evidence": str(self.evidence),
            **asdict(self.releases),
            "classes": [c.to_json() for c in self.classes],
            "silent": list(self.silent),
            "error": self.error,
            "failed": self.failed,
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The inverse of `to_json`. Raises `ValueError`, `KeyError` or `TypeError`."""
        if data["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema {data['schema_version']!r}")
        return cls(
            data["model_type"],
            Evidence(data["evidence"]),
            Releases(data["vllm"], data["transformers"], data["modelcheck"], data["tp"]),
            tuple(SurveyedClass.from_json(c) for c in data["classes"]),
            tuple(data["silent"]),
            data["error"],
            data["failed"],
            data["seconds"],
        )


@cache
def code_version() -> str:
    """This modelcheck: its version, and a hash of its code (which changes more often)."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).resolve().parent.parent.rglob("*.py")):
        if not {"report", "cli"} & set(path.parts[-2:-1]):  # those show results, and make none
            digest.update(path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


class Store:
    """A file of lines that grows by one whole line at a time.

    A line is one write, so an interrupted run leaves whole lines (or a torn last one, which is
    cut off); two runs cannot have the same file. Use it as a context manager. Raises
    `UsageError` when the file is no survey, cannot be written, or is in use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def __enter__(self) -> Store:
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{self.path}: another survey is writing this file") from None
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror or error}") from None
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def take_over(self, wanted: Callable[[Record], bool]) -> tuple[dict[Any, Record], int]:
        """The lines that are still good, by key, and how many were not; those are cut out."""
        text = self.path.read_bytes()
        kept: dict[Any, Record] = {}
        whole, dropped = 0, 0
        for line in text.splitlines(keepends=True):
            record = self._read(line) if line.endswith(b"\n") else None
            if record is not None and wanted(record):
                kept[record.key] = record
                whole += len(line)
            else:
                dropped += 1
        if whole != len(text):
            self._rewrite(kept.values())
        return kept, dropped

    def append(self, record: Record) -> None:
        """Add one line. Raises `UsageError` when the disk is full or the like."""
        data = _line(record)
        try:
            written = os.write(self._file, data)
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror or error}") from None
        if written != len(data):
            raise UsageError(f"{self.path}: cannot be written: no space is left")

    def _read(self, line: bytes) -> Record | None:
        try:
            data = json.loads(line)
        except ValueError:
            data = None
        if not isinstance(data, dict) or "schema_version" not in data:
            raise UsageError(f"{self.path}: is not the file of a survey; it is left as it is")
        try:
            return Record.from_json(data)
        except (ValueError, KeyError, TypeError):
            return None  # of another schema

    def _rewrite(self, records: Iterable[Record]) -> None:
        """Replace the contents in one step, and go on with the new file."""
        try:
            write_atomic(self.path, b"".join(_line(record) for record in records))
        except UnreadableFile as error:
            raise UsageError(str(error)) from None
        with contextlib.suppress(OSError):
            os.close(self._file)
        self.__enter__()


def _line(record: Record) -> bytes:
    return json.dumps(record.to_json(), separators=(",", ":")).encode() + b"\n"
