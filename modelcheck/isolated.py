"""An environment with an older transformers that shares the torch of this one."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from packaging.version import InvalidVersion, Version

from modelcheck.errors import UsageError, WorkerError

TIMEOUT = 600.0  # seconds for pip


def cache_folder() -> Path:
    """Where environments are kept: in ``$XDG_CACHE_HOME``, or ``~/.cache``."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "modelcheck"


def environment(release: str, folder: Path | None = None) -> str:
    """A Python with ``transformers==release``, made by pip where there is none yet.

    Everything but transformers and its closest requirements comes from the environment that this
    runs in. ``folder`` is where environments are kept (`cache_folder`). Raises `UsageError` for
    what is no release, `WorkerError` when pip fails.
    """
    try:
        version = str(Version(release))
    except InvalidVersion:
        raise UsageError(f"{release!r} is not a version of transformers, try 4.44.2") from None
    home = (folder or cache_folder()) / f"transformers-{version}-py{sysconfig.get_python_version()}"
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = home / "complete"
    if done.exists() and python.exists():
        return str(python)
    home.parent.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", "--clear", str(home)], "venv")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = _run([*pip, "--dry-run", "--report", "-", f"transformers=={version}"], "pip")
    _run([*pip, "--no-deps", *_requirements(wanted)], "pip")
    own = _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], "it")
    # A .pth entry comes after the environment's own packages.
    Path(own.strip(), "modelcheck_shared.pth").write_text(
        "\n".join(dict.fromkeys(sysconfig.get_path(k) for k in ("purelib", "platlib"))) + "\n"
    )
    done.touch()
    return str(python)


def _requirements(report: str) -> list[str]:
    """transformers and what it pins, as pip resolved them; numpy and torch are shared."""
    import json

    shared = {"numpy", "torch"}
    try:
        items = json.loads(report)["install"]
    except (ValueError, KeyError):
        raise WorkerError("pip: its report cannot be read") from None
    found = {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in items}
    return [f"{name}=={version}" for name, version in found.items() if name not in shared]


def _run(command: list[str], what: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkerError(f"{what}: {error}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        last = (lines or done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise WorkerError(f"{what}: {last}")
    return done.stdout
