"""A decorator of a forward that vLLM rewrites changes what the forward does.

What it does
------------
Reports a module whose projections vLLM merges and whose forward has a decorator that casts: torch's
`autocast`, or a function of the file that changes arguments or result before it hands them on.

Why it matters
--------------
For a merged projection vLLM (0.25 and later) rewrites the source of the forward and compiles it
anew, without its decorators; `functools.wraps` lets it see through them. What they did is lost
without a word.

Example
-------
```python
import functools

from torch import nn
from transformers.activations import ACT2FN


def in_float32(function):
    @functools.wraps(function)
    def wrapper(self, x):
        return function(self, x.float()).to(x.dtype)

    return wrapper


class ToyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = ACT2FN["silu"]

    @in_float32
    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
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
No fix: do in the body what the decorator does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.fusers.results import Fires
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import predictions
from modelcheck.source.bodies import body, callee_name
from modelcheck.source.classes import FileIndex, FunctionNode, dotted_name

CODE = "MC604"
AUTOCAST = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast")


def check(context: Context) -> Iterable[Finding]:
    """Look at the decorators of every forward that is rewritten."""
    for prediction in predictions(context):
        rewritten = any(r.fires is Fires.YES and r.shards for r in prediction.results)
        function = prediction.info.methods.get("forward")
        if not rewritten or function is None:
            continue
        for decorator in function.decorator_list:
            if _has_effect(context.file, decorator):
                yield context.finding(
                    CODE,
                    Severity.WRONG,
                    prediction.info,
                    decorator,
                    f"vLLM rewrites {prediction.info.name}.forward without its decorator "
                    f"{ast.unparse(decorator)}: what that does to the numbers is lost.",
                    "Do in the body of forward what the decorator does.",
                )


def _has_effect(file: FileIndex, decorator: ast.expr) -> bool:
    """Does it certainly change arguments or result, and let itself be looked through?"""
    name = dotted_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
    if file.qualify(name) in AUTOCAST:
        return True
    function = file.functions.get(name)
    if function is None or isinstance(decorator, ast.Call) or not function.args.args:
        return False
    wrapped = function.args.args[0].arg
    inner = [s for s in function.body if isinstance(s, ast.FunctionDef)]
    if len(inner) != 1 or not any(_is_wraps(d) for d in inner[0].decorator_list):
        return False
    return _changes(file, inner[0], wrapped)


def _is_wraps(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and callee_name(node) == "wraps"


def _changes(file: FileIndex, wrapper: FunctionNode, wrapped: str) -> bool:
    """Is a call or a product put around an argument or around the result?"""
    nodes = body(file, wrapper)
    calls = [c for c in nodes.all(ast.Call) if getattr(c.func, "id", "") == wrapped]
    if len(calls) != 1:
        return False
    given = [*calls[0].args, *(k.value for k in calls[0].keywords)]
    changed = any(isinstance(a, ast.Call | ast.BinOp) for a in given)
    returned = [r.value for r in nodes.all(ast.Return) if r.value is not None]
    around = any(
        isinstance(value, ast.Call | ast.BinOp)
        and value is not calls[0]
        and any(node is calls[0] for node in ast.walk(value))
        for value in returned
    )
    return changed or around
