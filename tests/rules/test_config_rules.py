"""Family config: config.json, the configuration class and the checkpoint, on whole repositories."""

import json
import re
import shutil
from pathlib import Path

import pytest

from modelcheck.rules.base import rule_named
from modelcheck.scan import Scanner, Selection
from modelcheck.source import installed

DEMO = Path(__file__).resolve().parent.parent.parent / "fixtures" / "demo"
COMPLETE = {
    "AutoConfig": "configuration_fen.FenConfig",
    "AutoModel": "modeling_fen.FenModel",
    "AutoModelForCausalLM": "modeling_fen.FenForCausalLM",
}
LAYER = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "input_layernorm",
    "post_attention_layernorm",
)
KEYS = [
    "model.embed_tokens.weight",
    "model.norm.weight",
    "lm_head.weight",
    *(f"model.layers.{i}.{name}.weight" for i in range(2) for name in LAYER),
]


@pytest.fixture
def scan(tmp_path):
    """``scan(code, keys=..., files=..., **changes)``: the demo repository, changed."""
    folder = tmp_path / "repo"
    shutil.copytree(DEMO, folder)

    def run(code, keys=None, files=None, **changes):
        config = json.loads((DEMO / "config.json").read_text()) | {"auto_map": COMPLETE} | changes
        (folder / "config.json").write_text(json.dumps(config, indent=2))
        if keys is not None:
            index = {"weight_map": dict.fromkeys(keys, "model.safetensors")}
            (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        return Scanner(selection=Selection(select=(code,))).scan([str(folder)]).findings

    return run


@pytest.fixture
def scan_text(tmp_path):
    def run(code, text):
        path = tmp_path / "modeling_x.py"
        path.write_text(text)
        return Scanner(selection=Selection(select=(code,))).scan([str(path)]).findings

    return run


def example(code, section="Example"):
    text = rule_named(code).sections[section]
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


def test_the_demo_s_configuration_has_nothing(scan):
    assert scan("MC32") == ()


class TestCheckpoint:
    def test_one_that_fits(self, scan):
        assert scan("MC325", KEYS) == ()

    @pytest.mark.parametrize("prefix", ["", "model."])
    def test_the_prefix_may_be_left_out(self, scan, prefix):
        assert (
            scan("MC325", [prefix + key.removeprefix("model.") for key in KEYS[:2] + KEYS[3:]])
            == ()
        )

    @pytest.mark.parametrize(
        "key",
        [
            "model.layers.0.self_attn.rotary_emb.inv_freq",
            "model.layers.0.mlp.up_proj.bias",
            "lm_head.bias",
        ],
    )
    def test_what_vllm_drops(self, scan, key):
        assert scan("MC325", [*KEYS, key]) == ()

    def test_a_tensor_that_nothing_takes(self, scan):
        (finding,) = scan("MC325", [*KEYS, "model.layers.0.mlp.gate.weight"])
        assert "model.layers.0.mlp.gate.weight" in finding.message
        assert (finding.class_name, finding.severity) == ("FenModel", "error")

    def test_a_parameter_that_nothing_fills(self, scan):
        (finding,) = scan("MC325", [k for k in KEYS if k != "model.norm.weight"])
        assert "nothing in the checkpoint fills norm.weight" in finding.message
        assert finding.severity == "error"

    def test_quantised_weights_have_other_names(self, scan):
        keys = [k.replace(".weight", ".qweight") for k in KEYS]
        assert len(scan("MC325", keys)) == 2
        assert scan("MC325", keys, quantization_config={"quant_method": "gptq"}) == ()

    def test_another_head_is_not_judged(self, scan):
        assert scan("MC325", [*KEYS, "score.weight"], architectures=["FenForTokenScores"]) == ()


class TestHeads:
    def test_key_value_heads(self, scan_text):
        (finding,) = scan_text("MC320", example("MC320"))
        assert "2 key and value heads, and vLLM takes 4 from num_attention_heads" in finding.message
        assert finding.severity == "error"

    def test_head_size(self, scan_text):
        text = example("MC320", "Use instead").replace(
            "config.hidden_size // config.num_attention_heads", "8"
        )
        (finding,) = scan_text("MC320", text)
        assert "heads are 8 wide, and vLLM takes 16" in finding.message


class TestExperts:
    def test_choice(self, scan_text):
        (finding,) = scan_text("MC321", example("MC321"))
        assert (finding.severity, finding.class_name) == ("error", "MyMoE")

    def test_number(self, scan_text):
        text = example("MC321", "Use instead").replace('num_experts"', 'kept_experts"')
        text = re.sub(r"\bnum_experts\b", "expert_total", text)
        (finding,) = scan_text("MC321", text)
        assert finding.severity == "slow"
        assert "no number of experts in the configuration (num_experts" in finding.message

    def test_width(self, scan_text):
        text = re.sub(r"\bintermediate_size\b", "expert_rows", example("MC321", "Use instead"))
        (finding,) = scan_text("MC321", text)
        assert "width of an expert" in finding.message


@pytest.mark.parametrize(("method", "count"), [("mxfp4", 1), ("fp8", 0), (None, 0)])
def test_quantization(scan, method, count):
    assert len(scan("MC322", quantization_config={"quant_method": method})) == count


class TestAutoMap:
    @pytest.mark.parametrize(
        "reference",
        ["FenModel", "nowhere.FenModel", "modeling_fen.Missing", "modeling_fen.FenMLP"],
    )
    def test_the_base_model(self, scan, reference):
        (finding,) = scan("MC324", auto_map=COMPLETE | {"AutoModel": reference})
        assert finding.severity == "error"
        assert "AutoModel" in finding.message
        assert finding.path.endswith("config.json")

    def test_another_repository_is_not_looked_at(self, scan):
        assert scan("MC324", auto_map=COMPLETE | {"AutoModel": "a/b--modeling_fen.Missing"}) == ()

    def test_a_head_that_cannot_be_imported_is_passed_over(self, scan):
        auto_map = COMPLETE | {"AutoModelForCausalLM": "nowhere.FenForCausalLM"}
        assert scan("MC324", auto_map=auto_map) == ()


class TestClassifier:
    def test_what_is_served_is_an_error(self, scan):
        name = "MyForSequenceClassification"
        files = {"modeling_seq.py": example("MC323")}
        (finding,) = scan("MC323", files=files, architectures=[name])
        assert (finding.severity, finding.class_name) == ("error", name)
        (finding,) = scan("MC323", files=files)
        assert finding.severity == "info"

    @pytest.mark.parametrize("head", ["score", "classifier"])
    def test_either_name_will_do(self, scan_text, head):
        assert scan_text("MC323", example("MC323").replace("rank_head", head)) == ()


class TestLayerCount:
    def test_the_number_may_come_from_config_json(self, scan_text):
        text = example("MC326")
        (finding,) = scan_text("MC326", text)
        assert (finding.severity, finding.class_name) == ("error", "ToyModel")
        asks = text.replace("range(config.n_blocks)", "range(config.num_hidden_layers)")
        assert scan_text("MC326", asks) == ()

    @pytest.mark.parametrize(
        ("name", "refused"), [("n_blocks", True), ("num_hidden_layers", False)]
    )
    def test_with_a_config_json_it_is_looked_for_there(self, scan_text, tmp_path, name, refused):
        asks = example("MC326").replace("range(config.n_blocks)", "range(config.num_hidden_layers)")
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "toy", name: 4}))
        assert bool(scan_text("MC326", asks)) is refused


def test_a_number_left_at_none_is_noted_while_there_is_no_config_json(scan_text):
    text = example("MC321").replace("experts_used=2", "num_experts_per_tok=None")
    text = text.replace("self.experts_used = experts_used", "self.num_experts_per_tok = None")
    (finding,) = scan_text("MC321", text)
    assert finding.severity == "info" and "num_experts_per_tok is None" in finding.message


class TestArchitectureOfTransformers:
    """What is right and wrong of the installed transformers' own classes is asked of them."""

    def test_one_that_vllm_takes(self, scan):
        (finding,) = scan("MC327", architectures=["LlamaForCausalLM"])
        assert finding.severity == "info"
        assert "--model-impl transformers" in finding.message

    def test_one_that_vllm_refuses(self, scan):
        import transformers

        name = "GPTJForCausalLM"
        theirs = getattr(transformers, name)
        assert not theirs.is_backend_compatible()
        assert not theirs._can_set_attn_implementation()
        (finding,) = scan("MC327", architectures=[name])
        assert (finding.severity, finding.class_name) == ("error", name)
        assert "GPTJForCausalLM" in finding.message

    def test_vllm_looks_at_the_first(self, scan):
        assert scan("MC327", architectures=["FenForCausalLM", "LlamaForCausalLM"]) == ()

    def test_without_code_of_its_own(self, scan):
        assert scan("MC327", architectures=["LlamaForCausalLM"], auto_map={}) == ()
        only = {"AutoConfig": "configuration_fen.FenConfig"}
        assert scan("MC327", architectures=["LlamaForCausalLM"], auto_map=only) == ()

    def test_a_name_that_is_not_exported(self, scan):
        import transformers

        name = "LlamaMLP"  # in the file, and no model
        assert not hasattr(transformers, name)
        assert scan("MC327", architectures=[name]) == ()

    def test_transformers_is_not_installed(self, scan, monkeypatch):
        monkeypatch.setattr(installed, "installed_root", lambda: None)
        assert scan("MC327", architectures=["LlamaForCausalLM"]) == ()
