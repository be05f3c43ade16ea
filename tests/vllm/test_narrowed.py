"""A model whose weights are held in memory is made narrower, and keeps what fusers look at."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from modelcheck.dryrun.target import BuildSpec

pytest.importorskip("torch")

from modelcheck.dryrun.build import build
from modelcheck.emulate.narrow import ENOUGH, parameters
from modelcheck.vllm.folder import write_folder
from modelcheck.vllm.worker import _narrowed

REMOTE = Path(__file__).resolve().parents[2] / "fixtures" / "models" / "remote_decoder"
pytestmark = pytest.mark.usefixtures("module_cache")


@pytest.mark.parametrize("kind", ["llama", "qwen3_moe", "deepseek_v3"])
def test_a_wide_model_is_made_narrower(kind: str, tmp_path: Path) -> None:
    _is_narrowed(BuildSpec(None, kind), tmp_path)


def test_a_wide_repository_is_made_narrower(tmp_path: Path) -> None:
    """Its head size is not in config.json: the configuration class derives it."""
    wide = Path(shutil.copytree(REMOTE, tmp_path / "wide"))
    config = json.loads((wide / "config.json").read_text())
    del config["head_dim"]
    config |= {"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32}
    (wide / "config.json").write_text(json.dumps(config))
    (tmp_path / "written").mkdir()
    _is_narrowed(BuildSpec(str(wide), trust_remote_code=True), tmp_path / "written")


def _is_narrowed(spec: BuildSpec, folder: Path) -> None:
    whole = build(spec)
    assert (parameters(whole.config, spec) or 0) > ENOUGH
    narrowed, built = _narrowed(spec, whole)
    count = sum(p.numel() for p in built.model.parameters())
    assert count < (parameters(whole.config, spec) or 0) / 4
    # What vLLM is given is the model that was built.
    write_folder(narrowed, built, folder)
    again = build(BuildSpec(str(folder), trust_remote_code=True))
    assert sum(p.numel() for p in again.model.parameters()) == count
    assert {type(m).__name__ for m in built.model.modules()} == {
        type(m).__name__ for m in whole.model.modules()
    }
    assert any("--full keeps the real sizes" in note for note in built.notes)


def test_a_small_model_is_left_as_it_is() -> None:
    spec = BuildSpec(str(REMOTE), trust_remote_code=True)
    whole = build(spec)
    assert _narrowed(spec, whole) == (spec, whole)
