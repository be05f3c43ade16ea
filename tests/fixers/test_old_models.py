"""Forms that old models have: positions counted in the mask or by an offset, helpers, no config."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import fixers

torch = pytest.importorskip("torch")

Run = Callable[[str, str, dict[str, Any]], str]
HEAD = """import torch
from torch import nn
from transformers.modeling_utils import PreTrainedModel


"""
BY_MASK = (
    HEAD
    + '''class Table(nn.Embedding):
    def forward(self, attention_mask, past=0):
        """A row for each token that is no padding."""
        attention_mask = attention_mask.long()

        # counted in the mask
        positions = (torch.cumsum(attention_mask, dim=1) * attention_mask) - 1
        positions = positions[:, past:]
        return super().forward(positions + 2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(16, 8)
        self.places = Table(16, 8)

    def forward(self, input_ids, attention_mask=None):
        embeds = self.tokens(input_ids)
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        return embeds + self.places(attention_mask, 0)
'''
)
BY_OFFSET = (
    HEAD
    + """class Rotary(nn.Module):
    def __init__(self, dim, most=16, device=None):
        super().__init__()
        inv_freq = 1.0 / (100 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self._fill(seq_len=most, device=device)

    def _fill(self, seq_len, device):
        self.most = seq_len
        t = torch.arange(self.most, device=device).type_as(self.inv_freq)
        freqs = torch.outer(t, self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        self.register_buffer("cos_cached", emb.cos(), persistent=False)
        self.register_buffer("sin_cached", emb.sin(), persistent=False)

    def forward(self, x, seq_len=None):
        if seq_len > self.most:
            self._fill(seq_len=seq_len, device=x.device)
        return self.cos_cached[:seq_len], self.sin_cached[:seq_len]


def rotate_half(x):
    one, two = x.chunk(2, dim=-1)
    return torch.cat((-two, one), dim=-1)


def rotate(q, k, cos, sin, offset: int = 0):
    cos = cos[..., offset : q.shape[-2] + offset, :]
    sin = sin[..., offset : q.shape[-2] + offset, :]
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.rotary_emb = Rotary(4)

    def forward(self, hidden, layer_past=None):
        query = key = hidden.view(*hidden.shape[:2], 2, 4).transpose(1, 2)
        offset = 0 if layer_past is None else layer_past
        seq_len = key.shape[-2]
        seq_len += offset
        cos, sin = self.rotary_emb(key, seq_len=seq_len)
        query, key = rotate(query, key, cos, sin, offset=offset)
        return (query + 2 * key).transpose(1, 2).flatten(2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()

    def forward(self, hidden, layer_past=None):
        return hidden + self.attention(hidden, layer_past=layer_past)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(16, 8)
        self.layers = nn.ModuleList([Layer() for _ in range(2)])

    def forward(self, input_ids, layer_past=None):
        hidden = self.tokens(input_ids)
        for layer in self.layers:
            hidden = layer(hidden, layer_past=layer_past)
        return hidden
"""
)


def model(text: str) -> Any:
    names: dict[str, Any] = {"__name__": "modeling_tiny"}
    exec(compile(text, "modeling_tiny.py", "exec"), names)
    torch.manual_seed(0)
    return names["Model"]()


def with_positions(run_fix: Run, text: str) -> str:
    data = {"missing": "position_ids"}
    return run_fix("base_forward", text, {"class": "Model", "at": "class Model", "data": data})


@pytest.mark.parametrize(("text", "past"), [(BY_MASK, {}), (BY_OFFSET, {"layer_past": 3})])
def test_positions_may_be_given(run_fix: Run, text: str, past: dict[str, int]) -> None:
    new = with_positions(run_fix, text)
    old, fixed = model(text), model(new)
    assert old.state_dict().keys() == fixed.state_dict().keys()
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9]])
    for given in ({}, past):
        assert torch.equal(old(tokens, **given), fixed(tokens, **given))
    parts = torch.tensor([[0, 1, 2, 0, 1, 2]])  # two sequences in one row
    packed = fixed(tokens, position_ids=parts)
    assert torch.equal(packed[:, :3], old(tokens[:, :3]))
    assert torch.equal(packed[:, 3:], old(tokens[:, 3:]))


def test_the_table_is_left_where_it_is_not_understood(run_fix: Run) -> None:
    odd = BY_MASK.replace("positions = positions[:, past:]", "self.last = positions")
    with pytest.raises(fixers.FixRefused, match="counts positions in a way not understood"):
        with_positions(run_fix, odd.replace("positions + 2", "positions + attention_mask"))
    odd = BY_OFFSET.replace("cos = cos[..., offset :", "cos = cos[..., 1 + offset :")
    with pytest.raises(fixers.FixRefused, match="not clear where the forward counts"):
        with_positions(run_fix, odd)


HELPER = (
    HEAD.replace("import torch\n", "import numpy as np\nimport torch\n", 1)
    + """def attend(q, k, v, mask, attention_mask=None):
    # scores
    scores = torch.matmul(q, k.permute(0, 1, 3, 2))
    dk = k.shape[-1]
    scores = scores / np.sqrt(dk)
    if mask is not None:
        rows, columns = scores.size(-2), scores.size(-1)
        scores += mask[columns - rows : columns, :columns] * -1e4
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = torch.softmax(scores, dim=-1)
    output = torch.matmul(weights, v)
    return output, weights


class Attention(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.depth = int(width / self.num_heads)
        self.w = nn.Linear(width, 3 * width)

    def heads(self, x, batch):
        return x.reshape(batch, -1, self.num_heads, self.depth).permute([0, 2, 1, 3])

    def forward(self, x, mask, attention_mask=None):
        batch = x.shape[0]
        q, k, v = self.w(x).chunk(3, dim=-1)
        q = self.heads(q, batch)
        k = self.heads(k, batch)
        v = self.heads(v, batch)
        output = attend(q, k, v, mask, attention_mask)
        scaled = output[0].permute([0, 2, 1, 3])
        weights = output[1]
        return scaled.reshape(batch, -1, 8), weights


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([Attention(config.hidden_size, 2) for _ in range(2)])

    def forward(self, x):
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1]), 1)
        for layer in self.layers:
            x = x + layer(x, mask)[0]
        return x
"""
)


def test_a_helper_without_the_module_and_a_class_without_configuration(run_fix: Run) -> None:
    from transformers import PretrainedConfig

    new = run_fix("attention_to_interface", HELPER, {"class": "Attention", "at": "class Att"})
    assert "def attend(" not in new and "output[0]" not in new
    assert "Attention(config.hidden_size, 2, config=config)" in new
    results = []
    for text in (HELPER, new):
        names: dict[str, Any] = {"__name__": "modeling_tiny"}
        exec(compile(text, "modeling_tiny.py", "exec"), names)
        torch.manual_seed(0)
        config = PretrainedConfig(hidden_size=8, attn_implementation="eager")
        results.append(names["Model"](config)(torch.randn(2, 5, 8)))
    assert torch.equal(*results)


def test_a_decoder_says_that_it_is_causal(run_fix: Run) -> None:
    text = HELPER.replace("num_heads):", "num_heads, is_decoder=False, is_causal=False):")
    text = text.replace(
        "self.num_heads = num_heads",
        "self.num_heads = num_heads\n        self.is_causal = is_causal",
    )
    text = text.replace("hidden_size, 2)", "hidden_size, 2, is_decoder=True)")
    header = {"class": "Attention", "at": "class Att"}
    assert "is_decoder=True, is_causal=True" in run_fix("attention_to_interface", text, header)
    said = text.replace("is_decoder=True)", "is_decoder=False)")
    assert "is_causal=True" not in run_fix("attention_to_interface", said, header)


def test_a_class_that_is_not_built_in_a_constructor_is_left(run_fix: Run) -> None:
    text = HELPER.replace(
        "nn.ModuleList([Attention(config.hidden_size, 2) for _ in range(2)])", "make()"
    )
    text += "\n\ndef make():\n    return nn.ModuleList([Attention(8, 2)])\n"
    with pytest.raises(fixers.FixRefused, match="not built in a constructor"):
        run_fix("attention_to_interface", text, {"class": "Attention", "at": "class Att"})


CONFIG = '{\n  "model_type": "tiny",\n  "hidden_size": 8\n}\n'


def test_fields_of_config_json(run_fix: Run) -> None:
    fields = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4}
    header = {"class": "", "at": "{", "data": {"fields": json.dumps(fields)}}
    new = run_fix("config_fields", CONFIG, header)
    assert json.loads(new) == json.loads(CONFIG) | fields
    assert CONFIG.splitlines()[1] in new and "\n    " in new
    assert run_fix("config_fields", new, header) == new
    other = new.replace('"sliding_window": 4', '"sliding_window": 5')
    with pytest.raises(fixers.FixRefused, match='"sliding_window" is 5 already'):
        run_fix("config_fields", other, header)


@pytest.mark.parametrize("use", ["Old(4)", "Old.make", "class A(Old):\n    pass"])
def test_a_class_that_another_stands_in_for_is_only_tested_for(run_fix: Run, use: str) -> None:
    text = "from transformers.cache_utils import HybridCache as Old\n\n{}\n"
    names = {"module": "transformers.cache_utils", "name": "HybridCache"}
    data = names | {"home": "transformers.cache_utils", "new": "StaticCache"}
    header = {"class": "", "at": "from", "data": data}
    new = run_fix("v5_imports", text.format("isinstance(x, Old)"), header)
    assert new.startswith("from transformers.cache_utils import StaticCache as Old\n")
    with pytest.raises(fixers.FixRefused, match="more than tested for"):
        run_fix("v5_imports", text.format(use), header)
