"""What a scan says of a model that inherits from the installed transformers, judged by vLLM."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import BuildError
from modelcheck.findings import Severity
from modelcheck.fusers.contract import contract_for
from modelcheck.scan import Scanner
from modelcheck.vllm.load import LoadReport, load_many

HEIR = Path(__file__).resolve().parents[2] / "fixtures" / "inheriting"
SUPER = "        super().__init__(config, layer_idx)\n        self.o_proj"
FORWARD = "\n\nclass HeirDecoderLayer(LlamaDecoderLayer):"
INLINE = """
    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, **kwargs):
        query, key, value = self.q_proj(hidden_states), self.k_proj(hidden_states), hidden_states
        weights = (query @ key.transpose(1, 2) * self.scaling).softmax(-1)
        return self.o_proj(weights @ value), weights
"""
DELEGATED = """
    def forward(self, hidden_states, **kwargs):
        output, weights = super().forward(hidden_states, **kwargs)
        return output * 2, weights
"""
# The change, the rule that tells it before, and vLLM's words; none where vLLM builds the model.
VARIANTS = {
    "plain": ("", "", "", ""),
    "inline": (FORWARD, INLINE + FORWARD, "MC101", "Layer 0 does not dispatch"),
    "delegated": (FORWARD, DELEGATED + FORWARD, "MC103", "Layer 0 does not dispatch"),
    "index": (
        SUPER,
        SUPER.replace("self.o_proj", "self.layer_idx = None\n        self.o_proj"),
        "MC108",
        "Layer 0 does not dispatch",
    ),
    "scaling": (
        SUPER,
        SUPER.replace("self.o_proj", "self.scaling = None\n        self.o_proj"),
        "MC105",
        "Cannot resolve attention scaling",
    ),
    "unflagged": (
        "class HeirModel(LlamaModel):\n",
        "class HeirModel(LlamaModel):\n    _supports_attention_backend = False\n",
        "",
        "",
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The fixture, and it with one change each."""
    root = tmp_path_factory.mktemp("heirs")
    for name, (before, after, _, _) in VARIANTS.items():
        shutil.copytree(HEIR, root / name)
        path = root / name / "modeling_heir.py"
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after) if before else text)
    return {name: root / name for name in VARIANTS}


@pytest.fixture(scope="module")
def built(folders: Mapping[str, Path]) -> Mapping[str, LoadReport | BuildError]:
    """What vLLM does with each."""
    specs = [BuildSpec(path=str(path), trust_remote_code=True) for path in folders.values()]
    return dict(zip(folders, load_many(specs), strict=True))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_scan_tells_what_vllm_does(
    folders: Mapping[str, Path], built: Mapping[str, LoadReport | BuildError], name: str
) -> None:
    _, _, code, words = VARIANTS[name]
    findings = Scanner(contract_for("0.32.0")).scan([str(folders[name])]).findings
    errors = [f.code for f in findings if f.severity in (Severity.ERROR, Severity.WRONG)]
    assert errors == ([code] if code else [])
    outcome = built[name]
    if words:
        assert isinstance(outcome, BuildError)
        assert words in str(outcome)
    else:
        assert isinstance(outcome, LoadReport)
