"""vLLM fuses a norm into its own, which gives other numbers.

What it does
------------
Finds norms that match vLLM's RMSNorm pattern and compute something else: ``1 + weight`` passed to
``rms_norm``, a mean over another axis than the last, a numerator other than the input, a scale
that is more than the parameter ``weight`` or is called something else.

Why it matters
--------------
vLLM's ``RMSNormFuser`` (0.25 to 0.33) does not look at the axis, the numerator or the scale. It
keeps the attribute ``weight`` (or ``1 + weight`` in the written-out form) and eps. The model
loads, serves, and its numbers are wrong, without a warning.

Example
-------
```python
import torch
import torch.nn.functional as F
from torch import nn


class ToyRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hidden_size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), 1 + self.weight, self.eps)
```

Use instead
-----------
```python
import torch
from torch import nn


class ToyRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hidden_size))
        self.eps = eps

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return (1 + self.weight) * x
```

Fix safety
----------
No fix yet. Where the norm has to stay as it is, an optional second parameter of ``forward`` keeps
vLLM from fusing it.
"""

from collections.abc import Iterator

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import finding, wrongs

CODE = "MC502"


def check(context: Context) -> Iterator[Finding]:
    """One finding per norm class that is fused wrongly."""
    for wrong in wrongs(context, "RMSNorm"):
        yield finding(
            context,
            CODE,
            wrong,
            f"{wrong.prediction.info.name} is fused into a norm that gives other numbers: "
            f"{wrong.result.wrong}.",
            "Write out x * torch.rsqrt(mean(x ** 2, -1) + eps), scaled with self.weight or "
            "1 + self.weight only.",
            severity=Severity.WRONG,
        )
