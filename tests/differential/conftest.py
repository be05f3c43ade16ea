"""What really fused, by a real vLLM: one process for all models, as its import takes long."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import BuildError, ModelcheckError
from modelcheck.vllm.load import LoadReport, find_python, load_many, require_vllm

HERE = Path(__file__).resolve().parent
REMOTE = HERE.parents[1] / "fixtures" / "models" / "remote_decoder"
CONFIGS = runpy.run_path(str(HERE / "configs.py"))["CONFIGS"]

Outcome = LoadReport | BuildError


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything here needs vLLM; where there is none, it is skipped with the reason."""
    here = [item for item in items if HERE in item.path.parents]
    if not here:
        return
    try:
        require_vllm(find_python())
    except ModelcheckError as error:
        for item in here:
            item.add_marker(pytest.mark.skip(reason=str(error)))
    for item in here:
        item.add_marker(pytest.mark.vllm)
        if config.pluginmanager.hasplugin("xdist"):  # with --dist loadgroup: one process
            item.add_marker(pytest.mark.xdist_group("vllm"))


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter that has vLLM."""
    return find_python()


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Outcome]:
    """Every model of configs.py as a folder, our remote-code model and its broken variants."""
    root = tmp_path_factory.mktemp("models")
    specs = {name: _in_tree(root / name, name, config) for name, config in CONFIGS.items()}
    specs["remote_decoder"] = BuildSpec(path=str(REMOTE), trust_remote_code=True)
    for name, (before, after) in VARIANTS.items():
        specs[name] = _variant(root / name, before, after)
    return dict(zip(specs, load_many(list(specs.values())), strict=True))


def _in_tree(folder: Path, model_type: str, config: Mapping[str, object]) -> BuildSpec:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as names

    folder.mkdir()
    whole = {"model_type": model_type, "architectures": [names[model_type]], **config}
    (folder / "config.json").write_text(json.dumps(whole))
    return BuildSpec(path=str(folder))


# One change each to the remote-code model, and what it does in vLLM: test_load_refusals.
VARIANTS = {
    "misspelt": ("self.head_dim**-0.5", "self.head_dims**-0.5"),
    "no_position_ids": ("        position_ids: torch.LongTensor | None = None,\n", ""),
    "no_config": ("self.config = config\n", "self.settings = config\n"),
    "inline_scaling": ("scaling=self.scaling", "scaling=self.head_dim**-0.5"),
    "one_index": ("[TarnDecoderLayer(config, layer_idx)", "[TarnDecoderLayer(config, 0)"),
    "no_embedding": ("self.embed_tokens", "self.table"),
    "item": (
        'self.register_buffer("inv_freq"',
        'self.first = steps[0].item()\n        self.register_buffer("inv_freq"',
    ),
    "functional_gate": ("self.act_fn(self.gate_proj", "nn.functional.silu(self.gate_proj"),
    "other_norm": (
        "torch.rsqrt(variance + self.variance_epsilon)",
        "(1 / torch.sqrt(variance + self.variance_epsilon))",
    ),
    "renamed_input": (
        "        value_states = self.v_proj(hidden_states)",
        "        states = hidden_states\n        value_states = self.v_proj(states)",
    ),
}


def _variant(folder: Path, before: str, after: str) -> BuildSpec:
    shutil.copytree(REMOTE, folder)
    file = folder / "modeling_tarn.py"
    text = file.read_text()
    assert before in text, f"{before!r} is no longer in {file.name}"
    file.write_text(text.replace(before, after))
    return BuildSpec(path=str(folder), trust_remote_code=True)
