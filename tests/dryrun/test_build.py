"""Building real models on meta: depth, modes, and what is said when it does not work."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch

from modelcheck.dryrun import build as building
from modelcheck.dryrun import shrink
from modelcheck.dryrun.anyclass import classes_for
from modelcheck.dryrun.build import build, build_meta
from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import BuildError, ModelcheckError, UnreadableFile, UsageError

ROOT = Path(__file__).resolve().parents[2]
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"


pytestmark = pytest.mark.usefixtures("module_cache")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A copy of the remote-code fixture that a test may break.

    Its configuration class is a new one: transformers remembers the model class of an old one.
    """
    copy = Path(shutil.copytree(REMOTE, tmp_path / "tarn-1.5"))
    with (copy / "configuration_tarn.py").open("a") as file:
        file.write(f"# {tmp_path.name}\n")
    return copy


def edit(repo: Path, file: str, old: str, new: str) -> None:
    text = (repo / file).read_text()
    assert old in text
    (repo / file).write_text(text.replace(old, new))


# Depths counted by hand from the default configurations: one layer of every kind, two at least.
DEPTHS = {
    "llama": (2, 32),
    "mistral": (2, 32),
    "qwen3": (2, 32),
    "qwen3_moe": (2, 24),
    "gemma3_text": (6, 26),  # the sixth layer is the first with full attention
    "olmoe": (2, 16),
    "gpt_oss": (2, 36),
    "deepseek_v3": (4, 61),  # three dense layers, then experts
    "jamba": (5, 32),  # attention first appears in the fifth layer
    "llama4_text": (4, 48),  # the fourth layer has no rope
    "gpt_neox_japanese": (32, 32),  # only the last layer has a bias
}


@pytest.mark.parametrize("model_type", DEPTHS)
def test_in_tree_types_keep_every_kind_of_layer(model_type: str) -> None:
    built = build(BuildSpec(model_type=model_type))
    whole = build(BuildSpec(model_type=model_type, full_depth=True))

    assert (built.built_depth, built.total_depth) == DEPTHS[model_type]
    assert (whole.built_depth, whole.total_depth) == (whole.total_depth, built.total_depth)
    assert shrink.kinds(built.model) == shrink.kinds(whole.model)
    assert type(built.model) is type(whole.model)


def test_a_model_is_built_as_vllm_builds_it() -> None:
    model, config = build_meta(BuildSpec(model_type="llama"))

    assert type(model).__name__ == "LlamaModel"  # not the ...ForCausalLM
    assert model.training
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert config.get_text_config()._attn_implementation == "vllm"
    assert model.layers[0].self_attn.config is config
    assert len(model.layers) == config.num_hidden_layers == 2
    assert model.layers[0].mlp.gate_proj.weight.shape == (11008, 4096)  # the real widths
    assert torch.get_default_device().type == "cpu"


def test_several_depths_are_cut_each_with_its_own_layers() -> None:
    built = build(BuildSpec(model_type="mllama"))

    assert {d.name: (d.built, d.total) for d in built.depths} == {
        "vision_config.num_hidden_layers": (2, 32),
        "text_config.num_hidden_layers": (4, 40),  # the fourth is the first of cross-attention
    }
    assert (built.built_depth, built.total_depth) == (4, 40)


def test_overrides_reach_the_constructor_of_a_type() -> None:
    _, config = build_meta(
        BuildSpec(model_type="gemma3_text", overrides={"num_hidden_layers": 3, "hidden_size": 64})
    )
    assert config.hidden_size == 64
    assert config.layer_types == ["sliding_attention"] * 2


def test_remote_code_is_built_with_consent(repo: Path) -> None:
    built = build(BuildSpec(str(repo), trust_remote_code=True))
    assert type(built.model).__name__ == "TarnModel"
    assert (built.built_depth, built.total_depth) == (2, 4)


def test_remote_code_that_transformers_knows_itself_is_left_alone(repo: Path) -> None:
    edit(repo, "config.json", '"model_type": "tarn"', '"model_type": "llama"')
    built = build(BuildSpec(str(repo)))
    assert type(built.model).__name__ == "LlamaModel"
    assert "auto_map is not used" in built.notes[0]


def test_a_refused_quantization_is_noted(repo: Path) -> None:
    edit(
        repo, "config.json", '"dtype"', '"quantization_config": {"quant_method": "mxfp4"}, "dtype"'
    )
    built = build(BuildSpec(str(repo), trust_remote_code=True))
    assert built.notes == ("vLLM's backend refuses the quantization mxfp4",)


def test_a_model_too_large_to_build_whole_is_cut_by_its_own_hints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "MODULES", 500)  # the whole has about 1200
    built = build(BuildSpec(model_type="deepseek_v3"))
    assert (built.built_depth, built.total_depth) == (4, 61)
    assert "layers from 4 on were not looked at" in built.notes[0]


def test_a_layer_alone_too_large_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MODULES", 5)
    with pytest.raises(BuildError, match="llama: 2 layers have more than 5 modules"):
        build(BuildSpec(model_type="llama"))


def refuse(repo: Path, trust: bool = True) -> str:
    with pytest.raises(ModelcheckError) as caught:
        build(BuildSpec(str(repo), trust_remote_code=trust))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_consent(repo: Path) -> None:
    message = refuse(repo, trust=False)
    assert "config.json" in message and "--trust-remote-code" in message


def test_no_folder_and_no_config(tmp_path: Path) -> None:
    assert "no such folder" in refuse(tmp_path / "nowhere")
    assert "no config.json" in refuse(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1,}'])
def test_bad_json(repo: Path, text: str) -> None:
    (repo / "config.json").write_text(text)
    with pytest.raises(UnreadableFile, match=r"config\.json"):
        build(BuildSpec(str(repo), trust_remote_code=True))


def test_unknown_types() -> None:
    with pytest.raises(BuildError, match="does not know model_type 'nonesuch'"):
        build(BuildSpec(model_type="nonesuch"))
    with pytest.raises(BuildError, match=r"'lama', did you mean llama\?"):
        build(BuildSpec(model_type="lama"))
    with pytest.raises(UsageError):
        build(BuildSpec())


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {"model_type": "nonesuch"},
            "does not know model_type 'nonesuch', and there is no auto_map",
        ),
        ({"hidden_size": 4}, "neither model_type nor auto_map.AutoConfig"),
        ({"auto_map": {"AutoConfig": "configuration_gone.C"}}, "configuration_gone.py, which is"),
        ({"auto_map": {"AutoConfig": "C"}}, "not 'module.Class'"),
        (
            {"auto_map": {"AutoConfig": "configuration_tarn.TarnConfig"}},
            "auto_map has no AutoModel",
        ),
        ({"model_type": "llama", "hidden_size": "wide"}, "hidden_size"),
    ],
)
def test_configurations_that_cannot_be_used(
    repo: Path, config: dict[str, object], says: str
) -> None:
    (repo / "config.json").write_text(json.dumps(config))
    assert says in refuse(repo)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("import torch\n", "import torch\nimport nonesuch\n", "nonesuch"),
        ("import torch\n", "import torch\nraise OSError('no disk')\n", "OSError: no disk"),
        ("        self.embed_tokens =", "        self.nothing\n        self.e =", "'nothing'"),
        ("TarnRotaryEmbedding(config)\n", "self.norm.weight.sum().item()\n", "meta"),
        ("class TarnModel(", "class TarnModel_(", "TarnModel"),
        ("class TarnModel(", "class TarnModel((", "modeling_tarn.py"),
    ],
)
def test_faults_of_the_code(repo: Path, old: str, new: str, says: str) -> None:
    edit(repo, "modeling_tarn.py", old, new)
    assert says in refuse(repo)


def test_a_fault_is_placed_in_the_users_own_file(repo: Path) -> None:
    edit(
        repo,
        "modeling_tarn.py",
        "        self.embed_tokens =",
        "        config.nothing\n        self.embed_tokens =",
    )
    line = (repo / "modeling_tarn.py").read_text().splitlines().index("        config.nothing") + 1
    message = refuse(repo)
    assert f"{repo / 'modeling_tarn.py'}:{line}" in message
    assert "'TarnConfig' object has no attribute 'nothing'" in message


def test_the_cause_behind_a_property_is_named(repo: Path) -> None:
    """torch says that the property does not exist; what it lacks is something else."""
    edit(
        repo,
        "modeling_tarn.py",
        "class TarnModel(TarnPreTrainedModel):\n",
        "class TarnModel(TarnPreTrainedModel):\n"
        "    @property\n"
        "    def width(self):\n"
        "        return self.config.breadth\n\n",
    )
    edit(
        repo,
        "modeling_tarn.py",
        "        self.embed_tokens =",
        "        self.width\n        self.embed_tokens =",
    )
    message = refuse(repo)
    assert "'breadth'" in message and "'width'" not in message


def test_attention_from_a_class_table_is_explained() -> None:
    with pytest.raises(BuildError, match="attention is chosen from a dict"):
        build(BuildSpec(model_type="falcon"))


def test_a_type_without_automodel_is_built_only_when_asked():
    spec = BuildSpec(model_type="siglip_text_model")
    with pytest.raises(BuildError, match="no AutoModel for SiglipTextConfig"):
        build(spec)
    built = build(dataclasses.replace(spec, any_class=True))
    assert type(built.config).__name__ == "SiglipTextConfig"
    assert isinstance(built.model.config, type(built.config))


def test_the_largest_model_of_a_configuration_is_built():
    built = build(BuildSpec(model_type="kosmos_2_text_model", any_class=True))
    others = [kind for kind in classes_for(type(built.config)) if kind is not type(built.model)]
    assert others
    with torch.device("meta"):
        assert all(_modules(other(built.config)) <= _modules(built.model) for other in others)


def _modules(model):
    return sum(1 for _ in model.modules())
