"""``scan --fix`` and ``scan --diff``; imported, with the fix loop, only when one is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from modelcheck.cli.options import note
from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Safety
from modelcheck.fixing import FileFix, fix_file, is_applicable
from modelcheck.scan import Scanner, ScanResult


def run_fixes(
    scanner: Scanner, result: ScanResult, paths: Sequence[str], *, write: bool, unsafe: bool
) -> ScanResult:
    """Fix the files of ``result`` (or print what would change) and return what is left.

    Without ``write`` nothing changes, and ``result`` itself is what is left.
    """
    failures: list[UnreadableFile] = []
    fixed: list[FileFix] = []
    fixable = {f.path for f in result.findings if is_applicable(f, unsafe=unsafe)}
    for path in sorted(fixable):
        try:
            fixed.append(_fix_one(scanner, path, write=write, unsafe=unsafe))
        except UnreadableFile as error:
            failures.append(error)
    if not write:
        for each in fixed:
            sys.stdout.write(each.diff)
        return ScanResult(
            result.findings, (*result.unreadable, *failures), result.files, result.empty
        )
    after = scanner.scan(paths)
    for each in fixed:
        for unfixed in (*each.outcome.refused, *each.outcome.failed):
            note(f"not fixed: {each.path}:{unfixed}")
    note(counts(fixed, after.findings, unsafe=unsafe))
    return ScanResult(after.findings, (*after.unreadable, *failures), after.files, after.empty)


def _fix_one(scanner: Scanner, path: str, *, write: bool, unsafe: bool) -> FileFix:
    done = fix_file(path, lambda text: scanner.check(path, text), unsafe=unsafe, write=write)
    if write and done.changed:
        scanner.forget(path)
    return done


def counts(fixed: Sequence[FileFix], left: Sequence[Finding], *, unsafe: bool) -> str:
    """As in "7 fixed, 2 left (1 fixable with --unsafe-fixes)"."""
    applied = sum(sum(each.outcome.applied.values()) for each in fixed)
    text = f"{applied} fixed, {len(left)} left"
    more = sum(1 for f in left if f.fix is not None and f.fix.safety is Safety.UNSAFE)
    return f"{text} ({more} fixable with --unsafe-fixes)" if more and not unsafe else text
