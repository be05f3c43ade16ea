"""Three projections in a module that is no attention are merged as query, key and value.

What it does
------------
Reports a module that takes vLLM's QKV fuser and computes no attention.

Why it matters
--------------
vLLM (0.25 and later) merges any three projections of one input whose widths could be those of
query, key and value, and shards them by heads. On one GPU that changes nothing; with tensor
parallelism each rank holds a part of the heads, and what follows sees narrower tensors.

Example
-------
```python
from torch import nn


class ToyMixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.num_attention_heads * config.head_dim
        self.head_dim = config.head_dim
        self.alpha = nn.Linear(config.hidden_size, width, bias=False)
        self.beta = nn.Linear(config.hidden_size, width, bias=False)
        self.gamma = nn.Linear(config.hidden_size, width, bias=False)

    def forward(self, hidden_states):
        alpha = self.alpha(hidden_states)
        beta = self.beta(hidden_states)
        gamma = self.gamma(hidden_states)
        return alpha + beta + gamma
```

Use instead
-----------
```python
from torch import nn


class ToyMixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.num_attention_heads * config.head_dim
        self.head_dim = config.head_dim
        self.alpha = nn.Linear(config.hidden_size, width, bias=False)
        self.beta = nn.Linear(config.hidden_size, width, bias=False)
        self.gamma = nn.Linear(config.hidden_size, width, bias=False)

    def forward(self, hidden_states):
        alpha = self.alpha(hidden_states)
        beta = self.beta(hidden_states)
        gamma = self.gamma(hidden_states + 1)
        return alpha + beta + gamma
```

Fix safety
----------
No fix: end the pattern, or put the result through an output projection.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.fusers.results import Fires
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import predictions
from modelcheck.source.attention import attention_of
from modelcheck.source.bodies import headline

CODE = "MC704"


def check(context: Context) -> Iterable[Finding]:
    """Look at every module that takes the QKV fuser."""
    for prediction in predictions(context):
        result = prediction.result("QKV")
        info = prediction.info
        if result is None or result.fires is not Fires.YES or attention_of(info) is not None:
            continue
        names = ", ".join(child for child, _ in result.shards)
        yield context.finding(
            CODE,
            Severity.INFO,
            info,
            headline(info.node),
            f"vLLM merges {names} of {info.name} as query, key and value, and shards them by heads "
            "under tensor parallelism.",
            "If what follows needs full widths, serve it on one GPU, or end the pattern.",
            tp_only=True,
        )
