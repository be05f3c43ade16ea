"""What a command is pointed at: a path on this machine, or a repository of the Hub (hf://)."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from modelcheck.cli.options import note
from modelcheck.errors import ModelcheckError, UnreadableFile, UsageError
from modelcheck.report.model import Report

if TYPE_CHECKING:
    from modelcheck.hub import Snapshot
    from modelcheck.verdict import Verdict

F = TypeVar("F", bound=Callable[..., Any])
PROTOCOL = "hf://"


def is_hub(path: str | None) -> bool:
    """Does a path name a repository of the Hub?"""
    return path is not None and path.startswith(PROTOCOL)


@dataclass(frozen=True)
class Target:
    """One repository: ``path`` is where it lies, ``snapshot`` set where it is the Hub's."""

    path: str | None
    snapshot: Snapshot | None = None

    @property
    def name(self) -> str:
        """What reports call it: an hf:// path at its commit, else the path."""
        return self.snapshot.pinned if self.snapshot is not None else self.path or ""

    @property
    def targets(self) -> Targets:
        """The same as one of several."""
        return Targets((self.path or "",), (self.snapshot,) if self.snapshot is not None else ())

    @property
    def nearby(self) -> str:
        """Where a configuration is looked for."""
        return self.targets.nearby[0]


@dataclass(frozen=True)
class Targets:
    """Several paths, those of the Hub fetched."""

    paths: tuple[str, ...]
    snapshots: tuple[Snapshot, ...] = ()

    @property
    def nearby(self) -> tuple[str, ...]:
        """Where a configuration is looked for: the Hub's files are judged by the one here."""
        folders = [str(snapshot.folder) for snapshot in self.snapshots]
        return tuple("." if p.startswith(tuple(folders)) else p for p in self.paths)

    def shown(self, text: str) -> str:
        """``text`` with the repositories as the user named them."""
        for snapshot in self.snapshots:
            text = snapshot.shown(text)
        return text

    def renamed(self, report: Report) -> Report:
        """A report that names the files by their repository, and models by its commit."""
        if not self.snapshots:
            return report
        from modelcheck.report.sources import text_of

        findings = [
            replace(
                finding,
                path=self.shown(finding.path),
                message=self.shown(finding.message),
                advice=self.shown(finding.advice),
            )
            for finding in report.findings
        ]
        before = dict(zip(map(id, findings), report.findings, strict=True))
        texts = {p: text_of(report, p) for p in dict.fromkeys(f.path for f in report.findings)}
        releases_of = report.releases_of
        return replace(
            report,
            findings=tuple(findings),
            unreadable=tuple(self.named(error) for error in report.unreadable),
            texts={self.shown(path): text for path, text in texts.items() if text is not None},
            verdicts=self.pinned(report.verdicts),
            releases_of=releases_of and (lambda finding: releases_of(before[id(finding)])),
            sources=tuple((s.uri, s.url, s.commit) for s in self.snapshots),
        )

    def named(self, error: UnreadableFile) -> UnreadableFile:
        """The error with the repository's name in it."""
        return UnreadableFile(self.shown(error.path), self.shown(error.cause), error.line)

    def pinned(self, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
        """The verdicts, each with the commit it is about."""
        return tuple(replace(v, name=self._at_commit(v.name)) for v in verdicts)

    def _at_commit(self, text: str) -> str:
        for snapshot in self.snapshots:
            text = snapshot.at_commit(text)
        return text


@contextlib.contextmanager
def opened(paths: Sequence[str], *, weights: bool = False) -> Iterator[Targets]:
    """Fetch what is of the Hub, and say at which commit; errors name it as the user did.

    ``weights`` asks for the names of its tensors too.
    """
    with contextlib.ExitStack() as stack:
        found = []
        snapshots = []
        for path in paths:
            if is_hub(path):
                from modelcheck.hub import fetched

                snapshots.append(stack.enter_context(fetched(path, weights=weights)))
                found.append(snapshots[-1].path)
            else:
                found.append(path)
        for snapshot in snapshots:
            note(f"{snapshot.named.root}: commit {snapshot.commit} of {snapshot.url}")
            for message in snapshot.notes:
                note(message)
        targets = Targets(tuple(found), tuple(snapshots))
        try:
            yield targets
        except ModelcheckError as error:
            error.args = tuple(targets.shown(a) if isinstance(a, str) else a for a in error.args)
            raise


def repository(function: F, *, weights: bool = False) -> F:
    """Give a command its ``target`` as a `Target`: the path it was given, or what was fetched.

    ``weights`` asks for the names of its tensors too.
    """

    @functools.wraps(function)
    def run(target: str | None, **values: Any) -> Any:
        if not is_hub(target):
            return function(target=Target(target), **values)
        assert target is not None
        with opened([target], weights=weights) as targets:
            (path,), (snapshot,) = targets.paths, targets.snapshots
            return function(target=Target(path, snapshot), **values)

    return run  # type: ignore[return-value]


def refuse_hub(paths: Sequence[str], what: str) -> None:
    """Raise `UsageError` where ``what`` needs files that can be written."""
    for path in paths:
        if is_hub(path):
            repo = path.removeprefix(PROTOCOL)
            raise UsageError(
                f"{what} needs files on this machine, not {path}: "
                f"hf download {repo.partition('@')[0]} --local-dir FOLDER"
            )
