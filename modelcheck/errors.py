"""The errors that reach a user, each one clear line and an exit code."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """What a command's exit status means."""

    OK = 0  # nothing to report
    FINDINGS = 1  # findings, a missed expectation, or evidence that differs
    USAGE = 2  # wrong options or configuration, or a file that could not be checked
    INTERNAL = 3  # a fault of modelcheck itself


class ModelcheckError(Exception):
    """Base of every error that is shown to a user as one line.

    ``str(error)`` names the file and the cause; ``exit_code`` is the process status.
    """

    exit_code = ExitCode.USAGE


class UsageError(ModelcheckError):
    """The options or the configuration do not make sense."""


class UnreadableFile(ModelcheckError):
    """A file could not be read, decoded or parsed; the rest of the run goes on."""

    def __init__(self, path: object, cause: str, line: int | None = None) -> None:
        self.path = str(path)
        self.cause = cause
        self.line = line
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{where}: {cause}")


class MissingDependency(ModelcheckError):
    """An optional dependency (torch, transformers, vLLM) is not installed."""


class HubError(ModelcheckError):
    """A repository could not be fetched from the Hugging Face Hub."""


class BuildError(ModelcheckError):
    """A model could not be built from its configuration."""


class WorkerError(ModelcheckError):
    """An isolated worker process hung, died, or answered nothing."""
