"""What is in the wheel, and what it asks for."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from modelcheck.rules.base import all_rules

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignore = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignore)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        yield archive


@pytest.mark.slow
def test_top_level_names(wheel):
    names = {name.partition("/")[0] for name in wheel.namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"modelcheck", "fixers"}


@pytest.mark.slow
def test_every_rule_and_package_file_is_there(wheel):
    names = set(wheel.namelist())
    for rule in all_rules():
        path = f"modelcheck/rules/{rule.family}/{rule.name.replace('-', '_')}.py"
        assert path in names
    for package in ("modelcheck", "fixers"):
        for path in (ROOT / package).rglob("*.py"):
            assert str(path.relative_to(ROOT)) in names


@pytest.mark.slow
def test_base_dependencies_and_extras(wheel):
    metadata = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    requires = re.findall(r"^Requires-Dist: (.*)$", wheel.read(metadata).decode(), re.MULTILINE)
    base = {re.split(r"[ <>=;]", line)[0] for line in requires if "extra ==" not in line}
    assert base == {"click", "rich", "libcst", "packaging", "tomlkit"}
    extras = re.findall(r"^Provides-Extra: (.*)$", wheel.read(metadata).decode(), re.MULTILINE)
    assert set(extras) == {"dryrun", "hub", "vllm", "dev"}
    assert not any("<" in line.partition(";")[0] for line in requires)


def test_every_folder_with_code_is_a_package():
    for package in ("modelcheck", "fixers"):
        for path in (ROOT / package).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path.parent
