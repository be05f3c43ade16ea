"""Fixing a whole model repository at once, and proving that its numbers stay the same.

    plan = prepare("./repo", unsafe=True)     # in a copy; nothing is written
    proof = verify(plan)                      # the repository as it is against the copy
    write(plan)

Everything is fixed in a copy of the repository's code: what a check refuses was never written.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from modelcheck.errors import ModelcheckError, UnreadableFile, UsageError
from modelcheck.findings import Finding, Safety
from modelcheck.fixing import Unfixed, fix_file, is_applicable, unified_diff
from modelcheck.fusers.contract import Contract, contract_for
from modelcheck.releases import ReleaseScanner
from modelcheck.scan import Selection
from modelcheck.source.installed import PACKAGE, installed_root, locate
from modelcheck.source.repo import CONFIG, read_config
from modelcheck.source.text import read_bytes, write_atomic
from modelcheck.verdict import Verdict

if TYPE_CHECKING:
    from modelcheck.emulate import EmulationReport, VersionsReport

CODE = ("*.py", "*.json", "*.jinja")
LINKED = ("*.safetensors",)  # rules read their headers
ROUNDS = 10  # over all files: what is fixed in one may make another fixable

Accept = Callable[[Finding], bool]


@dataclass(frozen=True)
class FileChange:
    """A file of the repository, before and after; ``path`` is as the user named it."""

    path: str
    old: bytes
    new: bytes

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        return unified_diff(self.path, self.old.decode("utf-8", "replace"), self.new.decode())


@dataclass(frozen=True)
class Repair:
    """What fixing does to a repository. Nothing is written before `write`.

    ``applied`` counts fixes by code. ``refused`` are findings (path, why) whose fixer would not
    touch them, ``left`` all that is found afterwards, ``copy`` the folder with the fixed code.
    ``in_tree`` are architectures (name, file) that the installed transformers has itself.
    """

    folder: str
    copy: str
    changes: tuple[FileChange, ...]
    before: tuple[Verdict, ...]
    after: tuple[Verdict, ...]
    found: tuple[Finding, ...]
    applied: Mapping[str, int]
    refused: tuple[tuple[str, Unfixed], ...]
    left: tuple[Finding, ...]
    unreadable: tuple[UnreadableFile, ...] = ()
    empty: bool = False
    in_tree: tuple[tuple[str, str], ...] = ()

    @property
    def fixable(self) -> tuple[Finding, ...]:
        """Left, and fixable with ``--unsafe-fixes``."""
        return tuple(f for f in self.left if f.fix and f.fix.safety is Safety.UNSAFE)

    @property
    def manual(self) -> tuple[Finding, ...]:
        """Left, and no tool fixes it; the advice says what to do."""
        refused = {(path, u.code, u.line) for path, u in self.refused}
        return tuple(
            f
            for f in self.left
            if f.fix is None
            or f.fix.safety is Safety.DISPLAY
            or (f.path, f.code, f.span.line) in refused
        )


@dataclass(frozen=True)
class Proof:
    """What running the old and the new code showed.

    ``versions`` compares both; where the old code does not run, ``alone`` is the new code in
    vLLM's way beside transformers' own, and ``doubt`` says why there is no comparison. Without
    either nothing could be run, for the reason in ``doubt``.
    """

    versions: VersionsReport | None = None
    alone: EmulationReport | None = None
    doubt: str = ""

    @property
    def differs(self) -> bool:
        """Are the fixes known to change the numbers or the checkpoint's names?

        Not where the new code called as vLLM calls it differs from its own ordinary run: that
        may be a fault that the old code had too.
        """
        report = self.versions
        if report is None:
            return False
        apart = any(p.differs(report.new.tolerance) for p in report.prompts)
        return not report.same_keys or (apart and not self.wrong_in_vllm)

    @property
    def wrong_in_vllm(self) -> bool:
        """Does vLLM's way of calling the new code give other numbers than transformers'?"""
        report = self.versions.new if self.versions is not None else self.alone
        if report is None:
            return False
        return bool(report.lost_buffers) or any(p.differs(report.tolerance) for p in report.prompts)

    @property
    def proved(self) -> bool:
        """Same weights, same outputs, in vLLM's way of calling."""
        return self.versions is not None and self.versions.same

    @property
    def class_name(self) -> str:
        """The first class whose output differs, "" where none is known."""
        first = self.versions.first if self.versions is not None else None
        return first.class_name if first is not None else ""


@dataclass
class Workshop:
    """A temporary copy of a repository's code, for the time of a ``with`` block."""

    folder: str
    _holder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    def __enter__(self) -> str:
        if not Path(self.folder).is_dir():
            raise UsageError(f"{self.folder}: no such folder")
        self._holder = tempfile.TemporaryDirectory(prefix="modelcheck-")
        name = Path(self.folder).resolve().name or "repo"
        target = Path(self._holder.name, name)
        target.mkdir()
        copy_code(Path(self.folder), target)
        return str(target)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._holder is not None:
            self._holder.cleanup()


def copy_code(source: Path, target: Path) -> None:
    """Copy what the rules and a build read; weights are linked, hidden folders passed over."""
    for pattern in (*CODE, *LINKED):
        for path in source.rglob(pattern):
            inside = path.relative_to(source)
            if any(part.startswith(".") for part in inside.parts) or not path.is_file():
                continue
            to = target / inside
            to.parent.mkdir(parents=True, exist_ok=True)
            if pattern in LINKED:
                to.symlink_to(path.resolve())
            else:
                shutil.copyfile(path, to)


def prepare(
    folder: str,
    copy: str,
    *,
    unsafe: bool = False,
    contracts: Sequence[Contract] = (),
    selection: Selection | None = None,
    transformers: str | None = None,
    accept: Accept | None = None,
) -> Repair:
    """Fix the copy of a repository's code until nothing more changes.

    ``copy`` is a `Workshop`'s folder, ``accept`` may decline single fixes. Raises `UsageError`.
    """

    def scanner() -> ReleaseScanner:
        return ReleaseScanner(contracts or (contract_for(None),), selection, transformers)

    look = scanner()
    first = look.scan((copy,))
    before = look.verdicts(first)
    applied: Counter[str] = Counter()
    refused: dict[str, tuple[Unfixed, ...]] = {}
    failures: dict[str, UnreadableFile] = {}
    result = first
    for _ in range(ROUNDS):
        changed = False
        paths = {f.path for f in result.findings if is_applicable(f, unsafe=unsafe)}
        for path in sorted(paths - set(failures)):
            try:
                done = fix_file(path, _lint(look, path, unsafe, accept), unsafe=unsafe)
            except UnreadableFile as error:
                failures[path] = error
                continue
            outcome = done.outcome
            applied.update(outcome.applied)
            refused[path] = (*outcome.refused, *outcome.failed)
            if done.changed:
                look.forget(path)
                changed = True
        if not changed:
            break
        look = scanner()
        result = look.scan((copy,))
    return _named_as(
        Repair(
            folder=folder,
            copy=copy,
            changes=_changes(folder, copy),
            before=before,
            after=look.verdicts(result),
            found=first.findings,
            applied=dict(sorted(applied.items())),
            refused=tuple((path, each) for path, those in refused.items() for each in those),
            left=result.findings,
            unreadable=(*result.unreadable, *failures.values()),
            empty=bool(result.empty),
            in_tree=_in_tree(folder),
        )
    )


def _lint(
    look: ReleaseScanner, path: str, unsafe: bool, accept: Accept | None
) -> Callable[[str], list[Finding]]:
    def lint(text: str) -> list[Finding]:
        findings = look.check(path, text)
        if accept is None:
            return findings
        return [
            replace(f, fix=None) if is_applicable(f, unsafe=unsafe) and not accept(f) else f
            for f in findings
        ]

    return lint


def _changes(folder: str, copy: str) -> tuple[FileChange, ...]:
    changes = []
    for pattern in CODE:
        for new in sorted(Path(copy).rglob(pattern)):
            path = os.path.join(folder, new.relative_to(copy))
            old = read_bytes(path)
            if old != (now := read_bytes(str(new))):
                changes.append(FileChange(path, old, now))
    return tuple(changes)


def _in_tree(folder: str) -> tuple[tuple[str, str], ...]:
    """The architectures of config.json that the installed transformers defines, and where."""
    root, path = installed_root(), Path(folder, CONFIG)
    if root is None or not path.is_file():
        return ()
    try:
        named = read_config(path)[1].get("architectures")
    except UnreadableFile:
        return ()  # the scan says what is wrong with it
    names = [n for n in named if isinstance(n, str)] if isinstance(named, list) else []
    places = ((name, locate(root, f"{PACKAGE}.{name}")) for name in names)
    return tuple((n, str(p.relative_to(root.parent))) for n, p in places if p is not None)


def _named_as(repair: Repair) -> Repair:
    """The same with the paths that the user knows."""

    def path(inner: str) -> str:
        relative = os.path.relpath(inner, repair.copy)
        return repair.folder if relative == "." else os.path.join(repair.folder, relative)

    def findings(those: Sequence[Finding]) -> tuple[Finding, ...]:
        return tuple(replace(f, path=path(f.path)) for f in those)

    def verdicts(those: Sequence[Verdict]) -> tuple[Verdict, ...]:
        return tuple(replace(v, name=path(v.name)) for v in those)

    return replace(
        repair,
        before=verdicts(repair.before),
        after=verdicts(repair.after),
        found=findings(repair.found),
        left=findings(repair.left),
        refused=tuple((path(p), each) for p, each in repair.refused),
        unreadable=tuple(UnreadableFile(path(e.path), e.cause, e.line) for e in repair.unreadable),
    )


def write(repair: Repair) -> None:
    """Write the changed files, each atomically; when one cannot be, those before it go back.

    Raises `UnreadableFile` then, and when a file was edited meanwhile.
    """
    for change in repair.changes:
        if read_bytes(change.path) != change.old:
            raise UnreadableFile(change.path, "it was edited while it was being fixed")
    done: list[FileChange] = []
    try:
        for change in repair.changes:
            write_atomic(change.path, change.new)
            done.append(change)
    except BaseException:
        for change in done:
            write_atomic(change.path, change.old)
        raise


def verify(repair: Repair, *, python: str | None = None, timeout: float = 300.0) -> Proof:
    """Run the repository's code as it is against the fixed copy: same weights, same tokens.

    ``python`` is an interpreter for the code as it is, one with an older transformers. Runs the
    model's own code, in processes of their own. Raises nothing: what cannot be run is a doubt.
    """
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.emulate import EmulateSpec, compare_runs, run

    if not Path(repair.folder, CONFIG).exists():
        return Proof(doubt=f"{repair.folder}: no {CONFIG}, so there is no model to run")

    def spec(folder: str) -> EmulateSpec:
        return EmulateSpec(BuildSpec(folder, None, True), weights="random")

    old, new = spec(repair.folder), spec(repair.copy)
    try:
        report = compare_runs(old, new, python=python, timeout=timeout)
    except ModelcheckError as error:
        doubt = str(error).replace(repair.copy, repair.folder)
    else:
        if report.prompts:
            return Proof(versions=report)
        causes = "; ".join(report.new.causes)
        return Proof(alone=report.new, doubt=f"vLLM would refuse the fixed code: {causes}")
    try:
        return Proof(alone=run(new, timeout=timeout), doubt=doubt)
    except ModelcheckError as error:
        return Proof(doubt=str(error).replace(repair.copy, repair.folder))
