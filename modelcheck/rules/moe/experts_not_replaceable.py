"""vLLM cannot put its fused experts in the place of the block's own.

What it does
------------
Reports a block that routes tokens to experts (a top-k in the block or in its router) whose experts
child is not called `experts`, is packed with a parameter that is not three-dimensional, is indexed
or looped over by the block, or is called with something else than three arguments.

Why it matters
--------------
vLLM (every release since 0.25) replaces a child named exactly `experts` that is an `nn.ModuleList`
or has only 3-D parameters; any other stays a slow loop. What it puts there is no list and takes
`(hidden_states, top_k_index, top_k_weights)`: indexing it, looping over it or calling it another
way fails at the first forward.

Example
-------
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
        self.experts = nn.ModuleList([ToyExpert(config) for _ in range(config.num_experts)])

    def forward(self, hidden_states):
        flat = hidden_states.view(-1, hidden_states.shape[-1])
        _, weights, index = self.gate(flat)
        output = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, slot = torch.where(index == number)
            output.index_add_(0, token, expert(flat[token]) * weights[token, slot, None])
        return output.view(hidden_states.shape)
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
Safe for a block that loops over its experts, if the loop is known to give every token the sum of
its top-k experts' outputs times their weights, and the experts are SiLU GLUs by the class or by
config.json; unsafe where only the configuration's default says silu. The list becomes a class of
its own, with the same checkpoint keys. A list of another name becomes `experts`, which is unsafe:
a renaming that transformers 5 and vLLM read keeps the checkpoint's keys.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.moe._blocks import EXPERTS, MoEBlock, moe_blocks
from modelcheck.rules.settings import activation_setting, value_of
from modelcheck.source.bodies import headline
from modelcheck.source.classes import ClassInfo

CODE = "MC401"
ARGUMENTS = 3  # hidden_states, top_k_index, top_k_weights


def check(context: Context) -> Iterable[Finding]:
    """Look at every block that routes to experts."""
    for block in moe_blocks(context.file):
        if not block.experts.replaceable:
            yield _kept(context, block)
        elif block.accesses:
            yield context.finding(
                CODE,
                Severity.ERROR,
                block.info,
                _inside(block, block.accesses[0]),
                f"{block.info.name} loops over or indexes self.experts, which vLLM replaces by one "
                "fused module: the first forward fails.",
                "Move the loop into an experts module with forward(hidden_states, top_k_index, "
                "top_k_weights) and call it once.",
                _fix(context, block),
            )
        else:
            yield from _calls(context, block)


def _fix(context: Context, block: MoEBlock) -> Fix | None:
    """Move the loop, if its experts are plain elements of a list."""
    child = block.experts.child
    if child is None or not child.many or not isinstance(child.cls, ClassInfo):
        return None
    name = activation_setting(child.cls)
    value, certain = value_of(context, block.info, name) if name else ("", True)
    title = "move the loop over the experts into a module of its own"
    if not certain:
        title = f"{title}, as config.{name} is {value} by default"
    data = {"activation": value if isinstance(value, str) else ""}
    renamed = block.experts.attr != EXPERTS
    if renamed:
        title = f"{title} called {EXPERTS}, with a renaming for checkpoints (transformers 5)"
        data["rename"] = "yes"
    return Fix(
        "experts_module", title, Safety.SAFE if certain and not renamed else Safety.UNSAFE, data
    )


def _kept(context: Context, block: MoEBlock) -> Finding:
    experts, name = block.experts, block.info.name
    if not experts.attr:
        what = f"{name} holds the experts' weights ({experts.flat}) itself"
        advice = "Move them into a child called experts."
    elif experts.attr != EXPERTS:
        what = f"{name} calls its experts {experts.attr}"
        advice = "Call the child experts, and map the checkpoint's keys."
    else:
        what = f"{name}.experts has {experts.flat}, which is no 3-D parameter"
        advice = "Keep nothing but [experts, rows, columns] parameters in the experts module."
    return context.finding(
        CODE,
        Severity.SLOW,
        block.info,
        _inside(block, experts.child.call if experts.child else None),
        f"{what}: vLLM does not replace them by its fused experts.",
        advice,
        _fix(context, block) if experts.is_list and block.accesses else None,
    )


def _calls(context: Context, block: MoEBlock) -> Iterable[Finding]:
    for hop in block.calls:
        call = hop.call
        if any(isinstance(a, ast.Starred) for a in call.args):
            continue
        if any(k.arg is None for k in call.keywords):
            continue
        count = len(call.args) + len(call.keywords)
        if len(call.args) > ARGUMENTS or count < ARGUMENTS:
            arguments = "1 argument" if count == 1 else f"{count} arguments"
            yield context.finding(
                CODE,
                Severity.ERROR,
                block.info,
                _inside(block, call),
                f"{block.info.name} calls its experts with {arguments}, and vLLM's take "
                f"{ARGUMENTS}: the first forward fails.",
                "Call self.experts(hidden_states, top_k_index, top_k_weights).",
            )


def _inside(block: MoEBlock, node: ast.AST | None) -> ast.AST:
    """The node, or the class's headline when it is written in another class."""
    own = block.info.node
    line = getattr(node, "lineno", 0)
    if node is not None and own.lineno <= line <= (own.end_lineno or 0):
        return node
    return headline(own)
