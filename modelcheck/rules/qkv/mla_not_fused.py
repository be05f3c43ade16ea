"""Latent attention does not become vLLM's MLA layer.

What it does
------------
For a config with ``kv_lora_rank``, finds attention whose latent chain is there but which vLLM
cannot take over, most often since the latent is expanded inside ``forward``.

Why it matters
--------------
vLLM (0.28 to 0.33, ``MLAFuser``) caches the latent and skips the expansion, which it can only do
when that is one method of its own, called once as ``self.expand(latent, rope_key)`` and returning
``(key, value)``. Otherwise full attention is used: a cache several times larger, and with tensor
parallelism the merged down-projection is cut in the wrong place.

Example
-------
```python
import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class ToyRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def eager_attention_forward(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = (query @ key.transpose(2, 3) * scaling).softmax(dim=-1)
    return (weights @ value).transpose(1, 2), weights


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.kv_lora_rank = config.kv_lora_rank
        self.scaling = 0.125
        self.is_causal = True
        self.q_proj = nn.Linear(256, 8 * 64, bias=False)
        self.kv_a_proj = nn.Linear(256, 128 + 16, bias=False)
        self.kv_a_norm = ToyRMSNorm(128)
        self.kv_b_proj = nn.Linear(128, 8 * (48 + 64), bias=False)
        self.o_proj = nn.Linear(8 * 64, 256, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length = hidden_states.shape[:-1]
        query = self.q_proj(hidden_states).view(batch, length, -1, 64).transpose(1, 2)
        compressed = self.kv_a_proj(hidden_states)
        latent, k_rope = compressed.split((128, 16), dim=-1)
        latent = self.kv_a_norm(latent)
        expanded = self.kv_b_proj(latent).view(batch, length, -1, 112).transpose(1, 2)
        k_nope, value = expanded.split((48, 64), dim=-1)
        k_rope = k_rope[:, None].expand(-1, k_nope.shape[1], -1, -1)
        key = torch.cat((k_nope, k_rope), dim=-1)
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        out, weights = attention_interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(out.reshape(batch, length, -1)), weights
```

Use instead
-----------
```python
import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class ToyRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def eager_attention_forward(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = (query @ key.transpose(2, 3) * scaling).softmax(dim=-1)
    return (weights @ value).transpose(1, 2), weights


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.kv_lora_rank = config.kv_lora_rank
        self.scaling = 0.125
        self.is_causal = True
        self.q_proj = nn.Linear(256, 8 * 64, bias=False)
        self.kv_a_proj = nn.Linear(256, 128 + 16, bias=False)
        self.kv_a_norm = ToyRMSNorm(128)
        self.kv_b_proj = nn.Linear(128, 8 * (48 + 64), bias=False)
        self.o_proj = nn.Linear(8 * 64, 256, bias=False)

    def expand(self, latent, k_rope):
        batch, length, _ = latent.shape
        expanded = self.kv_b_proj(latent).view(batch, length, -1, 112).transpose(1, 2)
        k_nope, value = expanded.split((48, 64), dim=-1)
        k_rope = k_rope[:, None].expand(-1, k_nope.shape[1], -1, -1)
        return torch.cat((k_nope, k_rope), dim=-1), value

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length = hidden_states.shape[:-1]
        query = self.q_proj(hidden_states).view(batch, length, -1, 64).transpose(1, 2)
        compressed = self.kv_a_proj(hidden_states)
        latent, k_rope = compressed.split((128, 16), dim=-1)
        latent = self.kv_a_norm(latent)
        key, value = self.expand(latent, k_rope)
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        out, weights = attention_interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(out.reshape(batch, length, -1)), weights
```

Fix safety
----------
Unsafe: the statements that expand the latent move into a method as they are, which changes no
number in transformers; vLLM then runs its own kernels.
"""

from collections.abc import Iterator

from modelcheck.findings import Finding, Fix, Safety
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import finding, misses

CODE = "MC703"


def check(context: Context) -> Iterator[Finding]:
    """One finding per latent attention that misses."""
    for miss in misses(context, "MLA"):
        yield finding(
            context,
            CODE,
            miss,
            f"{miss.prediction.info.name} does not become vLLM's MLA layer: {miss.result.reason}.",
            "Expand the latent in a method (self, latent, rope_key) -> (key, value) and call it "
            "once, after the cache and before the interface.",
            Fix("mla_expansion", "expand the latent in a method of its own", Safety.UNSAFE),
        )
