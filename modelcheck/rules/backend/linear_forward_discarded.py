"""A subclass of `nn.Linear` has a forward of its own.

What it does
------------
Reports such a class where the base model holds one and its forward does more than a matrix product
and a bias.

Why it matters
--------------
vLLM (every release) puts a parallel linear in the place of every `nn.Linear` of the base model,
subclasses included: their forward is never run. The numbers are wrong, or, where it returned
several values, the first forward fails.

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


class ToyLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 0.5


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
        self.o_proj = ToyLinear(width, config.hidden_size, bias=False)

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
        output = self.o_proj(output.reshape(*hidden_states.shape[:-1], -1))
        return output * 0.5, weights


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
```

Fix safety
----------
No fix: hold an `nn.Linear` instead of being one, which changes the checkpoint's keys.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.source.basemodel import base_models, is_language_head
from modelcheck.source.bodies import body, callee_name, headline
from modelcheck.source.callpath import children
from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode

CODE = "MC311"
LINEAR = "torch.nn.Linear"
# What a plain linear layer, written out, may call.
PLAIN = frozenset(("linear", "forward", "super", "matmul", "t", "transpose", "to", "float"))


def check(context: Context) -> Iterable[Finding]:
    """Look at the linear subclasses below the file's base models."""
    for info in context.file.classes.values():
        function = info.methods.get("forward")
        if function is None or LINEAR not in info.external_bases:
            continue
        if _is_plain(context.file, function) or not _is_held(context, info):
            continue
        several = any(
            isinstance(r.value, ast.Tuple) for r in body(context.file, function).all(ast.Return)
        )
        yield context.finding(
            CODE,
            Severity.ERROR if several else Severity.WRONG,
            info,
            headline(function),
            f"vLLM replaces {info.name} by its own linear layer, and this forward is never run"
            + (": the caller gets one tensor and fails." if several else "."),
            "Hold an nn.Linear as a child instead of inheriting from it.",
        )


def _is_plain(file: FileIndex, function: FunctionNode) -> bool:
    nodes = body(file, function)
    arithmetic = [n for n in nodes.all(ast.BinOp) if not isinstance(n.op, ast.MatMult | ast.Add)]
    calls = [c for c in nodes.all(ast.Call) if callee_name(c) not in PLAIN]
    several = [r for r in nodes.all(ast.Return) if isinstance(r.value, ast.Tuple)]
    return not (arithmetic or calls or several)


def _is_held(context: Context, info: ClassInfo) -> bool:
    """Is it somewhere below a base model, or a model that a causal one holds beside its head?"""
    seen: set[ClassInfo] = set()
    stack = [base.info for base in base_models(context.file, context.repo)]
    for head in (h for h in context.file.classes.values() if is_language_head(h)):
        held = (c.cls for c in children(head) if isinstance(c.cls, ClassInfo))
        stack.extend(info for info in held if info.kind == "pretrained")
    while stack:
        current = stack.pop()
        if current is info:
            return True
        if current not in seen:
            seen.add(current)
            stack.extend(c.cls for c in children(current) if isinstance(c.cls, ClassInfo))
    return False
