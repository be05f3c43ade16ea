"""Attention to the interface: whole models through the fix loop, tables, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import fixers
from modelcheck.findings import Finding, Fix, Severity, Span
from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import Context, rule_named
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.repo import Repo
from modelcheck.source.text import parse_text

ROOT = Path(__file__).parents[2]
CASES = ROOT / "fixtures" / "cases"
PAIRS = ROOT / "fixtures" / "fixers" / "attention_to_interface"
IDS = [[3, 17, 42, 9, 5, 28, 11]]


def fix(stem: str, text: str, name: str, **data: str) -> str:
    found = Finding(
        "MC999", Severity.ERROR, "m.py", Span(1), name, "m", "a", Fix(stem, "t", data=data)
    )
    return fixers.load(stem).fix(text, found)


def modelcheck(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modelcheck", "scan", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def execute(text: str, name: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def logits(module: types.ModuleType, prefix: str, implementation: str) -> Any:
    import torch

    config = getattr(module, f"{prefix}Config")()
    torch.manual_seed(0)
    model_class = getattr(module, f"{prefix}ForCausalLM")
    model = model_class._from_config(config, attn_implementation=implementation).eval()
    with torch.no_grad():
        whole = model(input_ids=torch.tensor(IDS), use_cache=False).logits
        tokens = model.generate(torch.tensor(IDS), max_new_tokens=5, do_sample=False)
    return whole, tokens, list(model.state_dict())


@pytest.mark.parametrize(
    ("folder", "prefix"),
    [("02_inline_sdpa_attention", "Birch"), ("03_attn_class_registry", "Cedar")],
)
def test_a_whole_model_is_fixed_and_computes_the_same(
    folder: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    old = (CASES / folder / "modeling_case.py").read_text()
    target = tmp_path / "modeling_case.py"
    target.write_text(old)
    before = modelcheck(str(target))
    assert "MC101" in before.stdout or "MC102" in before.stdout
    run = modelcheck(str(target), "--fix", "--unsafe-fixes")
    assert run.returncode == 0, run.stdout + run.stderr
    new = target.read_text()
    assert new.count("def eager_attention") == 1
    assert "ATTENTION_CLASSES" not in new and "SdpaAttention" not in new
    for implementation in ("eager", "sdpa"):
        one = logits(execute(old, "before", monkeypatch), prefix, implementation)
        two = logits(execute(new, "after", monkeypatch), prefix, implementation)
        assert one[2] == two[2]
        assert torch.equal(one[1], two[1])
        if implementation == "eager":
            assert torch.equal(one[0], two[0])
        torch.testing.assert_close(one[0], two[0], rtol=1e-4, atol=1e-5)
    again = modelcheck(str(target), "--fix", "--unsafe-fixes")
    assert again.returncode == 0 and target.read_text() == new


TABLE = """

class TinySdpaAttention(TinyAttention):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.flag = True

    # only the kernel differs
    def forward(self, hidden_states, attention_mask=None, **kwargs):
        return _sdpa_extra(hidden_states)


TINY_ATTENTION_CLASSES = {"eager": TinyAttention, "sdpa": TinySdpaAttention}


class TinyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        name = config._attn_implementation
        self.self_attn = TINY_ATTENTION_CLASSES[name](config, layer_idx)
"""


def with_table(extra: str = "") -> str:
    text = (PAIRS / "llama_before.py").read_text().partition("\n")[2]
    text = text.replace("import math\n", "import math\n\nfrom extra import _sdpa_extra\n")
    return text + TABLE + extra


def test_a_table_goes_with_its_classes_and_their_imports() -> None:
    text = with_table()
    fixed = fix("attention_class_table", text, "TinyLayer", table="TINY_ATTENTION_CLASSES")
    assert "self.self_attn = TinyAttention(config, layer_idx)" in fixed
    for gone in ("TinySdpaAttention", "TINY_ATTENTION_CLASSES", "_sdpa_extra", "only the kernel"):
        assert gone not in fixed
    kept = text.partition("\n\nclass TinySdpaAttention")[0]
    assert fixed.startswith(kept.replace("\nfrom extra import _sdpa_extra\n", ""))


def test_a_class_of_the_table_that_is_used_elsewhere_stays() -> None:
    text = with_table("\n\nOTHER = TinySdpaAttention\n")
    fixed = fix("attention_class_table", text, "TinyLayer", table="TINY_ATTENTION_CLASSES")
    assert "class TinySdpaAttention" in fixed and "TINY_ATTENTION_CLASSES" not in fixed


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("self.flag = True", "self.more = nn.Linear(2, 2)", "TinySdpaAttention adds modules"),
        ("class TinySdpaAttention(TinyAttention)", "class TinySdpaAttention(nn.Module)", "TinySd"),
        ('"eager": TinyAttention', '"flash": TinyAttention', "TINY_ATTENTION_CLASSES has no entry"),
        (
            "attn_weights = attn_weights + causal_mask",
            "attn_weights = attn_weights + causal_mask + self.slopes",
            "TinyAttention would not reach the interface",
        ),
    ],
)
def test_a_table_is_refused(old: str, new: str, reason: str) -> None:
    text = with_table()
    assert text.count(old) == 1
    with pytest.raises(fixers.FixRefused, match=reason) as caught:
        name = "TINY_ATTENTION_CLASSES"
        fix("attention_class_table", text.replace(old, new), "TinyLayer", table=name)
    assert caught.value.line


LLAMA_REFUSED = [
    # a bias in the scores, of the module or an argument
    ("attn_weights + causal_mask", "attn_weights + self.slopes", "self.slopes is added"),
    ("attn_weights + causal_mask", "attn_weights + alibi", "alibi"),
    # a factor that depends on the length
    (
        "/ math.sqrt(self.head_dim)",
        "/ math.sqrt(self.head_dim) * torch.log(query.float())",
        "the query is used in another way",
    ),
    ("/ math.sqrt(self.head_dim)", "/ math.sqrt(q_len)", "attention reads q_len|the scale"),
    # weights that are more than returned
    ("return attn_output, attn_weights", "return attn_output * attn_weights.sum()", "the weights"),
    # not over the last dimension, not the product
    ("dim=-1, dtype=torch.float32", "dim=2, dtype=torch.float32", "softmax is not over"),
    ("torch.matmul(attn_weights, value)", "torch.matmul(attn_weights, query)", "is no product of"),
    ("key.transpose(2, 3)", "key.transpose(1, 3)", "the key is transposed"),
    # other keys and values
    ("value = repeat_kv(value", "value = value.repeat(1, 4, 1, 1)[:, :8] + (value", "keys are"),
    ("key = repeat_kv(key, self.groups)", "key = other(key, self.groups)", "only the value is"),
    # softmax of something else
    ("nn.functional.softmax(attn_weights", "nn.functional.softmax(attn_weights**2", "score matrix"),
    # a mask that is no sum
    (
        "attn_weights + causal_mask",
        "attn_weights.masked_fill(causal_mask, -1e9)",
        "causal_mask is not shown",
    ),
]


@pytest.mark.parametrize(("old", "new", "reason"), LLAMA_REFUSED)
def test_what_is_more_than_attention_is_refused(old: str, new: str, reason: str) -> None:
    text = (PAIRS / "llama_before.py").read_text()
    assert text.count(old) == 1
    with pytest.raises(fixers.FixRefused, match=reason) as caught:
        fix("attention_to_interface", text.replace(old, new), "TinyAttention")
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("torch.tril(torch.ones((16, 16)", "torch.tril(torch.eye((16)", "plain causal mask"),
        ("weights = weights * head_mask", "weights = weights + head_mask", "combined"),
        ("beta=1.0", "out=query", "other arguments"),
    ],
)
def test_a_helper_is_refused(old: str, new: str, reason: str) -> None:
    text = (PAIRS / "helper_before.py").read_text()
    assert text.count(old) == 1
    with pytest.raises(fixers.FixRefused, match=reason):
        fix("attention_to_interface", text.replace(old, new), "TinyAttention")


def test_cross_attention_is_refused() -> None:
    text = (PAIRS / "kernel_before.py").read_text()
    text = text.replace(
        "attention_mask=None, **kw", "key_value_states=None, attention_mask=None, **kw"
    )
    text = text.replace("self.k_proj(hidden_states)", "self.k_proj(key_value_states)")
    with pytest.raises(fixers.FixRefused, match="another sequence"):
        fix("attention_to_interface", text, "TinyAttention")


def test_the_softcap_of_the_config_is_passed_on() -> None:
    text = (PAIRS / "llama_before.py").read_text()
    cap = "self.config.attn_logit_softcapping"
    capped = f"""        if {cap} is not None:
            attn_weights = attn_weights / {cap}
            attn_weights = torch.tanh(attn_weights)
            attn_weights = attn_weights * {cap}

        if attention_mask is not None:  # additive"""
    text = text.replace("        if attention_mask is not None:  # additive", capped)
    assert f"softcap={cap}" in fix("attention_to_interface", text, "TinyAttention")
    with pytest.raises(fixers.FixRefused, match="capped by"):
        other = text.replace(cap, "self.config.my_cap")
        fix("attention_to_interface", other, "TinyAttention")


RELATIVE = (PAIRS / "relative_before.py").read_text()


def relative(settings: str) -> str:
    return fix("attention_to_interface", RELATIVE, "TinySelfAttention", settings=settings)


@pytest.mark.parametrize("settings", ["{}", '{"position_embedding_type": "relative_key"}'])
def test_relative_positions_are_kept_where_they_may_be_used(settings: str) -> None:
    with pytest.raises(fixers.FixRefused, match="einsum is not understood"):
        relative(settings)


def test_settings_whose_branch_went_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import PretrainedConfig

    module = execute(relative('{"position_embedding_type": "absolute"}'), "relative", monkeypatch)
    config = PretrainedConfig(hidden_size=16, num_attention_heads=4, is_decoder=False)
    config.is_decoder = False
    assert module.TinySelfAttention(config).is_causal is False
    config.position_embedding_type = "relative_key"
    with pytest.raises(NotImplementedError, match="cannot add this to its scores"):
        module.TinySelfAttention(config)


def test_the_rule_says_what_the_settings_are() -> None:
    settings = {"position_embedding_type": "relative_key"}
    file = ProjectIndex().add(parse_text("modeling_m.py", RELATIVE))
    repo = Repo(Path("."), "config.json", json.dumps(settings), settings, ())
    for given, data in ((None, {}), (repo, {"settings": json.dumps(settings)})):
        context = Context(file, given, contract_for(None))
        (finding,) = [f for f in rule_named("MC101").check(context) if "Tiny" in f.class_name]
        assert finding.fix is not None and finding.fix.data == data
