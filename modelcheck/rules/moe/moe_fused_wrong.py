"""vLLM routes or computes an MoE block itself, with other numbers.

What it does
------------
Finds blocks whose routing vLLM takes over although the router or the block does more than vLLM
will: a scale that is not ``config.routed_scaling_factor``, a renormalisation that the config says
otherwise, logits changed before scoring, weights or output changed in the block; and experts with
another activation than silu.

Why it matters
--------------
With internal routing vLLM (0.25 to 0.33, ``MoEBlockFuser`` and the MoE mixin) reads top-k,
renormalisation and scale from the config and drops what the code adds; its experts always use
silu. The model loads, serves, and its numbers are wrong, without a warning.

Example
-------
```python
import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedConfig


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(self, num_experts=8, num_experts_per_tok=2, norm_topk_prob=True, **kwargs):
        self.hidden_size = 64
        self.moe_intermediate_size = 32
        self.num_experts = num_experts
        self.num_experts_per_tok = num_experts_per_tok
        self.norm_topk_prob = norm_topk_prob
        super().__init__(**kwargs)


class ToyRouter(nn.Module):
    def __init__(self, config: ToyConfig):
        super().__init__()
        self.top_k = config.num_experts_per_tok
        self.weight = nn.Parameter(torch.zeros(config.num_experts, config.hidden_size))

    def forward(self, hidden_states):
        logits = F.linear(hidden_states, self.weight)
        weights, ids = torch.topk(F.softmax(logits, dim=-1), self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return logits, weights * 2.5, ids


class ToyExperts(nn.Module):
    def __init__(self, config: ToyConfig):
        super().__init__()
        count, width = config.num_experts, config.moe_intermediate_size
        self.gate_up_proj = nn.Parameter(torch.empty(count, 2 * width, config.hidden_size))
        self.down_proj = nn.Parameter(torch.empty(count, config.hidden_size, width))

    def forward(self, hidden_states, top_k_index, top_k_weights):
        out = torch.zeros_like(hidden_states)
        for expert in range(self.down_proj.shape[0]):
            token, slot = torch.where(top_k_index == expert)
            projected = F.linear(hidden_states[token], self.gate_up_proj[expert])
            gate, up = projected.chunk(2, dim=-1)
            value = F.linear(F.silu(gate) * up, self.down_proj[expert])
            out.index_add_(0, token, value * top_k_weights[token, slot, None])
        return out


class ToyMoE(nn.Module):
    def __init__(self, config: ToyConfig):
        super().__init__()
        self.gate = ToyRouter(config)
        self.experts = ToyExperts(config)

    def forward(self, hidden_states):
        flat = hidden_states.view(-1, hidden_states.shape[-1])
        _, weights, ids = self.gate(flat)
        return self.experts(flat, ids, weights).view(hidden_states.shape)
```

Use instead
-----------
```python
import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedConfig


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(
        self,
        num_experts=8,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
        **kwargs,
    ):
        self.hidden_size = 64
        self.moe_intermediate_size = 32
        self.num_experts = num_experts
        self.num_experts_per_tok = num_experts_per_tok
        self.norm_topk_prob = norm_topk_prob
        self.routed_scaling_factor = routed_scaling_factor
        super().__init__(**kwargs)


class ToyRouter(nn.Module):
    def __init__(self, config: ToyConfig):
        super().__init__()
        self.top_k = config.num_experts_per_tok
        self.weight = nn.Parameter(torch.zeros(config.num_experts, config.hidden_size))
        self.routed_scaling_factor = config.routed_scaling_factor

    def forward(self, hidden_states):
        logits = F.linear(hidden_states, self.weight)
        weights, ids = torch.topk(F.softmax(logits, dim=-1), self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return logits, weights * self.routed_scaling_factor, ids


class ToyExperts(nn.Module):
    def __init__(self, config: ToyConfig):
        super().__init__()
        count, width = config.num_experts, config.moe_intermediate_size
        self.gate_up_proj = nn.Parameter(torch.empty(count, 2 * width, config.hidden_size))
        self.down_proj = nn.Parameter(torch.empty(count, config.hidden_size, width))

    def forward(self, hidden_states, top_k_index, top_k_weights):
        out = torch.zeros_like(hidden_states)
        for expert in range(self.down_proj.shape[0]):
            token, slot = torch.where(top_k_index == expert)
            projected = F.linear(hidden_states[token], self.gate_up_proj[expert])
            gate, up = projected.chunk(2, dim=-1)
            value = F.linear(F.silu(gate) * up, self.down_proj[expert])
            out.index_add_(0, token, value * top_k_weights[token, slot, None])
        return out


class ToyMoE(nn.Module):
    def __init__(self, config: ToyConfig):
        super().__init__()
        self.gate = ToyRouter(config)
        self.experts = ToyExperts(config)

    def forward(self, hidden_states):
        flat = hidden_states.view(-1, hidden_states.shape[-1])
        _, weights, ids = self.gate(flat)
        return self.experts(flat, ids, weights).view(hidden_states.shape)
```

Fix safety
----------
No fix yet: the constant belongs in the configuration.
"""

from collections.abc import Iterator

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import finding, wrongs

CODE = "MC403"


def check(context: Context) -> Iterator[Finding]:
    """One finding per block that is replaced wrongly."""
    for wrong in wrongs(context, "MoEBlock"):
        yield finding(
            context,
            CODE,
            wrong,
            f"{wrong.prediction.info.name} is replaced by vLLM's MoE with other numbers: "
            f"{wrong.result.wrong}.",
            "Name the constant in the configuration (routed_scaling_factor, norm_topk_prob), or "
            "keep vLLM from routing by giving the gate one more parameter.",
            severity=Severity.WRONG,
        )
