"""The model types are read from transformers' files."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from modelcheck.errors import UsageError
from modelcheck.survey.catalogue import choose, installed, read_catalogue


def test_types_with_their_base_class_and_file(package):
    types = {t.name: t for t in read_catalogue(package, "5").types}
    assert list(types) == ["gone", "late", "one", "two-part", "two-text"]
    assert types["one"].base == "OneModel"
    assert types["one"].file == package / "models/one/modeling_one.py"
    assert types["two-text"].file == types["two-part"].file
    assert types["gone"].file is None
    assert types["late"].base == ""


def test_of_two_files_with_the_class_the_one_in_the_types_folder(package):
    copy = package / "models/a_copy/modeling_a_copy.py"
    copy.parent.mkdir()
    copy.write_text("class TwoModel: pass\n")
    types = {t.name: t for t in read_catalogue(package, "5").types}
    assert types["two-part"].file.parent.name == "two_part"


def test_no_tables(tmp_path):
    with pytest.raises(UsageError, match="no table of model types"):
        read_catalogue(tmp_path, "5")


def test_an_unknown_type_is_one_line_with_a_suggestion(package):
    types = read_catalogue(package, "5").types
    with pytest.raises(UsageError, match=r"no 'two-txt', did you mean two-text\?"):
        choose(types, ["one", "two-txt"])


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="no transformers")
def test_the_installed_transformers_has_the_same_types_when_it_is_imported():
    script = (
        "from transformers import CONFIG_MAPPING, MODEL_MAPPING\n"
        "from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES\n"
        "print(*sorted(CONFIG_MAPPING.keys()))\n"
        "print(*sorted(MODEL_MAPPING_NAMES))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    configs, models = (set(line.split()) for line in done.stdout.splitlines()[-2:])
    types = installed().types
    assert {t.name for t in types} == configs | models
    assert {t.name for t in types if t.base} == models
    assert all(isinstance(t.file, Path) for t in types if t.base)
