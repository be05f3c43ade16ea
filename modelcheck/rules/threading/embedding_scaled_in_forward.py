"""The embeddings are scaled only where the model itself looks them up.

What it does
------------
Reports a base model that multiplies or divides the embeddings inside `if inputs_embeds is None:`,
itself or in a method that it calls there, by something that is not known to be 1.

Why it matters
--------------
vLLM (every release) may look the tokens up itself, with the model's input embeddings, and pass
`inputs_embeds`: with prompt embeddings, for multimodal prompts, for drafters. The scale is then
skipped, without an error and with wrong numbers. Plain text prompts are not affected.

Example
-------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
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
            inputs_embeds = self.embed_tokens(input_ids) * self.config.hidden_size**0.5
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
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
        super().__init__(**kwargs)


class ToyEmbedding(nn.Embedding):
    def __init__(self, vocab_size, hidden_size, scale):
        super().__init__(vocab_size, hidden_size)
        self.scale = scale

    def forward(self, input_ids):
        return super().forward(input_ids) * self.scale


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
        self.embed_tokens = ToyEmbedding(
            config.vocab_size, config.hidden_size, config.hidden_size**0.5
        )
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
```

Fix safety
----------
Safe: the factor moves into the forward of an `nn.Embedding` subclass, which keeps the checkpoint's
keys. Refused for a factor that is no number of the configuration.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.backend.text_models import text_models
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, callee_name
from modelcheck.source.callpath import hops
from modelcheck.source.classes import ClassInfo, FunctionNode, is_self_attribute
from modelcheck.source.layers import dispatching

CODE = "MC204"
FIX = Fix("scaled_embedding", "scale in the embedding itself")
EMBEDS = ("inputs_embeds", "input_embeds")


def check(context: Context) -> Iterable[Finding]:
    """Look at the forward of every base model whose attention vLLM serves."""
    if not any(dispatching(context.file)):
        return
    for base in text_models(context):
        model = base.info
        function = model.methods.get("forward")
        if function is None:
            continue
        node = next(_scaled(context, model, function), None)
        if node is not None:
            yield context.finding(
                CODE,
                Severity.WRONG,
                model,
                node,
                f"{model.name} scales its embeddings only when it looks them up itself: with "
                "inputs_embeds, which vLLM passes for prompt embeddings, multimodal input and "
                "drafters, the scale is missing.",
                "Scale in the forward of an nn.Embedding subclass.",
                None if _in_method(node) else FIX,
            )


def _scaled(context: Context, model: ClassInfo, function: FunctionNode) -> Iterator[ast.AST]:
    lookups = {hop.call for hop in hops(model) if hop.function is function}
    for choice in body(context.file, function).all(ast.IfExp):
        made, given = choice.body, choice.orelse
        if _tests_embeds(choice.test, ast.IsNot):
            made, given = given, made
        elif not _tests_embeds(choice.test):
            continue
        if _is_embeds(given) and (_is_product(made, lookups) or _method_scales(model, made)):
            yield choice
    for branch in body(context.file, function).all(ast.If):
        if not _tests_embeds(branch.test):
            continue
        for statement in branch.body:
            if isinstance(statement, ast.AugAssign) and _is_embeds(statement.target):
                if isinstance(statement.op, ast.Mult | ast.Div) and not _is_one(statement.value):
                    yield statement
            elif (
                isinstance(statement, ast.Assign)
                and _is_embeds(statement.targets[0])
                and (
                    _is_product(statement.value, lookups) or _method_scales(model, statement.value)
                )
            ):
                yield statement


def _in_method(node: ast.AST) -> bool:
    """Is the product in another function, out of the fixer's sight?"""
    value = node.value if isinstance(node, ast.Assign) else getattr(node, "body", None)
    return isinstance(value, ast.Call) and is_self_attribute(value.func)


def _method_scales(model: ClassInfo, value: ast.expr) -> bool:
    """Is it a method of the model that returns scaled embeddings?"""
    if not isinstance(value, ast.Call) or not is_self_attribute(value.func):
        return False
    hit = model.find_method(callee_name(value))
    if hit is None:
        return False
    lookups = {hop.call for hop in hops(model) if hop.function is hit[1]}
    returned = [s.value for s in body(hit[0].file, hit[1]).all(ast.Return) if s.value is not None]
    return bool(returned) and all(_is_product(v, lookups) for v in returned)


def _is_product(value: ast.expr, lookups: Collection[ast.expr]) -> bool:
    """Is it the embeddings times or divided by something?"""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult | ast.Div):
        return False
    parts = (value.left, value.right)
    looked_up = [p for p in parts if p in lookups or _is_embeds(p)]
    others = [p for p in parts if p not in looked_up]
    return bool(looked_up and others) and not _is_one(others[0])


def _tests_embeds(test: ast.expr, operator: type[ast.cmpop] = ast.Is) -> bool:
    return (
        isinstance(test, ast.Compare)
        and _is_embeds(test.left)
        and isinstance(test.ops[0], operator)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
    )


def _is_embeds(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in EMBEDS


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1
