"""The head becomes lm_head, and checkpoints keep its old name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fixers
from modelcheck.repair import Repair, Workshop, prepare

pytestmark = pytest.mark.usefixtures("module_cache")

CASE = Path(__file__).resolve().parents[2] / "fixtures/cases/15_moe_custom_experts_attr"
FIXED = CASE / "modeling_fixed.py"
CONFIG = {
    "architectures": ["VineaForCausalLM"],
    "model_type": "vinea",
    "tie_word_embeddings": False,
    "auto_map": {
        "AutoConfig": "modeling_case.VineaConfig",
        "AutoModel": "modeling_case.VineaModel",
        "AutoModelForCausalLM": "modeling_case.VineaForCausalLM",
    },
}
HEADER = {"class": "VineaForCausalLM", "at": "self.output", "data": {"name": "output"}}


def with_head(name: str) -> str:
    """A whole model that vLLM takes, but for the name of its head."""
    # transformers keeps renamings by model type for the whole process: a type of this file's own
    text = FIXED.read_text().replace("Olea", "Vinea").replace('"olea"', '"vinea"')
    assert text.count("lm_head") == 3 and text.count('"vinea"') == 1
    return text.replace("lm_head", name)


def write_repo(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "modeling_case.py").write_text(text)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def repaired(folder: Path, *, unsafe: bool = True) -> tuple[Repair, str]:
    with Workshop(str(folder)) as copy:
        repair = prepare(str(folder), copy, unsafe=unsafe)
        return repair, Path(copy, "modeling_case.py").read_text()


def saved(folder: Path) -> set[str]:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        return set(file.keys())


def test_checkpoints_are_read_and_written_as_before(tmp_path: Path) -> None:
    torch, auto = pytest.importorskip("torch"), pytest.importorskip("transformers")
    old = write_repo(tmp_path / "head_old", with_head("output"))
    repair, fixed = repaired(old)
    assert repair.applied == {"MC313": 1}
    assert "MC313" not in {f.code for f in repair.left}
    assert repaired(write_repo(tmp_path / "head_again", fixed))[1] == fixed
    new = write_repo(tmp_path / "head_new", fixed)
    config = auto.AutoConfig.from_pretrained(old, trust_remote_code=True)
    before = auto.AutoModelForCausalLM.from_config(config, trust_remote_code=True).eval()
    before.save_pretrained(tmp_path / "weights")
    (tmp_path / "weights" / "model.safetensors").rename(new / "model.safetensors")
    names = saved(new)
    assert "output.weight" in names
    after = auto.AutoModelForCausalLM.from_pretrained(new, trust_remote_code=True).eval()
    ids = torch.randint(0, 50, (2, 9))
    torch.testing.assert_close(after(ids).logits, before(ids).logits, rtol=1e-5, atol=1e-5)
    assert before(ids).logits.std() > 0
    after.save_pretrained(tmp_path / "again")
    assert saved(tmp_path / "again") == names
    assert repaired(new)[0].left == repaired(write_repo(tmp_path / "bare", fixed))[0].left, (
        "a checkpoint with the old name fits"
    )


def test_a_checkpoint_that_ties_nothing_is_believed(tmp_path: Path) -> None:
    folder = write_repo(tmp_path / "repo", with_head("output"))
    (folder / "config.json").write_text(json.dumps(CONFIG | {"tie_word_embeddings": True}))
    assert "MC313" not in repaired(folder)[0].applied
    index = {"metadata": {}, "weight_map": {"output.weight": "model-1.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert repaired(folder)[0].applied["MC313"] == 1


def test_it_is_not_done_unasked(tmp_path: Path) -> None:
    text = with_head("output")
    repair, new = repaired(write_repo(tmp_path / "repo", text), unsafe=False)
    assert new == text
    assert "MC313" in {f.code for f in repair.left}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("def peek(model):\n    return model.output\n", "output of something else is used here"),
        ("NAMES = ['output.weight']\n", "output is named in a way not understood"),
        (
            "class Other(nn.Module):\n    def __init__(self):\n        self.lm_head = 1\n",
            "Other has a module called lm_head already",
        ),
    ],
)
def test_what_else_goes_by_the_name(
    run_fix: Callable[[str, str, dict[str, Any]], str], more: str, reason: str
) -> None:
    text = f"{with_head('output')}\n\n{more}"
    with pytest.raises(fixers.FixRefused, match=reason):
        run_fix("head_name", text, HEADER)
    prose = f'{with_head("output")}\n\nprint("the output of a model")\n'
    assert "output.weight" not in run_fix("head_name", prose, HEADER).replace("^output", "")
