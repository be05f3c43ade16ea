"""The base model takes `position_ids` but computes its own positions.

What it does
------------
Reports a base model whose forward names `position_ids`, never reads what it was given, and hands
positions from `arange` or `cache_position` to a submodule.

Why it matters
--------------
vLLM (every release) concatenates the tokens of all requests into one row and says where each one
stands only in `position_ids`. With positions counted from the start of the row every decode step
is at the wrong place; no error, wrong numbers.

Example
-------
```python
import torch
from torch import nn
from transformers import LlamaConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import (
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
    eager_attention_forward,
)


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

    def forward(
        self,
        hidden_states,
        position_embeddings,
        attention_mask=None,
        past_key_values=None,
        **kwargs,
    ):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        query, key = apply_rotary_pos_emb(query, key, *position_embeddings)
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
    config_class = LlamaConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.rotary_emb = LlamaRotaryEmbedding(config)
        self.post_init()

    def forward(
        self,
        input_ids=None,
        inputs_embeds=None,
        attention_mask=None,
        position_ids=None,
        **kwargs,
    ):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        positions = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device)[None]
        position_embeddings = self.rotary_emb(inputs_embeds, positions)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                attention_mask=attention_mask,
                position_embeddings=position_embeddings,
                **kwargs,
            )
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Use instead
-----------
```python
import torch
from torch import nn
from transformers import LlamaConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import (
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
    eager_attention_forward,
)


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

    def forward(
        self,
        hidden_states,
        position_embeddings,
        attention_mask=None,
        past_key_values=None,
        **kwargs,
    ):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        query, key = apply_rotary_pos_emb(query, key, *position_embeddings)
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
    config_class = LlamaConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.rotary_emb = LlamaRotaryEmbedding(config)
        self.post_init()

    def forward(
        self,
        input_ids=None,
        inputs_embeds=None,
        attention_mask=None,
        position_ids=None,
        **kwargs,
    ):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if position_ids is None:
            position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device)[None]
        position_embeddings = self.rotary_emb(inputs_embeds, position_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                attention_mask=attention_mask,
                position_embeddings=position_embeddings,
                **kwargs,
            )
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Fix safety
----------
Safe: the counted positions become the default of `position_ids`. A caller that passed other ones
is now heard. Refused where they are not one row, counted in one statement.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import Body, body, callee_name, reached_methods
from modelcheck.source.callpath import children, hops, is_head_model, text_models
from modelcheck.source.classes import ClassInfo, FunctionNode, Signature, is_self_attribute
from modelcheck.source.layers import layer_attentions

CODE = "MC202"
FIX = Fix("positions_honoured", "use position_ids where it is given")
POSITIONS = "position_ids"
GIVEN = frozenset((POSITIONS, "position_embeddings", "cache_position", "positions"))
_COUNTERS = frozenset(("arange", "cumsum"))
_TABLE = re.compile(r"rotary|rope|position|wpe", re.IGNORECASE)


def check(context: Context) -> Iterable[Finding]:
    """Look at the forward of every base model."""
    for model in text_models(context.file):
        function = model.methods.get("forward")
        if function is None or is_head_model(model) or not any(layer_attentions(model)):
            continue
        if not Signature.of(function).names(POSITIONS):
            continue
        nodes = body(context.file, function)
        if _reads_positions(function, nodes):
            continue
        source = _counted(model, function, nodes)
        if source is not None:
            yield context.finding(
                CODE,
                Severity.WRONG,
                model,
                source,
                f"{model.name}.forward ignores position_ids and counts positions itself: "
                "vLLM's requests all get the wrong ones.",
                "Count positions only where position_ids is None, and use position_ids.",
                None if _elsewhere(source) else FIX,
            )


def _elsewhere(source: ast.AST) -> bool:
    """Are the positions counted in a method or a submodule, out of the fixer's sight?"""
    return isinstance(source, ast.Call) and is_self_attribute(source.func)


def _reads_positions(function: FunctionNode, nodes: Body) -> bool:
    """Is ``position_ids`` read before it is overwritten?"""
    overwritten = None
    for statement in function.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == POSITIONS for t in statement.targets
        ):
            overwritten = statement
            break
    nothing = _of_no_effect(nodes)
    for name in nodes.all(ast.Name):
        if name.id != POSITIONS or not isinstance(name.ctx, ast.Load) or name in nothing:
            continue
        if overwritten is None or name.lineno <= (overwritten.end_lineno or overwritten.lineno):
            return True
    return False


def _of_no_effect(nodes: Body) -> set[ast.AST]:
    """What only asks whether there is a value, or makes a mask, which vLLM drops."""
    asked = [part for test in nodes.all(ast.Compare) for part in (test.left,) if _is_none(test)]
    masks = [call for call in nodes.all(ast.Call) if "mask" in callee_name(call)]
    return {*asked, *(part for call in masks for part in ast.walk(call))}


def _is_none(test: ast.Compare) -> bool:
    other = test.comparators[0]
    return isinstance(other, ast.Constant) and other.value is None


def _counted(model: ClassInfo, function: FunctionNode, nodes: Body) -> ast.AST | None:
    """The expression that counts positions for a submodule, None when nothing does."""
    origin: dict[str, ast.AST] = {}
    if Signature.of(function).names("cache_position"):
        origin["cache_position"] = function.args
    for assignment in nodes.all(ast.Assign):
        source = _counter(assignment.value, origin) or _counted_by(model, assignment.value)
        if source is None or _makes_mask(assignment.value):
            continue
        for target in assignment.targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    origin.setdefault(name.id, source)
    for hop in hops(model):
        if hop.function is not function:
            continue
        named = [k.value for k in hop.call.keywords if k.arg != "cache_position"]
        for value in (*hop.call.args, *named):
            source = _counter(value, origin)
            if source is not None:
                return source if hasattr(source, "lineno") else hop.call
        if _TABLE.search(hop.attr) and submodule_counts(model, hop.attr):
            return hop.call
    return None


def _counted_by(model: ClassInfo, value: ast.expr) -> ast.AST | None:
    """The call of a method of the model that returns counted positions."""
    if not isinstance(value, ast.Call) or not is_self_attribute(value.func):
        return None
    hit = model.find_method(callee_name(value))
    if hit is None or "mask" in callee_name(value):
        return None
    owner, function = hit
    nodes = body(owner.file, function)
    if nodes.mentions(frozenset((POSITIONS,))) or nodes.called().isdisjoint(_COUNTERS):
        return None
    returned = [s.value for s in nodes.all(ast.Return) if s.value is not None]
    origin: dict[str, ast.AST] = {}
    for assignment in nodes.all(ast.Assign):
        if _counter(assignment.value, origin) is not None:
            origin |= {t.id: value for t in assignment.targets if isinstance(t, ast.Name)}
    return value if returned and all(_counter(v, origin) is not None for v in returned) else None


def submodule_counts(owner: ClassInfo, attr: str) -> bool:
    """Does a submodule count positions, because it is given none?"""
    built = [c.cls for c in children(owner) if c.attr == attr]
    known = [c for c in built if isinstance(c, ClassInfo) and c.find_method("forward")]
    return bool(known) and len(known) == len(built) and all(map(_counts_alone, known))


def _counts_alone(info: ClassInfo) -> bool:
    """Does a forward call `arange`, itself or in a method, and take no positions?"""
    reached = reached_methods(info)
    if any(Signature.of(function).names(name) for _, function in reached[:1] for name in GIVEN):
        return False
    return any("arange" in body(owner.file, f).called() for owner, f in reached)


def _makes_mask(value: ast.expr) -> bool:
    """A mask made with counted positions is dropped by vLLM and does no harm."""
    return isinstance(value, ast.Call) and "mask" in callee_name(value)


def _counter(node: ast.expr, origin: dict[str, ast.AST]) -> ast.AST | None:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and callee_name(part) in _COUNTERS:
            return part
        if isinstance(part, ast.Name) and part.id in origin:
            return origin[part.id]
    return None
