"""A config.json whose values have other types than the model expects: never an internal error."""

import json
import shutil
from pathlib import Path

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.scan import Scanner

TARN = Path(__file__).parents[1] / "fixtures" / "models" / "remote_decoder"
CONFIG = json.loads((TARN / "config.json").read_text())


@pytest.mark.parametrize("value", ["4", [], {}, None, 2.5, 0, -1, True])
def test_every_setting_in_turn(tmp_path, value):
    repo = tmp_path / "repo"
    shutil.copytree(TARN, repo)
    for name in CONFIG:
        (repo / "config.json").write_text(json.dumps({**CONFIG, name: value}))
        result = Scanner(contract_for("0.32")).scan([str(repo)])
        assert result.files or result.unreadable, name
