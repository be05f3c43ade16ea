"""A copy of the remote-code model, and modelcheck as a user runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A copy of the remote-code model, its MLP's argument called x for shorter changes."""
    folder = Path(shutil.copytree(REMOTE, tmp_path / "tarn"))
    text = (folder / "modeling_tarn.py").read_text()
    head, mlp, tail = text.partition("class TarnMLP")
    body, layer, rest = tail.partition("class TarnDecoderLayer")
    (folder / "modeling_tarn.py").write_text(
        head + mlp + body.replace("hidden_states", "x") + layer + rest
    )
    return folder


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs modelcheck as a user does, in the folder above the repository."""

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "modelcheck", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            input=stdin,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            check=False,
        )

    return run
