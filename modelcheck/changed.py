"""Which files differ from a git revision: for ``--changed-only``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence

from modelcheck.errors import UsageError
from modelcheck.source.repo import CONFIG


def changed_files(folder: str, base: str) -> frozenset[str]:
    """Real paths of the files of the repository around ``folder`` that differ from ``base``.

    They are compared with the commit where the current branch left ``base``: what was committed
    since, what is staged, what is not, and untracked files that are not ignored. Of a renamed
    file the new name counts, of a deleted one the old. Raises `UsageError` without git, outside
    a repository and for an unknown revision.
    """
    top = _git(folder, "rev-parse", "--show-toplevel").strip("\n")
    _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
    fork = _fork(folder, base)
    changed = _git(top, "diff", "--name-only", "--no-renames", "-z", fork, "--")
    untracked = _git(top, "ls-files", "--others", "--exclude-standard", "-z")
    names = filter(None, (changed + untracked).split("\0"))
    return frozenset(os.path.realpath(os.path.join(top, name)) for name in names)


def touched(paths: Iterable[str], changed: frozenset[str]) -> list[str]:
    """Those of ``paths`` that changed.

    The files of a model repository (a folder with a config.json) belong together: all of them
    count when one Python or JSON file of the folder changed.
    """
    folders = {os.path.dirname(path) for path in changed if path.endswith((".py", ".json"))}

    def is_touched(path: str) -> bool:
        real = os.path.realpath(path)
        folder = os.path.dirname(real)
        whole = folder in folders and os.path.isfile(os.path.join(folder, CONFIG))
        return whole or real in changed

    return [path for path in paths if is_touched(path)]


def _fork(folder: str, base: str) -> str:
    """The commit where HEAD left ``base``; ``base`` itself when they have none in common."""
    try:
        return _git(folder, "merge-base", "--end-of-options", base, "HEAD").strip()
    except UsageError:
        return _git(
            folder, "rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}"
        ).strip()


def _git(folder: str, *arguments: str) -> str:
    command: Sequence[str] = ("git", "-C", folder or ".", *arguments)
    # What git says is told apart below, so it must be in English.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
    except OSError as error:
        raise UsageError(f"--changed-only: git cannot be run: {error.strerror}") from None
    if done.returncode == 0:
        return os.fsdecode(done.stdout)
    said = os.fsdecode(done.stderr).strip()
    if "not a git repository" in said:
        raise UsageError(f"--changed-only: {folder or '.'} is not in a git repository")
    if arguments[:2] == ("rev-parse", "--verify"):
        revision = arguments[-1].removesuffix("^{commit}")
        raise UsageError(f"--base-ref: git knows no commit {revision!r} here")
    raise UsageError(f"--changed-only: git: {(said.splitlines() or ['failed'])[-1]}")
