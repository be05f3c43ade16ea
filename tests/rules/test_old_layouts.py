"""What rules know of old models: copies of settings, buffers made by methods, windows by layer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from modelcheck.findings import Finding, Safety, Severity
from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import Context, rule_named
from modelcheck.rules.qkv._own_sequence import own_sequence
from modelcheck.scan import Scanner, Selection
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.text import parse_text

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
MODEL = """
from transformers import PretrainedConfig, PreTrainedModel
class C(PretrainedConfig):
    def __init__(self, rope_theta=1.0, rope_scaling=None, **kwargs):
        BEFORE
        super().__init__(**kwargs)
class M(PreTrainedModel):
    config_class = C
    def __init__(self, config):
        super().__init__(config)
        BODY
        self.post_init()
"""


def model(
    body: str, before: str = "self.rope_theta = rope_theta; self.rope_scaling = rope_scaling"
) -> str:
    return MODEL.replace("BEFORE", before).replace("BODY", body)


def found(code: str, text: str) -> list[Finding]:
    file = ProjectIndex().add(parse_text("modeling_toy.py", text))
    return list(rule_named(code).check(Context(file, None, contract_for(None))))


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def example(code: str) -> str:
    match = BLOCK.search(rule_named(code).sections["Example"])
    assert match is not None
    return match[1]


COPY = "self.rope_scaling = {}\n        "
READ = "self.t = 'd' if self.rope_scaling is None else config.rope_scaling['type']"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (model(COPY.format("config.rope_scaling") + READ), 1),
        (model(COPY.format("config.other") + READ), 0),
        (model(READ), 0),
    ],
)
def test_a_copy_of_the_rope_settings(text: str, count: int) -> None:
    assert len(found("MC903", text)) == count


def test_vllm_fills_the_settings_of_either_base() -> None:
    read = "self.t = 'd' if config.rope_scaling is None else config.rope_scaling['type']"
    assert found("MC903", model(read, "self.rotary_emb_base = 1; self.rope_scaling = rope_scaling"))
    # transformers itself fills what is there when the base class's constructor runs
    assert found("MC903", model(read, "self.base = 1; self.rope_scaling = rope_scaling"))
    late = changed(
        model(read, "self.base = 1"),
        ("**kwargs)\nclass M", "**kwargs)\n        self.rope_scaling = rope_scaling\nclass M"),
    )
    assert not found("MC903", late)


def test_a_filled_rope_scaling_has_no_factor() -> None:
    read = "self.f = 1 if config.rope_scaling is None else config.rope_scaling['factor']"
    (one,) = found("MC903", model(read))
    assert "no factor" in one.message
    assert not found("MC903", model(read.replace("['factor']", ".get('factor')")))


MADE = """
import torch
from torch import nn
from transformers import PreTrainedModel


class Table(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.make(size)

    def make(self, size):
        self.register_buffer("rows", torch.arange(size) * 0.5, persistent=False)

    def forward(self, x):
        if x.shape[1] > self.rows.shape[0]:
            self.make(x.shape[1])
        return self.rows[: x.shape[1]]


class M(PreTrainedModel):
    def _init_weights(self, module):
        pass
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("        if x.shape[1] > self.rows.shape[0]:\n    ", "", 0),  # made at every call
        ("pass", "module.make(3)", 0),
        ("persistent=False", "persistent=True", 0),
        ("self.make(size)\n", "self.size = size\n", 0),  # not by the constructor
    ],
)
def test_a_buffer_that_a_method_makes(old: str, new: str, count: int) -> None:
    assert len(found("MC907", MADE.replace(old, new, 1) if old else MADE)) == count


COMPOSED = """
from transformers import PretrainedConfig, PreTrainedModel


class Config(PretrainedConfig):
    def __init__(self, attn_config=None, **kwargs):
        self.attn_config = attn_config
        super().__init__(**kwargs)


class M(PreTrainedModel):
    config_class = Config

    def __init__(self, config{}):
        super().__init__(config)
        self.padding = config.pad_token_id
        self.post_init()
"""


def test_a_composed_configuration_that_a_class_names() -> None:
    assert len(found("MC909", COMPOSED.format(": Config"))) == 1
    assert not found("MC909", COMPOSED.format(""))


def scanned(folder: Path, code: str) -> list[Finding]:
    scanner = Scanner(contract_for(None), Selection(select=(code,)))
    return list(scanner.scan([str(folder)]).findings)


MASK = "        hidden_states = inputs_embeds\n"


def test_a_causal_model_whose_attention_says_that_it_is_not(tmp_path: Path) -> None:
    text = changed(example("MC114"), ("self.cap = ", "self.is_causal = False\n        self.cap = "))
    path = tmp_path / "modeling_toy.py"
    for name, count in (("prepare_causal_mask", 1), ("prepare_mask", 0)):
        path.write_text(changed(text, (MASK, f"{MASK}        mask = {name}(inputs_embeds)\n")))
        assert len(scanned(path, "MC113")) == count


WINDOWED = (
    ("self.attention_cap = 50.0", "self.sliding_window = 64"),
    ("self.cap = config.attention_cap", "self.window = {}"),
    ("softcap=self.cap", "sliding_window=self.window"),
)
MAP = {"AutoConfig": "modeling_toy.ToyConfig", "AutoModel": "modeling_toy.ToyModel"}
BY_INDEX = "config.sliding_window if layer_idx % 2 else None"
BY_LIST = "64 if config.kinds[layer_idx] == 'local' else None"


@pytest.mark.parametrize(
    ("window", "config", "kinds"),
    [
        (BY_INDEX, {"num_hidden_layers": 5}, "FSFSF"),
        (BY_INDEX.replace("layer_idx % 2", "not bool(layer_idx % 3)"), {}, "SFFS"),
        (BY_INDEX, {"num_hidden_layers": 30}, "FS" * 15),
        (BY_LIST, {"kinds": ["local", "global", "global", "local"]}, "SFFS"),
        ("config.sliding_window", {}, ""),
        (BY_INDEX, {"layer_types": ["full_attention", "sliding_attention"] * 2}, ""),
        (BY_INDEX.replace("layer_idx % 2", "layer_idx in config.some"), {"some": [1]}, ""),
    ],
)
def test_windows_for_config_json(
    tmp_path: Path, window: str, config: dict[str, Any], kinds: str
) -> None:
    pairs = [(old, new.format(window)) for old, new in WINDOWED]
    (tmp_path / "modeling_toy.py").write_text(changed(example("MC114"), *pairs))
    given = {"model_type": "toy", "auto_map": MAP, **config}
    (tmp_path / "config.json").write_text(json.dumps(given))
    findings = [f for f in scanned(tmp_path, "MC114") if f.path.endswith("config.json")]
    names = {"F": "full_attention", "S": "sliding_attention"}
    wanted = [[names[letter] for letter in kinds]] if kinds else []
    fixes = [json.loads(f.fix.data["fields"]) for f in findings if f.fix is not None]
    assert [fields["layer_types"] for fields in fixes] == wanted
    assert all(fields["sliding_window"] == 64 for fields in fixes)
    assert all(f.severity is Severity.WRONG for f in findings)
    assert all(f.fix and f.fix.safety is Safety.UNSAFE for f in findings)


@pytest.mark.parametrize(
    ("extra", "config", "count"),
    [
        ("", {"sliding_window": 64}, 1),
        ("", {"sliding_window": None}, 0),
        ("", {}, 0),
        ("", {"sliding_window": 64, "layer_types": ["full_attention"] * 4}, 0),
        (
            '\n\ndef mask(config):\n    return getattr(config, "sliding_window")\n',
            {"sliding_window": 64},
            0,
        ),
    ],
)
def test_a_window_that_only_the_configuration_knows(
    tmp_path: Path, extra: str, config: dict[str, Any], count: int
) -> None:
    pairs = (
        ("softcap=self.cap,", ""),
        ("num_hidden_layers=4,", "num_hidden_layers=4, sliding_window=None,"),
        ("self.attention_cap", "self.sliding_window = sliding_window; self.attention_cap"),
    )
    (tmp_path / "modeling_toy.py").write_text(changed(example("MC114"), *pairs) + extra)
    given = {"model_type": "toy", "auto_map": MAP, **config}
    (tmp_path / "config.json").write_text(json.dumps(given))
    assert len(scanned(tmp_path, "MC114")) == count


CROSS = """
import torch
from torch import nn


class ToyAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim = 8
        self.q_proj = nn.Linear(16, 16)
        self.k_proj = nn.Linear(16, 16)
        self.v_proj = nn.Linear(16, 16)
        self.o_proj = nn.Linear(16, 16)

    def forward(self, hidden_states, key_value_states=None, mask=None):
        crosses = key_value_states is not None
        query = self.q_proj(hidden_states)
        if crosses:
            key, value = self.k_proj(key_value_states), self.v_proj(key_value_states)
        else:
            key, value = self.k_proj(hidden_states), self.v_proj(hidden_states)
        weights = torch.softmax(query @ key.transpose(1, 2), dim=-1)
        return self.o_proj(weights @ value)


class ToyLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = ToyAttention()

    def forward(self, hidden_states, mask=None):
        return self.attention(hidden_states, mask=mask)
"""


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ("mask=mask", True),
        ("key_value_states=None, mask=mask", False),
        ("hidden_states, mask", False),
    ],
)
def test_a_sequence_that_nothing_gives(given: str, offered: bool) -> None:
    text = changed(CROSS, ("hidden_states, mask=mask", f"hidden_states, {given}"))
    file = ProjectIndex().add(parse_text("modeling_toy.py", text))
    context = Context(file, None, contract_for(None))
    fix = own_sequence(context, file.classes["ToyAttention"])
    assert (fix is not None) == offered
    assert fix is None or (fix.fixer, fix.safety) == ("own_sequence", Safety.UNSAFE)


@pytest.mark.parametrize(
    ("call", "offered"),
    [
        ("self.encoder_attn(hidden, key_value_states=other)", True),
        ("self.encoder_attn(hidden, other)", True),
        ("self.encoder_attn(hidden, mask=mask)", False),  # then nothing crosses
        ("self.attention(hidden, key_value_states=other)", False),  # one for both
        ("self.encoder_attn", False),  # nobody knows what is done with it
    ],
)
def test_an_attention_of_both_kinds(call: str, offered: bool) -> None:
    text = changed(
        CROSS,
        ("ToyAttention()\n", "ToyAttention()\n        self.encoder_attn = ToyAttention()\n"),
        (
            "        return self.attention(hidden_states, mask=mask)",
            f"        hidden = self.attention(hidden_states, mask=mask)\n        return {call}",
        ),
        ("(self, hidden_states, mask=None)", "(self, hidden_states, other, mask=None)"),
    )
    file = ProjectIndex().add(parse_text("modeling_toy.py", text))
    context = Context(file, None, contract_for(None))
    fix = own_sequence(context, file.classes["ToyAttention"])
    found = fix is not None and fix.fixer == "cross_attention_class"
    assert found == offered
    if fix is not None and found:
        assert fix.safety is Safety.UNSAFE
        assert fix.data == {"argument": "key_value_states", "attributes": "encoder_attn"}
        assert fix.title.startswith("give encoder_attn a class of its own")


TABLE = """

class Rotary(nn.Module):
    def forward(self, x, seq_len=None):
        return self.cos[:seq_len], self.sin[:seq_len]
"""


@pytest.mark.parametrize(("extra", "safety"), [("", Safety.SAFE), (TABLE, Safety.UNSAFE)])
def test_positions_may_change_a_rotary_table(extra: str, safety: Safety) -> None:
    text = example("MC302") + extra
    (finding,) = found("MC302", text)
    assert finding.fix is not None and finding.fix.safety is safety
