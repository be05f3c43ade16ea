"""A projection that vLLM merges is used outside the forward that it is merged in.

What it does
------------
Finds the projections that a fuser merges (query, key and value, gate and up, and others) and
reports uses of them in other methods that run, or in the forward of a parent.

Why it matters
--------------
vLLM (0.25 and later) rewrites the module's own forward for the merged projection and deletes the
single ones. It does not look at other code: what still says `self.gate_proj` there ends the first
forward with an AttributeError.

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
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class ToyBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp = ToyMLP(config)

    def forward(self, hidden_states):
        hidden_states = hidden_states.to(self.mlp.gate_proj.weight.dtype)
        return hidden_states + self.mlp(hidden_states)
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


class ToyBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp = ToyMLP(config)

    def forward(self, hidden_states):
        hidden_states = hidden_states.to(self.mlp.down_proj.weight.dtype)
        return hidden_states + self.mlp(hidden_states)
```

Fix safety
----------
No fix: take the dtype from the input, or from a projection that is not merged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Severity
from modelcheck.fusers.results import Fires
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import predictions
from modelcheck.source.bodies import body, reached_methods, self_name
from modelcheck.source.callpath import children
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

CODE = "MC705"


def check(context: Context) -> Iterable[Finding]:
    """Look for the names of merged projections in what runs besides their own forward."""
    merged: dict[ClassInfo, frozenset[str]] = {}
    for prediction in predictions(context):
        names = {
            child
            for result in prediction.results
            if result.fires is Fires.YES and result.merged
            for child, _ in result.shards
        }
        if names:
            merged[prediction.info] = frozenset(names)
    for info in context.file.classes.values() if merged else ():
        for function, node, projection in _uses(info, merged):
            yield context.finding(
                CODE,
                Severity.ERROR,
                info,
                node,
                f"{info.name}.{function.name} uses {projection}, which vLLM merges with others and "
                "deletes: the first forward fails.",
                "Use a projection only by calling it in the forward of its own module.",
            )


def _uses(
    info: ClassInfo, merged: dict[ClassInfo, frozenset[str]]
) -> Iterator[tuple[FunctionNode, ast.AST, str]]:
    """Uses in helper methods of the same module, and through a child's name."""
    own = merged.get(info, frozenset())
    through = {
        f"{child.attr}.{name}"
        for child in children(info)
        if isinstance(child.cls, ClassInfo) and not child.many
        for name in merged.get(child.cls, frozenset())
    }
    for owner, function in reached_methods(info):
        if owner.file is not info.file:
            continue
        wanted = through if function.name == "forward" else through | own
        first = self_name(function)
        last = {name.rpartition(".")[2] for name in wanted}
        for node in body(owner.file, function).reads_of(last):
            name = dotted_name(node).removeprefix(f"{first}.")
            if dotted_name(node) == f"{first}.{name}" and name in wanted:
                yield function, node, name
