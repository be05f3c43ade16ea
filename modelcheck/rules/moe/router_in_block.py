"""The router is a plain linear layer and the block itself picks the experts.

What it does
------------
Reports a block whose gate is an `nn.Linear` and whose own forward (or a method of it) does the
top-k.

Why it matters
--------------
vLLM can take over gate and experts together ("internal routing") only when the gate is a module
that returns logits, weights and indices. With the top-k in the block the experts are still fused,
but routing stays Python code of the model. Where the experts are not replaced either, nothing of
the block is fused.

Example
-------
```python
import torch
from torch import nn
from transformers.activations import ACT2FN


class ToyExpert(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.moe_intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.moe_intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.moe_intermediate_size, config.hidden_size, bias=False)
        self.act_fn = ACT2FN["silu"]

    def forward(self, hidden_states):
        gated = self.act_fn(self.gate_proj(hidden_states)) * self.up_proj(hidden_states)
        return self.down_proj(gated)


class ToyExperts(nn.ModuleList):
    def __init__(self, config):
        super().__init__([ToyExpert(config) for _ in range(config.num_experts)])

    def forward(self, hidden_states, top_k_index, top_k_weights):
        output = torch.zeros_like(hidden_states)
        for number, expert in enumerate(self):
            token, slot = torch.where(top_k_index == number)
            share = expert(hidden_states[token]) * top_k_weights[token, slot, None]
            output.index_add_(0, token, share)
        return output


class ToyMoE(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.top_k = config.num_experts_per_tok
        self.gate = nn.Linear(config.hidden_size, config.num_experts, bias=False)
        self.experts = ToyExperts(config)

    def forward(self, hidden_states):
        flat = hidden_states.view(-1, hidden_states.shape[-1])
        probabilities = torch.softmax(self.gate(flat).float(), dim=-1)
        weights, index = torch.topk(probabilities, self.top_k, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(flat.dtype)
        return self.experts(flat, index, weights).view(hidden_states.shape)
```

Use instead
-----------
```python
import torch
import torch.nn.functional as F
from torch import nn
from transformers.activations import ACT2FN


class ToyExpert(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.moe_intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.moe_intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.moe_intermediate_size, config.hidden_size, bias=False)
        self.act_fn = ACT2FN["silu"]

    def forward(self, hidden_states):
        gated = self.act_fn(self.gate_proj(hidden_states)) * self.up_proj(hidden_states)
        return self.down_proj(gated)


class ToyExperts(nn.ModuleList):
    def __init__(self, config):
        super().__init__([ToyExpert(config) for _ in range(config.num_experts)])

    def forward(self, hidden_states, top_k_index, top_k_weights):
        output = torch.zeros_like(hidden_states)
        for number, expert in enumerate(self):
            token, slot = torch.where(top_k_index == number)
            share = expert(hidden_states[token]) * top_k_weights[token, slot, None]
            output.index_add_(0, token, share)
        return output


class ToyRouter(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.top_k = config.num_experts_per_tok
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_size))

    def forward(self, hidden_states):
        logits = F.linear(hidden_states, self.weight)
        probabilities = torch.softmax(logits.float(), dim=-1)
        weights, index = torch.topk(probabilities, self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return logits, weights.to(hidden_states.dtype), index


class ToyMoE(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = ToyRouter(config)
        self.experts = ToyExperts(config)

    def forward(self, hidden_states):
        flat = hidden_states.view(-1, hidden_states.shape[-1])
        _, weights, index = self.gate(flat)
        return self.experts(flat, index, weights).view(hidden_states.shape)
```

Fix safety
----------
Unsafe: scoring and top-k become a class of their own that holds `weight`, whose key stays
`gate.weight`; a block that returned the logits too returns its output only, and a layer that hands
them on asks the router for them. Refused where vLLM would route with other numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.moe._blocks import moe_blocks
from modelcheck.source.bodies import headline

CODE = "MC402"


def check(context: Context) -> Iterable[Finding]:
    """Look at every block that routes to experts."""
    for block in moe_blocks(context.file):
        if block.topk is None or not block.gate:
            continue
        own = block.info.node
        inside = own.lineno <= block.topk.lineno <= (own.end_lineno or 0)
        usable = block.experts.replaceable and not block.accesses
        yield context.finding(
            CODE,
            Severity.INFO if usable else Severity.SLOW,
            block.info,
            block.topk if inside else headline(own),
            f"{block.info.name} routes with the linear layer {block.gate} and its own top-k: "
            f"vLLM {'fuses the experts only' if usable else 'fuses nothing of the block'}.",
            "Move scoring and top-k into a router module that returns (logits, weights, indices).",
            Fix("router_module", "move scoring and top-k into a router module", Safety.UNSAFE)
            if usable
            else None,
        )
