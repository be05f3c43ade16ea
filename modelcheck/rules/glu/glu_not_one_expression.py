"""A gated MLP is spread over several statements, or multiplied other than with ``*``.

What it does
------------
Finds gated products whose dataflow is right but whose source is not the one expression
``self.act_fn(self.gate_proj(x)) * self.up_proj(x)``.

Why it matters
--------------
vLLM (0.25 to 0.33, ``GLUFuser``) rewrites the source of ``forward``: the activation must wrap
the gate call literally, and the ``*`` must join the two calls literally. Through a variable,
``torch.mul`` or ``.mul`` the model serves right and slower.

Example
-------
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
        gate = self.gate_proj(x)
        up = self.up_proj(x)
        return self.down_proj(self.act_fn(gate) * up)
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
Safe: the same operations in the same order. Variables that are used twice are left alone.
"""

from collections.abc import Iterator

from modelcheck.findings import Finding, Fix
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import finding, misses

CODE = "MC602"


def check(context: Context) -> Iterator[Finding]:
    """One finding per gated MLP that is not one expression."""
    for miss in misses(context, "GLU"):
        if miss.kind != "split-expression":
            continue
        yield finding(
            context,
            CODE,
            miss,
            f"{miss.prediction.info.name} does not become a fused GLU: {miss.result.reason}.",
            "Write the product as self.act_fn(self.gate_proj(x)) * self.up_proj(x).",
            Fix("inline_glu", "write the gated product as one expression"),
        )
