"""Start-up time is a feature: what the static commands import, and what they cost."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CLEAN = ROOT / "fixtures" / "rules" / "no_base_model" / "modeling_good.py"
HEAVY = ("torch", "transformers", "vllm", "libcst", "rich", "numpy", "huggingface_hub")

PROBE = """
import sys
from modelcheck.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    assert not stop.code, stop.code
print(*sys.modules, sep="\\n", file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["scan", str(CLEAN)], ["scan", str(CLEAN), "--fix"], ["explain"]],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(arguments):
    result = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 0, result.stderr
    imported = set(result.stderr.splitlines())
    assert "modelcheck.cli" in imported
    assert imported.isdisjoint(HEAVY)


def test_help_does_not_import_the_rules():
    code = PROBE
    result = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert not any(name.startswith("modelcheck.rules") for name in result.stderr.splitlines())
