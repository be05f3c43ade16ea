"""The language model head does more than vLLM's.

What it does
------------
Reports a causal language model that scales its logits by something else than `logit_scale`, caps
them without `final_logit_softcapping`, or runs the hidden states through another module or a scale
before its head, unless the configuration makes that a multiplication by 1 (`info` where only a
config.json could say otherwise, and there is none).

Why it matters
--------------
vLLM (every release) builds only the base model, and a head of its own: one linear layer, then a cap
of `final_logit_softcapping` (0.28 and later) and a factor of `logit_scale`, both from the text
configuration. What else `forward` of the model with the head does is never run: wrong numbers. A
module in it that has weights is an `error`: they are in the checkpoint, and vLLM has nowhere to
load them.

Example
-------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        head_dim=16,
        num_attention_heads=4,
        num_hidden_layers=4,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.head_dim = head_dim
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        self.logits_scaling = 8.0
        super().__init__(**kwargs)


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = ToyAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        return hidden_states + output


class ToyPreTrainedModel(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


class ToyForCausalLM(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = ToyModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, **kwargs):
        hidden_states = self.model(input_ids=input_ids, **kwargs).last_hidden_state
        logits = self.lm_head(hidden_states)
        logits = logits / self.config.logits_scaling
        return CausalLMOutput(logits=logits)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        head_dim=16,
        num_attention_heads=4,
        num_hidden_layers=4,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.head_dim = head_dim
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        self.logit_scale = 1 / 8.0
        super().__init__(**kwargs)


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = ToyAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        return hidden_states + output


class ToyPreTrainedModel(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


class ToyForCausalLM(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = ToyModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, **kwargs):
        hidden_states = self.model(input_ids=input_ids, **kwargs).last_hidden_state
        logits = self.lm_head(hidden_states)
        logits = logits * self.config.logit_scale
        return CausalLMOutput(logits=logits)
```

Fix safety
----------
No fix: give the factor as `logit_scale`; move other modules into the base model.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modelcheck.findings import Finding, Severity
from modelcheck.graph.configs import config_value
from modelcheck.graph.values import Config
from modelcheck.rules.backend._head_input import (
    NO_CHANGE,
    has_parameters,
    head_calls,
    is_model,
    steps,
)
from modelcheck.rules.base import Context
from modelcheck.rules.modules import configuration
from modelcheck.source.basemodel import is_language_head
from modelcheck.source.bodies import Body, body, callee_name
from modelcheck.source.callpath import Child, children, hops
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

CODE = "MC310"
SCALE = "logit_scale"
CAP = "final_logit_softcapping"
NO_PLACE = ' and has no place for its weights ("There is no module or parameter named ...")'


def check(context: Context) -> Iterable[Finding]:
    """Look at the forward of every causal language model."""
    for info in context.file.classes.values():
        if "forward" not in info.methods or not is_language_head(info):
            continue
        function = _with_head(info)
        found = min(_extra(context, info, function), key=_order, default=None)
        if found is not None:
            yield context.finding(
                CODE,
                found.severity,
                info,
                found.node,
                f"{info.name}.{function.name} {found.what}, and vLLM never runs it{found.because}.",
                f"vLLM's head is one linear, {CAP} and {SCALE} of the configuration: use those, or "
                "do it in the base model.",
            )


@dataclass(frozen=True)
class _Extra:
    node: ast.AST
    what: str
    severity: Severity = Severity.WRONG
    because: str = ""


def _with_head(info: ClassInfo) -> FunctionNode:
    """The forward, or the one method of the class that it leaves the head to."""
    built = {c.attr: c for c in children(info)}
    functions = {h.function for h in hops(info) if _is_linear(built, h.attr) and h.owner is info}
    return functions.pop() if len(functions) == 1 else info.methods["forward"]


def _order(extra: _Extra) -> tuple[bool, int]:
    """What does not load comes before numbers that are wrong."""
    return extra.severity is not Severity.ERROR, extra.severity.rank


def _extra(context: Context, info: ClassInfo, function: FunctionNode) -> Iterator[_Extra]:
    """What happens around the head, where the head is one linear layer."""
    built = {c.attr: c for c in children(info)}
    models = {name for name, child in built.items() if is_model(child)}
    nodes = body(context.file, function)
    inside = {h.call for h in hops(info) if h.function is function}
    heads = [call for _, call in head_calls(info) if call in inside]
    if len(heads) != 1:
        return
    head = heads[0]
    config = configuration(context, info)
    for step in steps(nodes, function, head):
        child = built.get(step.attr)
        if not step.attr and isinstance(step.node, ast.BinOp) and step.certain:
            yield from _scaled(step.node, None, config, context, "the hidden states")
        elif child is not None and step.attr not in models and step.certain:
            kind = child.type_name.rpartition(".")[2]
            if has_parameters(child):
                what = f"runs {step.attr} before its head"
                yield _Extra(step.node, what, Severity.ERROR, NO_PLACE)
            elif isinstance(child.cls, ClassInfo) or (
                child.cls.startswith("torch.nn.") and kind not in NO_CHANGE
            ):
                yield _Extra(step.node, f"runs {step.attr} before its head")
    logits = _name_of(nodes, head)
    for node in nodes.all(ast.BinOp):
        left_is = _mentions(node.left, logits, head)
        if left_is or _mentions(node.right, logits, head):
            yield from _scaled(node, left_is, config, context, "the logits")


def _scaled(
    node: ast.BinOp, left_is: bool | None, config: Config | None, context: Context, what: str
) -> Iterator[_Extra]:
    """A multiplication or division by a number that is not 1; None: either side is the number."""
    if not isinstance(node.op, ast.Mult | ast.Div):
        return
    if any(isinstance(n, ast.Call) and callee_name(n) == "tanh" for n in ast.walk(node)):
        return
    if left_is is None:
        left_is = isinstance(node.op, ast.Div) or _number(node.left, config) is None
    factor = node.right if left_is else node.left
    name = dotted_name(factor).rpartition(".")[2]
    value = _number(factor, config)
    logits = what == "the logits"
    if logits and isinstance(node.op, ast.Mult) and name == SCALE:
        return
    if logits and CAP in context.file.source.text and "cap" in name:
        return
    word = "multiplies" if isinstance(node.op, ast.Mult) else "divides"
    said = f"{word} {what} by {ast.unparse(factor)}"
    if value not in (None, 1):
        yield _Extra(node, f"{said} = {value:g}")
    elif value == 1 and _is_open(context) and not isinstance(factor, ast.Constant):
        because = ": it matters where a config.json sets it to another number than 1"
        yield _Extra(node, said, Severity.INFO, because)


def _is_open(context: Context) -> bool:
    """Is there no config.json that would say otherwise?"""
    return context.repo is None or not context.repo.config


def _is_linear(built: Mapping[str, Child], attr: str) -> bool:
    child = built.get(attr)
    return child is not None and child.type_name == "torch.nn.Linear"


def _name_of(nodes: Body, call: ast.Call) -> str:
    """The local that the head's result is bound to."""
    for assignment in nodes.all(ast.Assign):
        target = assignment.targets[0]
        inside = any(node is call for node in ast.walk(assignment.value))
        if inside and isinstance(target, ast.Name):
            return target.id
    return ""


def _mentions(node: ast.expr, name: str, call: ast.Call) -> bool:
    """Is it the logits themselves (cast or not), or the head's call?"""
    while isinstance(node, ast.Call) and node is not call and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node is call or (isinstance(node, ast.Name) and bool(name) and node.id == name)


def _number(node: ast.expr, config: Config | None) -> float | None:
    """The value of a factor, None where the configuration does not tell."""
    value: Any = None
    if isinstance(node, ast.Constant):
        value = node.value
    elif config is not None and "." in dotted_name(node):
        value = config_value(config, dotted_name(node).rpartition(".")[2])
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left, right = _number(node.left, config), _number(node.right, config)
        value = left / right if left is not None and right else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
