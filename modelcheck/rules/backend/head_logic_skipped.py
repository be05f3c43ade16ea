"""The language model head does more than vLLM's.

What it does
------------
Reports a causal language model that scales its logits by something else than `logit_scale`, caps
them without `final_logit_softcapping`, or runs the hidden states through another module or a scale
before its head, unless the configuration makes that a multiplication by 1.

Why it matters
--------------
vLLM (every release) builds only the base model, and a head of its own: one linear layer, then a cap
of `final_logit_softcapping` (0.28 and later) and a factor of `logit_scale`, both from the text
configuration. What else `forward` of the model with the head does is never run: wrong numbers.

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
from collections.abc import Iterable, Iterator
from typing import Any

from modelcheck.findings import Finding, Severity
from modelcheck.graph.configs import config_value
from modelcheck.graph.values import Config
from modelcheck.rules.base import Context
from modelcheck.rules.modules import configuration
from modelcheck.source.basemodel import is_language_head
from modelcheck.source.bodies import Body, body, callee_name
from modelcheck.source.callpath import Child, children, hops
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

CODE = "MC310"
SCALE = "logit_scale"
CAP = "final_logit_softcapping"


def check(context: Context) -> Iterable[Finding]:
    """Look at the forward of every causal language model."""
    for info in context.file.classes.values():
        function = info.methods.get("forward")
        if function is None or not is_language_head(info):
            continue
        found = next(_extra(context, info, function), None)
        if found is not None:
            node, what = found
            yield context.finding(
                CODE,
                Severity.WRONG,
                info,
                node,
                f"{info.name}.forward {what}, and vLLM never runs it.",
                f"vLLM's head is one linear, {CAP} and {SCALE} of the configuration: use those, or "
                "do it in the base model.",
            )


def _extra(
    context: Context, info: ClassInfo, function: FunctionNode
) -> Iterator[tuple[ast.AST, str]]:
    """What happens around the head, where the head is one linear layer."""
    built = children(info)
    linear = {c.attr for c in built if c.type_name == "torch.nn.Linear"}
    models = {c.attr for c in built if _is_model(c)}
    modules = {c.attr for c in built if isinstance(c.cls, ClassInfo)} - models
    heads = [h for h in hops(info) if h.attr in linear and h.function is function]
    if len(heads) != 1 or not any(h.attr in models for h in hops(info)):
        return  # without a base model inside there is nothing for vLLM to build
    nodes = body(context.file, function)
    config = configuration(context, info)
    logits = _name_of(nodes, heads[0].call)
    for hop in hops(info):
        before = hop.function is function and hop.call.lineno <= heads[0].call.lineno
        if before and hop.attr in modules and _is_fed(nodes, hop.call, heads[0].call):
            yield hop.call, f"runs {hop.attr} before its head"
    for node in (n for n in nodes.all(ast.BinOp) if isinstance(n.op, ast.Mult | ast.Div)):
        left_is = _mentions(node.left, logits, heads[0].call)
        if not left_is and not _mentions(node.right, logits, heads[0].call):
            continue
        factor = node.right if left_is else node.left
        if any(isinstance(n, ast.Call) and callee_name(n) == "tanh" for n in ast.walk(node)):
            continue
        name = dotted_name(factor).rpartition(".")[2]
        scales = isinstance(node.op, ast.Mult) and name == SCALE
        value = _number(factor, config)
        if scales or (CAP in context.file.source.text and "cap" in name) or value in (None, 1):
            continue
        word = "multiplies" if isinstance(node.op, ast.Mult) else "divides"
        yield node, f"{word} the logits by {ast.unparse(factor)} = {value:g}"


def _is_model(child: Child) -> bool:
    """Is it a model of its own, here or by its name elsewhere?"""
    if isinstance(child.cls, ClassInfo):
        return child.cls.kind == "pretrained"
    return "Model" in child.cls


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


def _is_fed(nodes: Body, call: ast.Call, head: ast.Call) -> bool:
    """Does a call's result go into the head, through locals?"""
    wanted = {n.id for a in head.args for n in ast.walk(a) if isinstance(n, ast.Name)}
    if any(n is call for a in head.args for n in ast.walk(a)):
        return True
    for assignment in nodes.all(ast.Assign):
        names = [t.id for t in assignment.targets if isinstance(t, ast.Name)]
        if assignment.value is call and assignment.lineno < head.lineno and wanted & set(names):
            return True
    return False


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
