"""A module has two groups of projections, and vLLM merges neither.

What it does
------------
Reports a module in which several inputs are each read by two or more linear layers, where no other
fuser takes it.

Why it matters
--------------
vLLM (0.30 and later) merges the linear layers that read one input, if there is one such group in
the module. With two it cannot choose, and each projection stays a matrix product of its own.

Example
-------
```python
from torch import nn


class ToyMixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.a = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.b = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.c = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.d = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, residual):
        first = self.a(hidden_states) - self.b(hidden_states)
        return first + self.c(residual) - self.d(residual)
```

Use instead
-----------
```python
from torch import nn


class ToyPair(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.a = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.b = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states):
        return self.a(hidden_states) - self.b(hidden_states)


class ToyMixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.first = ToyPair(config)
        self.second = ToyPair(config)

    def forward(self, hidden_states, residual):
        return self.first(hidden_states) + self.second(residual)
```

Fix safety
----------
No fix: a module for each group changes the checkpoint's keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.fusers.results import Fires
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import predictions
from modelcheck.source.bodies import headline

CODE = "MC605"
FUSER = "MergedColumnParallel"
CAUSE = "groups of sibling linears"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each module that misses for this cause only."""
    if FUSER not in context.contract.fusers:
        return
    for prediction in predictions(context):
        result = prediction.result(FUSER)
        taken = any(r.fires is not Fires.NO and r.fuser != "Attention" for r in prediction.results)
        if result is None or taken or CAUSE not in result.reason:
            continue
        yield context.finding(
            CODE,
            Severity.INFO,
            prediction.info,
            headline(prediction.info.node),
            f"vLLM merges no projections of {prediction.info.name}: {result.reason}.",
            "Give each group a module of its own, if its checkpoint can change.",
        )
