"""The fixers of experts, packed projections and slices, on whole models and beyond the pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fixers
from modelcheck.findings import Finding, Fix, Safety, Severity, Span
from modelcheck.fusers.contract import contract_for
from modelcheck.repair import Repair, Workshop, prepare
from modelcheck.rules.base import Context, rule_named
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.repo import Repo
from modelcheck.source.text import parse_text

ROOT = Path(__file__).resolve().parents[2] / "fixtures"
PAIRS = ROOT / "fixers"
CASES = ROOT / "cases"
LOOPS = ("one_hot", "compared", "hit", "sorted", "put_back")
CONFIG = {
    "architectures": ["OleaForCausalLM"],
    "model_type": "olea",
    "auto_map": {
        "AutoConfig": "modeling_case.OleaConfig",
        "AutoModel": "modeling_case.OleaModel",
        "AutoModelForCausalLM": "modeling_case.OleaForCausalLM",
    },
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "hidden_act": "silu",
}


def with_block(name: str) -> str:
    """A whole model whose experts are those of one of the pairs."""
    case = (CASES / "15_moe_custom_experts_attr" / "modeling_case.py").read_text()
    pair = (PAIRS / "experts_module" / f"{name}_before.py").read_text()
    block = pair[pair.index("\nclass ") : pair.index("\n\ndef build")]
    block = block.replace("TinyMoE", "OleaMLP").replace("Tiny", "Olea").strip()
    start, end = case.index("class OleaExpert"), case.index("class OleaAttention")
    text = f"{case[:start]}{block}\n\n\n{case[end:]}"
    return text.replace("import torch\n", "import torch\nimport torch.nn.functional as F\n", 1)


def write_repo(folder: Path, text: str, **settings: object) -> Path:
    folder.mkdir()
    (folder / "modeling_case.py").write_text(text)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **settings}))
    return folder


def repaired(folder: Path, unsafe: bool = True) -> tuple[Repair, str]:
    """What fixing does, and the fixed modeling file."""
    with Workshop(str(folder)) as copy:
        repair = prepare(str(folder), copy, unsafe=unsafe)
        return repair, Path(copy, "modeling_case.py").read_text()


def codes(repair: Repair) -> set[str]:
    return {finding.code for finding in repair.left}


# Whole models


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_becomes_experts_that_vllm_replaces(name: str, tmp_path: Path) -> None:
    folder = write_repo(tmp_path / f"repo_{name}", with_block(name))
    repair, new = repaired(folder, unsafe=False)
    assert repair.applied["MC401"] == 1, "safe, as config.json says silu"
    assert "MC401" not in codes(repair)
    assert "class OleaExperts(nn.ModuleList):" in new


@pytest.fixture
def float64() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    old = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield torch
    torch.set_default_dtype(old)


def built(text: str) -> Any:
    """A model of a modeling file, with two layers."""
    names: dict[str, Any] = {"__name__": "modeling_case"}
    text = text.replace("torch.float32", "torch.float64").replace(".float()", ".double()")
    exec(compile(text, "modeling_case.py", "exec"), names)
    settings = {k: v for k, v in CONFIG.items() if isinstance(v, int | str) and k != "model_type"}
    config = names["OleaConfig"](**settings, attn_implementation="eager")
    return names["OleaForCausalLM"](config)


@pytest.mark.parametrize("name", LOOPS)
def test_the_whole_model_computes_the_same(name: str, tmp_path: Path, float64: Any) -> None:
    folder = write_repo(tmp_path / f"repo_{name}", with_block(name))
    _, new = repaired(folder)
    float64.manual_seed(0)
    before, after = built(with_block(name)), built(new)
    assert set(before.state_dict()) == set(after.state_dict())
    after.load_state_dict(before.state_dict(), strict=True)
    ids = float64.randint(0, 50, (2, 9))
    for module in (before, after):
        module.eval()
    expected, actual = before(ids).logits, after(ids).logits
    float64.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["sorted", "put_back"])
def test_the_gradients_of_training_stay(name: str, float64: Any, run_fix: Any) -> None:
    text = (PAIRS / "experts_module" / f"{name}_before.py").read_text()
    header = {"class": "TinyMoE", "at": "class TinyMoE", "data": {"activation": "silu"}}
    gradients = []
    for source in (text, run_fix("experts_module", text, header)):
        names: dict[str, Any] = {"__name__": "modeling_tiny"}
        exec(compile(source, "modeling_tiny.py", "exec"), names)
        float64.manual_seed(0)
        model, (x,) = names["build"]()
        model.train()(x).square().sum().backward()
        gradients.append({n: p.grad for n, p in model.named_parameters()})
    old, new = gradients
    assert list(old) == list(new)
    assert any("gate.weight" in name and grad.abs().max() > 0 for name, grad in new.items())
    for name, grad in old.items():
        other = new[name]
        if grad is None:  # an expert that no token went to
            assert other is None or other.abs().max() == 0
            continue
        float64.testing.assert_close(other, grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["one_hot", "compared"])
def test_the_router_is_a_module_that_vllm_takes_over(name: str, tmp_path: Path) -> None:
    folder = write_repo(tmp_path / f"repo_{name}", with_block(name))
    repair, new = repaired(folder)
    assert repair.applied["MC402"] == 1
    assert codes(repair) & {"MC401", "MC402", "MC403"} == set()
    assert "class OleaRouter(nn.Module):" in new


def test_the_router_stays_where_vllm_would_route_otherwise(tmp_path: Path) -> None:
    folder = write_repo(tmp_path / "repo_other", with_block("hit"))  # does not renormalise
    repair, new = repaired(folder)
    reasons = [u.reason for _, u in repair.refused if u.code == "MC402"]
    assert reasons and reasons[0].startswith("vLLM would route otherwise: the router does not")
    assert "OleaRouter" not in new
    folder = write_repo(tmp_path / "repo_same", with_block("hit"), norm_topk_prob=False)
    repair, new = repaired(folder)
    assert "class OleaRouter(nn.Module):" in new


LAYER = """
class TinyLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.moe = TinyMoE(config)

    def forward(self, hidden_states, output_router_logits=False):
        residual = hidden_states
        hidden_states, router_logits = self.moe(hidden_states)
        outputs = (residual + hidden_states,)
        if output_router_logits:
            outputs += (router_logits,)
        return outputs


class TinyPreTrainedModel(nn.Module):
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            module.weight.data.normal_(mean=0.0, std=0.02)
            if module.bias is not None:
                module.bias.data.zero_()
        elif isinstance(module, nn.Embedding):
            module.weight.data.normal_(mean=0.0, std=0.02)
"""
CHECKED = """        hidden_states = self.moe(hidden_states)
        if isinstance(hidden_states, tuple):
            hidden_states, router_logits = hidden_states
        else:
            router_logits = None
"""
ROUTER = {"class": "TinyMoE", "at": "class TinyMoE"}


def with_layer(checked: bool) -> str:
    text = (PAIRS / "router_module" / "named_scores_before.py").read_text()
    text = text.replace("out.view_as(hidden_states)", "out.view_as(hidden_states), router_logits")
    at = text.index("\n\ndef build")
    layer = LAYER
    if checked:
        plain = "        hidden_states, router_logits = self.moe(hidden_states)\n"
        layer = layer.replace(plain, CHECKED)
    return text[:at] + "\n" + layer + text[at:].replace("TinyMoE(config)", "TinyLayer(config)")


@pytest.mark.parametrize("checked", [False, True])
def test_a_layer_asks_the_router_for_the_logits(checked: bool, float64: Any, run_fix: Any) -> None:
    text = with_layer(checked)
    new = run_fix("router_module", text, ROUTER)
    assert "return out.view(hidden_states.shape)\n" in new
    assert "elif isinstance(module, TinyRouter):" in new
    outputs = []
    for source in (text, new):
        names: dict[str, Any] = {"__name__": "modeling_tiny"}
        exec(compile(source, "modeling_tiny.py", "exec"), names)
        float64.manual_seed(0)
        model, (x,) = names["build"]()
        outputs.append((model, x))
    (old, x), (now, _) = outputs
    now.load_state_dict(old.state_dict(), strict=True)
    for asked in (False, True):
        expected, actual = old(x, asked), now(x, asked)
        assert len(expected) == len(actual) == 1 + asked
        for one, other in zip(expected, actual, strict=True):
            float64.testing.assert_close(other, one, rtol=1e-12, atol=1e-14)


def test_a_layer_that_always_uses_the_logits_is_refused(run_fix: Any) -> None:
    text = with_layer(False).replace(
        "        if output_router_logits:\n    ", "        if True:\n    "
    )
    with pytest.raises(fixers.FixRefused, match="uses the logits without being asked"):
        run_fix("router_module", text, ROUTER)


def test_the_router_is_initialised_as_the_gate_was(float64: Any, run_fix: Any) -> None:
    new = run_fix("router_module", with_layer(False), ROUTER)
    names: dict[str, Any] = {"__name__": "modeling_tiny"}
    exec(compile(new, "modeling_tiny.py", "exec"), names)
    model, _ = names["build"]()
    gate = model.moe.gate
    assert gate.weight.abs().max() > 0, "not left as torch.empty made it"
    gate.weight.data.fill_(100.0)
    names["TinyPreTrainedModel"]()._init_weights(gate)
    assert 0 < gate.weight.abs().max() < 1


# Rules and tiers


def found(code: str, text: str, settings: dict[str, object] | None = None) -> list[Finding]:
    file = ProjectIndex().add(parse_text("modeling_toy.py", text))
    repo = None
    if settings is not None:
        repo = Repo(Path("."), "config.json", json.dumps(settings), settings, ())
    context = Context(file, repo, contract_for(None))
    return list(rule_named(code).check(context))


def fix_of(code: str, text: str, settings: dict[str, object] | None = None) -> Fix | None:
    (finding,) = found(code, text, settings)
    return finding.fix


def test_an_activation_by_default_only_is_an_assumption() -> None:
    text = with_block("compared")
    assert fix_of("MC401", text, CONFIG).safety is Safety.SAFE  # type: ignore[union-attr]
    alone = fix_of("MC401", text)
    assert alone is not None and alone.safety is Safety.UNSAFE
    literal = text.replace("ACT2FN[config.hidden_act]", 'ACT2FN["silu"]')
    assert fix_of("MC401", literal).safety is Safety.SAFE  # type: ignore[union-attr]
    other = fix_of("MC401", text, {**CONFIG, "hidden_act": "gelu"})
    assert other is not None and other.data["activation"] == "gelu"


def test_a_router_is_offered_once_the_experts_are_a_module() -> None:
    text = with_block("compared")
    assert fix_of("MC402", text, CONFIG) is None
    header = Finding(
        "MC401", Severity.ERROR, "modeling_toy.py", Span(1), "OleaMLP", "", "",
        Fix("experts_module", "", data={"activation": "silu"}),
    )  # fmt: skip
    fixed = fixers.load("experts_module").fix(text, header)
    offered = fix_of("MC402", fixed, CONFIG)
    assert offered is not None and offered.safety is Safety.UNSAFE


SLICED = """
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(self, hidden_size=64, intermediate_size=128, pretraining_tp=1, **kwargs):
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.pretraining_tp = pretraining_tp
        super().__init__(**kwargs)


class ToyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = ACT2FN["silu"]

    def forward(self, x):
        if self.config.pretraining_tp > 1:
            down = sum(self.act_fn(x @ w.T) for w in self.gate_proj.weight.split(2))
        else:
            down = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return down


class ToyModel(PreTrainedModel):
    config_class = ToyConfig

    def __init__(self, config):
        super().__init__(config)
        self.mlp = ToyMLP(config)
"""


def test_slices_go_safely_where_the_configuration_says_one() -> None:
    one = fix_of("MC603", SLICED, {"model_type": "toy", "pretraining_tp": 1})
    default = fix_of("MC603", SLICED, {"model_type": "toy"})
    assert one is not None and one.safety is Safety.SAFE
    assert default is not None and default.safety is Safety.SAFE, "this repository's default"
    unknown = fix_of("MC603", SLICED)
    assert unknown is not None and unknown.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    "name", [p.name for p in sorted((PAIRS / "packed_qkv").glob("*_before.py"))]
)
def test_every_packed_spelling_is_reported_and_then_no_more(name: str) -> None:
    text = (PAIRS / "packed_qkv" / name).read_text()
    assert len(found("MC702", text)) == 1
    assert (
        found("MC702", (PAIRS / "packed_qkv" / name.replace("before", "after")).read_text()) == []
    )


@pytest.mark.parametrize("name", ["interleaved", "interleaved_index"])
def test_interleaved_rows_are_no_packed_projection(name: str) -> None:
    assert found("MC702", (PAIRS / "packed_qkv" / f"{name}_refused.py").read_text()) == []


def test_the_mixin_of_generation_is_missed_only_without_it() -> None:
    text = rule_named("MC912").sections["Example"].strip("`").removeprefix("python")
    assert [f.class_name for f in found("MC912", text)] == ["MyForCausalLM"]
    mixed = text.replace("(PreTrainedModel)", "(GenerationMixin, PreTrainedModel)")
    assert found("MC912", mixed) == []
    assert found("MC912", text.replace("(PreTrainedModel)", "(LlamaPreTrainedModel)")) == []


@pytest.mark.parametrize(
    ("case", "applied"),
    [
        ("13_packed_gate_up_chunk", "MC801"),
        ("21_scaled_embedding_in_forward", "MC204"),
    ],
)
def test_shared_cases(case: str, applied: str, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "modeling_case.py").write_text((CASES / case / "modeling_case.py").read_text())
    repair, _ = repaired(folder)
    assert repair.applied[applied] == 1
    assert applied not in codes(repair)


@pytest.mark.usefixtures("module_cache")
def test_renamed_experts_keep_their_checkpoints(tmp_path: Path) -> None:
    torch, auto = pytest.importorskip("torch"), pytest.importorskip("transformers")
    text = (CASES / "15_moe_custom_experts_attr" / "modeling_case.py").read_text()
    old = write_repo(tmp_path / "renamed_old", text)
    repair, fixed = repaired(old)
    assert repair.applied == {"MC401": 1, "MC402": 1}
    assert codes(repair) == set()
    new = write_repo(tmp_path / "renamed_new", fixed)

    def saved(folder: Path) -> set[str]:
        from safetensors import safe_open

        with safe_open(folder / "model.safetensors", "pt") as file:
            return set(file.keys())

    config = auto.AutoConfig.from_pretrained(old, trust_remote_code=True)
    before = auto.AutoModelForCausalLM.from_config(config, trust_remote_code=True).eval()
    before.save_pretrained(tmp_path / "weights")
    (tmp_path / "weights" / "model.safetensors").rename(new / "model.safetensors")
    names = saved(new)
    after = auto.AutoModelForCausalLM.from_pretrained(new, trust_remote_code=True).eval()
    ids = torch.randint(0, 50, (2, 9))
    torch.testing.assert_close(after(ids).logits, before(ids).logits, rtol=1e-5, atol=1e-5)
    after.save_pretrained(tmp_path / "again")
    assert saved(tmp_path / "again") == names
    assert any(".expert_mlps." in name for name in names)


def test_renaming_is_never_done_unasked(tmp_path: Path) -> None:
    text = (CASES / "15_moe_custom_experts_attr" / "modeling_case.py").read_text()
    repair, new = repaired(write_repo(tmp_path / "repo", text), unsafe=False)
    assert new == text
    assert codes(repair) == {"MC401", "MC402"}


def test_latent_attention_gets_its_method(tmp_path: Path) -> None:
    case = CASES / "17_mla_inline_expansion" / "modeling_case.py"
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "modeling_case.py").write_text(case.read_text())
    repair, new = repaired(folder)
    assert repair.applied == {"MC703": 1}
    assert codes(repair) == set()
    assert "key, value = self.expand_kv(kv_latent, k_rope)" in new
