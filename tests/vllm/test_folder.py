"""The folder that vLLM builds from holds what dryrun looked at."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from modelcheck.dryrun.build import build
from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import BuildError
from modelcheck.vllm.folder import changes, write_folder

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.usefixtures("module_cache")
REMOTE = Path(__file__).resolve().parents[2] / "fixtures" / "models" / "remote_decoder"


def written(spec: BuildSpec, folder: Path) -> dict[str, object]:
    folder.mkdir()
    write_folder(spec, build(spec), folder)
    config: dict[str, object] = json.loads((folder / "config.json").read_text())
    return config


def test_changes_are_nested_and_least() -> None:
    before = {"a": 1, "b": {"c": 2, "d": 3}, "e": [1, 2], "dtype": "float32"}
    after = {"a": 1, "b": {"c": 2, "d": 4}, "e": [1], "dtype": "bfloat16", "f": None}
    assert changes(before, after) == {"b": {"d": 4}, "e": [1]}


def test_only_the_depth_of_a_repository_changes(tmp_path: Path) -> None:
    config = written(BuildSpec(path=str(REMOTE), trust_remote_code=True), tmp_path / "x")
    original = json.loads((REMOTE / "config.json").read_text())
    assert config == {**original, "num_hidden_layers": 2}
    code = {path.name for path in (tmp_path / "x").iterdir()}
    assert {"configuration_tarn.py", "modeling_tarn.py"} <= code


def test_full_depth_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    spec = BuildSpec(path=str(REMOTE), trust_remote_code=True, full_depth=True)
    assert written(spec, tmp_path / "x") == json.loads((REMOTE / "config.json").read_text())


def test_the_name_in_the_file_is_the_one_that_is_cut(tmp_path: Path) -> None:
    """GPT-2 calls its depth n_layer, and also reads num_hidden_layers."""
    repo = tmp_path / "gpt2"
    repo.mkdir()
    raw = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "num_hidden_layers": 6}
    (repo / "config.json").write_text(json.dumps(raw))
    written(BuildSpec(path=str(repo)), tmp_path / "x")
    read = transformers.AutoConfig.from_pretrained(tmp_path / "x")
    assert read.num_hidden_layers == 2


def test_weights_and_hidden_files_stay_behind(tmp_path: Path) -> None:
    repo = Path(shutil.copytree(REMOTE, tmp_path / "repo"))
    (repo / "model.safetensors").write_bytes(b"\0" * 10)
    (repo / "model.safetensors.index.json").write_text("{}")
    (repo / ".cache").mkdir()
    (repo / ".cache" / "x.json").write_text("{}")
    (repo / "generation_config.json").write_text("{}")
    written(BuildSpec(path=str(repo), trust_remote_code=True), tmp_path / "x")
    names = {str(p.relative_to(tmp_path / "x")) for p in (tmp_path / "x").rglob("*")}
    assert "generation_config.json" in names
    assert not names & {"model.safetensors", "model.safetensors.index.json", ".cache"}


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [("llama", "LlamaForCausalLM"), ("bert", "BertLMHeadModel"), ("vit", "ViTModel")],
)
def test_a_type_gets_an_architecture(tmp_path: Path, model_type: str, architecture: str) -> None:
    config = written(BuildSpec(model_type=model_type), tmp_path / "x")
    assert config["architectures"] == [architecture]
    assert config["model_type"] == model_type
    assert config["num_hidden_layers"] == 2


def test_a_type_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError):
        written(BuildSpec(model_type="nothing"), tmp_path / "x")
