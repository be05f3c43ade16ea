"""What every report is made from, and the few things that several formats need of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Safety, Severity

if TYPE_CHECKING:
    from modelcheck.verdict import Verdict as ModelVerdict


class Verdict(Protocol):
    """What becomes of the whole repository."""

    @property
    def line(self) -> str:
        """The verdict as one line."""
        ...


@dataclass(frozen=True)
class Report:
    """The result of a scan, ready to be shown.

    ``findings`` are sorted by file and place; ``files`` counts what was checked. ``texts`` holds
    the text of files that are not on disk (standard input) by the path in the findings.
    ``colour`` and ``width`` (columns, 0 for any) are those of the terminal, for people's formats.
    ``verdicts`` has each model in each release, ``releases_of`` the releases of a finding: JSON
    shows both, the other formats ``verdict``. ``sources`` are the repositories of the Hub that
    were read: as the user named them, their pages, and their commits.
    """

    findings: tuple[Finding, ...] = ()
    unreadable: tuple[UnreadableFile, ...] = ()
    files: int = 0
    vllm: str = ""  # the release judged by
    verdict: Verdict | None = None
    colour: bool = False
    width: int = 0
    texts: Mapping[str, str] = field(default_factory=dict)
    verdicts: Sequence[ModelVerdict] = ()
    releases_of: Callable[[Finding], Sequence[str]] | None = None
    sources: Sequence[tuple[str, str, str]] = ()

    @property
    def verdict_line(self) -> str:
        """The verdict, "" without one."""
        return self.verdict.line if self.verdict is not None else ""


def is_fixable(finding: Finding, safety: Safety = Safety.SAFE) -> bool:
    """Is there a fix of this safety?"""
    return finding.fix is not None and finding.fix.safety is safety


def sentence(finding: Finding) -> str:
    """What is wrong, with the class it is about."""
    named = not finding.class_name or finding.class_name in finding.message
    owner = "" if named else f"{finding.class_name}: "
    limit = " (with tensor parallelism only)" if finding.tp_only else ""
    return f"{owner}{finding.message}{limit}"


def by_file(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Findings by path, both in the order given."""
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        files.setdefault(finding.path, []).append(finding)
    return files


def from_here(path: str) -> str:
    """``path`` from the working folder, with slashes; as it is when it lies elsewhere.

    CI services want paths from the root of the checkout, where their jobs run.
    """
    if "://" in path:  # of the Hub
        return path
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        relative = path
    outside = relative == os.pardir or relative.startswith(os.pardir + os.sep)
    return (path if outside else relative).replace(os.sep, "/")


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    """One hexadecimal name for each finding, that moving it to another line does not change."""
    from collections import Counter
    from hashlib import sha256

    seen: Counter[tuple[str, ...]] = Counter()
    names = []
    for finding in findings:
        identity = (from_here(finding.path), finding.code, finding.class_name, finding.message)
        number = str(seen[identity])  # the second of two that say the same
        seen[identity] += 1
        names.append(sha256("\0".join([*identity, number]).encode(errors="replace")).hexdigest())
    return names


def summary(findings: Iterable[Finding], unreadable: int = 0, mark: str = "") -> str:
    """As in "7 findings in 2 files: 3 error, 4 slow; 5 fixable with --fix".

    ``mark`` stands before the number of fixable ones where the findings bear it.
    """
    found = list(findings)
    counts = ", ".join(
        f"{count} {severity}"
        for severity in Severity
        if (count := sum(1 for f in found if f.severity is severity))
    )
    text = plural(len(found), "finding")
    if found:
        text += f" in {plural(len({f.path for f in found}), 'file')}: {counts}"
    if safe := sum(1 for f in found if is_fixable(f)):
        text += f"; {mark}{safe} fixable with --fix"
    if unsafe := sum(1 for f in found if is_fixable(f, Safety.UNSAFE)):
        text += f"; {unsafe} fixable with --unsafe-fixes"
    if unreadable:
        text += f"; {plural(unreadable, 'file')} could not be checked"
    return text


def plural(count: int, noun: str) -> str:
    """As in "1 file", "2 files"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
