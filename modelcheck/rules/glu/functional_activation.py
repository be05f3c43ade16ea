"""A gated MLP applies its activation as a function, not as a child module.

What it does
------------
Finds ``F.silu(self.gate_proj(x)) * self.up_proj(x)`` and its like.

Why it matters
--------------
vLLM (0.25 to 0.33, ``GLUFuser``) merges gate and up and swaps in a fused
activation-and-multiply kernel only when the activation is a submodule, since it replaces that
submodule. With a function the two projections are at best merged (from 0.30).

Example
-------
```python
import torch.nn.functional as F
from torch import nn


class ToyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
```

Use instead
-----------
```python
from torch import nn
from transformers.activations import ACT2FN


class ToyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = ACT2FN["silu"]

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
```

Fix safety
----------
Safe: the activation module has no weights and computes the same function.
"""

from collections.abc import Iterator

from modelcheck.findings import Finding, Fix
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import finding, misses

CODE = "MC601"


def check(context: Context) -> Iterator[Finding]:
    """One finding per gated MLP with a functional activation."""
    for miss in misses(context, "GLU"):
        if miss.kind != "functional-activation":
            continue
        yield finding(
            context,
            CODE,
            miss,
            f"{miss.prediction.info.name} does not become a fused GLU: {miss.result.reason}.",
            'Set self.act_fn = ACT2FN["..."] in __init__ and call self.act_fn(self.gate_proj(x)).',
            Fix("functional_activation", "call the activation as a child module"),
        )
