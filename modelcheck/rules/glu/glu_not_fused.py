"""A gated MLP cannot become vLLM's fused GLU, for a reason that no rewrite removes.

What it does
------------
Reports gated MLPs that miss for a packed gate_up projection, an activation without a fused
kernel, unequal sizes or biases, a projection used a second time, or a forward whose source
cannot be rewritten (a closure, ``super()``).

Why it matters
--------------
vLLM (0.25 to 0.33, ``GLUFuser``) needs two separate projections of one input, equal in size and
bias, and one of the activations silu, gelu (erf or tanh). What it declines runs unfused.

Example
-------
```python
from torch import nn
from transformers.activations import ACT2FN


class ToyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = ACT2FN["silu"]

    def forward(self, x):
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
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
Safe for branches on `config.pretraining_tp > 1`, which go, where the configuration says 1; unsafe
where it may say more. No other fix: splitting a packed projection changes the checkpoint.
"""

from collections.abc import Iterator

from modelcheck.findings import Finding
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import finding, misses
from modelcheck.rules.settings import unsliced

CODE = "MC603"
OTHERS = ("functional-activation", "split-expression")


def check(context: Context) -> Iterator[Finding]:
    """One finding per gated MLP that misses for another reason."""
    for miss in misses(context, "GLU", unless=("PackedQKV", "QKV", "MLA")):
        if miss.kind in OTHERS:
            continue
        yield finding(
            context,
            CODE,
            miss,
            f"{miss.prediction.info.name} does not become a fused GLU: {miss.result.reason}.",
            "Keep two separate projections of one input, equal in size and bias, with a silu or "
            "gelu activation module, each called once.",
            unsliced(context, miss.prediction.info),
        )
