"""A rotary table cut to a length becomes the same numbers, computed from positions."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from fixers import FixRefused, load
from modelcheck.fusers.contract import contract_for
from modelcheck.scan import Scanner

FILLER = """
    def _set_cos_sin_cache(self, seq_len, device, dtype):
        self.max_seq_len_cached = seq_len
        {frequencies}t = {steps}
        {scaled}freqs = {product}
        emb = torch.cat((freqs, freqs), dim=-1)
        self.register_buffer("cos_cached", emb.cos(){axes}.to(dtype), persistent=False)
        self.register_buffer("sin_cached", emb.sin(){axes}.to(dtype), persistent=False)
"""
NEW = "torch.arange(self.max_seq_len_cached, device=device, dtype=torch.int64)"
OLD = "torch.arange(self.max_seq_len_cached, device=device, dtype=self.inv_freq.dtype)"
LONGER = """if seq_len > self.max_position_embeddings:
            base = self.base * ((2.0 * seq_len / self.max_position_embeddings) - 1.0)
            inv_freq = 1.0 / (base ** (torch.arange(0, self.dim, 2).float().to(device) / self.dim))
            self.register_buffer("inv_freq", inv_freq, persistent=False)

        """
MODEL = """import torch
from torch import nn


class MyRotaryEmbedding(nn.Module):
    def __init__(self, dim, max_position_embeddings=32, base=10000, device=None):
        super().__init__()
        self.dim = dim
        self.max_position_embeddings = max_position_embeddings
        self.base = base
        inv_freq = 1.0 / (self.base ** (torch.arange(0, self.dim, 2).float().to(device) / self.dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

        # Build here.
        self._set_cos_sin_cache(
            seq_len=max_position_embeddings, device=self.inv_freq.device, dtype=torch.float32
        )
{first}
    def forward(self, x, seq_len=None):
        if seq_len > self.max_seq_len_cached:
            self._set_cos_sin_cache(seq_len=seq_len, device=x.device, dtype=x.dtype)

        return (
            self.cos_cached[{cut}].to(dtype=x.dtype),
            self.sin_cached[{cut}].to(dtype=x.dtype),
        )


class MyScaledRotaryEmbedding(MyRotaryEmbedding):
    pass
{second}

def apply_rotary_pos_emb(q, cos, sin, position_ids):
    {squeeze}cos = cos[position_ids].unsqueeze(1)
    sin = sin[position_ids].unsqueeze(1)
    first, second = q.chunk(2, dim=-1)
    return q * cos + torch.cat((-second, first), dim=-1) * sin


class MyAttention(nn.Module):
    def __init__(self, scaled):
        super().__init__()
        kind = MyScaledRotaryEmbedding if scaled else MyRotaryEmbedding
        self.rotary_emb = kind(8)

    def forward(self, query, position_ids, past=0):
        kv_seq_len = query.shape[-2]
        kv_seq_len += past
        cos, sin = self.rotary_emb(query, seq_len=kv_seq_len)
        return apply_rotary_pos_emb(query, cos, sin, position_ids)
"""
STYLES = {
    "table": {
        "steps": f"{NEW}.type_as(self.inv_freq)",
        "product": "torch.outer(t, self.inv_freq)",
        "axes": "",
    },
    "four axes": {
        "steps": OLD,
        "product": 'torch.einsum("i,j->ij", t, self.inv_freq)',
        "axes": "[None, None, :, :]",
    },
}


def model(style: str, frequencies: str = "") -> str:
    facts = STYLES[style]
    axes = bool(facts["axes"])
    return MODEL.format(
        first=FILLER.format(**facts, frequencies="", scaled=""),
        second=FILLER.format(
            **facts,
            frequencies=frequencies,
            scaled="" if frequencies else "t = t / 4.0\n        ",
        ),
        cut=":, :, :seq_len, ..." if axes else ":seq_len",
        squeeze="cos = cos.squeeze(1).squeeze(0)\n    sin = sin.squeeze(1).squeeze(0)\n    "
        if axes
        else "",
    )


def found(text: str) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "modeling_my.py"
        path.write_text(text)
        findings = Scanner(contract_for("0.33")).check(str(path))
    return [f for f in findings if f.code == "MC206"]


def fixed(text: str) -> str:
    (finding,) = found(text)
    return load("rope_by_position").fix(text, finding)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", ["plain", "linear", "dynamic"])
def test_the_numbers_are_the_same(style: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    text = model(style, LONGER if kind == "dynamic" else "")
    results = []
    for version in (text, fixed(text)):
        names: dict[str, Any] = {"__name__": "modeling_my"}
        exec(compile(version, "modeling_my.py", "exec"), names)
        attention = names["MyAttention"](kind != "plain")
        torch.manual_seed(0)
        query = torch.randn(2, 3, 40, 8)
        step = torch.randn(2, 3, 1, 8)
        positions = torch.arange(40).expand(2, -1)
        prompt = attention(query, positions)
        results.append((prompt, attention(step, torch.tensor([[40], [40]]), past=40)))
    for old, new in zip(*results, strict=True):
        assert torch.equal(old, new)


def test_a_decode_step_of_several_requests() -> None:
    torch = pytest.importorskip("torch")
    text = model("table")
    step, positions = torch.ones(1, 3, 3, 8), torch.tensor([[20, 11, 30]])
    names: dict[str, Any] = {"__name__": "modeling_my"}
    exec(compile(text, "modeling_my.py", "exec"), names)
    with pytest.raises(IndexError):
        names["MyAttention"](False)(step, positions)
    whole = names["MyAttention"](False)(torch.ones(1, 3, 31, 8), torch.arange(31)[None])
    exec(compile(fixed(text), "modeling_my.py", "exec"), names)
    assert torch.equal(names["MyAttention"](False)(step, positions), whole[:, :, [20, 11, 30]])


def test_nothing_is_left_to_find() -> None:
    assert found(fixed(model("table"))) == []


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("query, position_ids, past=0", "query, past=0, **kw", "there is no position_ids"),
        ("return apply_rotary", "cos.cos_cached = 1\n        return apply_rotary", "cos_cached"),
        ("(freqs, freqs), dim=-1", "(freqs, freqs), dim=0", "the rotary table is filled"),
        (
            "        return apply_rotary",
            "        cos = cos[:4]\n        return apply_rotary",
            "cos is",
        ),
    ],
)
def test_what_it_does_not_understand_stops_it(old: str, new: str, reason: str) -> None:
    text = model("table")
    (finding,) = found(text)
    changed = text.replace(old, new)
    assert changed != text
    with pytest.raises(FixRefused) as caught:
        load("rope_by_position").fix(changed, finding)
    assert caught.value.reason.startswith(reason)
    assert caught.value.line
