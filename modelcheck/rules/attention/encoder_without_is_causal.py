"""A bidirectional encoder does not set `is_causal = False` on its attention.

What it does
------------
Reports the dispatching self-attention below a text model that builds only bidirectional masks, when
no module there sets `is_causal` to False. An `is_causal` taken from an argument or the config is
not judged.

Why it matters
--------------
vLLM drops the mask and serves a text model as an encoder only when one of its modules has a false
`is_causal` (every release); otherwise attention is causal: each token sees only those before it,
and the embeddings are wrong without an error.

Example
-------
```python
from torch import nn
from transformers import LlamaConfig, PreTrainedModel
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


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

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
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
        mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask
        )
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, attention_mask=mask, position_ids=position_ids, **kwargs
            )
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Use instead
-----------
```python
from torch import nn
from transformers import LlamaConfig, PreTrainedModel
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        self.is_causal = False
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
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
        mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask
        )
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, attention_mask=mask, position_ids=position_ids, **kwargs
            )
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Fix safety
----------
No fix yet: add `self.is_causal = False` in `__init__`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import Attention, Dispatch
from modelcheck.source.bodies import body, headline, reached_methods
from modelcheck.source.callpath import text_models
from modelcheck.source.classes import ClassInfo
from modelcheck.source.layers import layer_attentions

CODE = "MC109"
BIDIRECTIONAL = frozenset(("create_bidirectional_mask", "create_bidirectional_sliding_window_mask"))
CAUSAL = frozenset(
    (
        "create_causal_mask",
        "create_sliding_window_causal_mask",
        "create_chunked_causal_mask",
        "create_masks_for_generate",
        "_update_causal_mask",
    )
)


def check(context: Context) -> Iterable[Finding]:
    """Look at the text models that build bidirectional masks only."""
    if not any(name in context.file.source.text for name in BIDIRECTIONAL):
        return
    found: dict[ClassInfo, Attention] = {}
    for model in text_models(context.file):
        if not _builds_bidirectional(model):
            continue
        group = [
            a
            for _, layer in layer_attentions(model)
            for a in layer
            if a.dispatch is Dispatch.INTERFACE and not a.is_cross
        ]
        if all(_is_causal(a.info) for a in group):
            found.update({a.info: a for a in group if a.info.file is context.file})
    for info in found:
        yield context.finding(
            CODE,
            Severity.WRONG,
            info,
            headline(info.node),
            f"{info.name} attends under a bidirectional mask but does not set is_causal = False: "
            "vLLM drops the mask and attends causally.",
            "Set self.is_causal = False in __init__ of the encoder's attention.",
        )


def _builds_bidirectional(model: ClassInfo) -> bool:
    bodies = [body(owner.file, method) for owner, method in reached_methods(model)]
    return any(b.mentions(BIDIRECTIONAL) for b in bodies) and not any(
        b.mentions(CAUSAL) for b in bodies
    )


def _is_causal(info: ClassInfo) -> bool:
    """Is ``is_causal`` certainly true, or absent, which vLLM takes for true?"""
    assigned = info.self_assignments.get("is_causal")
    if assigned is None:
        hit = info.find_attribute("is_causal")
        value = hit[1] if hit else None
        return hit is None or (isinstance(value, ast.Constant) and bool(value.value))
    return isinstance(assigned[1], ast.Constant) and bool(assigned[1].value)
