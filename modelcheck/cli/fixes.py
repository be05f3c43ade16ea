"""``scan --fix`` and ``scan --diff``; imported, with the fix loop, only when one is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from modelcheck.cli.inputs import Look
from modelcheck.cli.options import note
from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Safety
from modelcheck.fixing import (
    FileFix,
    FixOutcome,
    Lint,
    fix_file,
    fix_text,
    is_applicable,
    unified_diff,
)
from modelcheck.scan import ScanResult


def fix_files(look: Look, result: ScanResult, *, write: bool, unsafe: bool) -> ScanResult:
    """Fix the files of ``result`` (or print what would change) and return what is left.

    Without ``write`` nothing changes, and ``result`` itself is what is left. What the baseline
    accepts is left alone.
    """
    failures: list[UnreadableFile] = []
    fixed: list[FileFix] = []
    fixable = {f.path for f in look.new(result.findings) if is_applicable(f, unsafe=unsafe)}
    for path in sorted(fixable):
        try:
            fixed.append(_fix_one(look, path, write=write, unsafe=unsafe))
        except UnreadableFile as error:
            failures.append(error)
    if not write:
        for each in fixed:
            sys.stdout.write(each.diff)
        return replace(result, unreadable=(*result.unreadable, *failures))
    after = look.scan()
    for each in fixed:
        _note_unfixed(each.path, each.outcome)
    note(counts([each.outcome for each in fixed], look.new(after.findings), unsafe=unsafe))
    return replace(after, unreadable=(*after.unreadable, *failures))


def fix_stdin(look: Look, result: ScanResult, *, write: bool, unsafe: bool) -> ScanResult:
    """Print standard input as fixed (or what would change) and return what is left.

    What cannot be parsed is printed as it came, so that an editor loses nothing.
    """
    (path,) = look.paths
    text = look.texts[path]
    if result.unreadable:
        if write:
            sys.stdout.write(text)
        return result
    outcome = fix_text(path, text, _lint(look, path), unsafe=unsafe)
    if not write:
        sys.stdout.write(unified_diff(path, text, outcome.text))
        return result
    sys.stdout.write(outcome.text)
    _note_unfixed(path, outcome)
    look.texts[path] = outcome.text
    left = look.scanner.check(path, outcome.text)
    note(counts([outcome], look.new(left, outcome.text), unsafe=unsafe))
    return replace(result, findings=tuple(left))


def _fix_one(look: Look, path: str, *, write: bool, unsafe: bool) -> FileFix:
    done = fix_file(path, _lint(look, path), unsafe=unsafe, write=write)
    if write and done.changed:
        look.scanner.forget(path)
    return done


def _lint(look: Look, path: str) -> Lint:
    return lambda text: look.new(look.scanner.check(path, text), text)


def _note_unfixed(path: str, outcome: FixOutcome) -> None:
    for unfixed in (*outcome.refused, *outcome.failed):
        note(f"not fixed: {path}:{unfixed}")


def counts(fixed: Sequence[FixOutcome], left: Sequence[Finding], *, unsafe: bool) -> str:
    """As in "7 fixed, 2 left (1 fixable with --unsafe-fixes)"."""
    applied = sum(sum(outcome.applied.values()) for outcome in fixed)
    text = f"{applied} fixed, {len(left)} left"
    more = sum(1 for f in left if f.fix is not None and f.fix.safety is Safety.UNSAFE)
    return f"{text} ({more} fixable with --unsafe-fixes)" if more and not unsafe else text
