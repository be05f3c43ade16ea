"""An RMSNorm is written so that vLLM's RMSNorm fuser does not recognise it.

What it does
------------
Looks at every module that normalises by the root of a mean of squares and says why vLLM leaves
it as it is: a division by ``sqrt``, ``.type(...)`` casts, a second input or output, arithmetic
after the scale, an eps that is no number.

Why it matters
--------------
vLLM (0.25 to 0.33, ``RMSNormFuser``) replaces a norm by its fused kernel only when the forward
traces to ``x * rsqrt(mean(x ** 2) + eps)``, optionally times ``weight`` or ``1 + weight``, with
nothing but dtype casts around it. Any other spelling serves right and slower, with one warning
line in the log.

Example
-------
```python
import torch
from torch import nn


class ToyRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        x = hidden_states.float()
        x = x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x.to(hidden_states.dtype)
```

Use instead
-----------
```python
import torch
from torch import nn


class ToyRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        x = hidden_states.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x.to(hidden_states.dtype)
```

Fix safety
----------
Safe for spellings: ``x / sqrt(v)`` and ``x * rsqrt(v)`` differ in the last bit at most. Other
obstacles (a second input, a second output) are only reported.
"""

from collections.abc import Iterator

from modelcheck.findings import Finding, Fix
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import finding, misses

CODE = "MC501"


def check(context: Context) -> Iterator[Finding]:
    """One finding per norm class that misses."""
    for miss in misses(context, "RMSNorm"):
        fix = None
        if miss.kind == "spelling":
            fix = Fix("rmsnorm_spelling", "write the norm as x * torch.rsqrt(mean(x ** 2) + eps)")
        yield finding(
            context,
            CODE,
            miss,
            f"{miss.prediction.info.name} is an RMSNorm that vLLM leaves unfused: "
            f"{miss.result.reason}.",
            "Write it as weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)) "
            "with one input and one output.",
            fix,
        )
