"""An entry of the tensor-parallel plan ends the load.

What it does
------------
Looks for entries of the tensor-parallel plan whose style is no string, or whose name is no
regular expression, and which vLLM comes upon when it looks for a linear layer that it does not
fuse.

Why it matters
--------------
vLLM (0.24 to 0.33) searches the plan for every linear layer that is left, whatever the number
of ranks, and stops: "Unsupported parallel style type ..., expected str", or with the error of
the regular expression.

Example
-------
```python
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class MyConfig(PreTrainedConfig):
    model_type = "mine"
    base_model_tp_plan = {
        "layers.*.q_proj": "colwise",
        "layers.*.k_proj": "colwise",
        "layers.*.v_proj": "colwise",
        "layers.*.o_proj": "rowwise",
        "out_gate": ("colwise", "rowwise"),
    }

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        super().__init__(**kwargs)


class MyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        width = config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        query = self.q_proj(hidden_states).view(batch, length, -1, self.head_dim)
        key = self.k_proj(hidden_states).view(batch, length, -1, self.head_dim)
        value = self.v_proj(hidden_states).view(batch, length, -1, self.head_dim)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
        output, weights = attend(
            self,
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attention_mask,
            scaling=self.scaling,
            **kwargs,
        )
        output = output.reshape(batch, length, -1)
        return self.o_proj(output)


class MyModel(PreTrainedModel):
    config_class = MyConfig
    _supports_attention_backend = True

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(512, config.hidden_size)
        self.layers = nn.ModuleList(
            [MyAttention(config, index) for index in range(config.num_hidden_layers)]
        )
        self.out_gate = nn.Linear(config.hidden_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)
        for layer in self.layers:
            hidden_states = hidden_states + layer(hidden_states, **kwargs)
        return (self.out_gate(hidden_states),)


def eager(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = torch.softmax(query @ key.transpose(2, 3) * scaling, dim=-1)
    return (weights @ value).transpose(1, 2), weights
```

Use instead
-----------
```python
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class MyConfig(PreTrainedConfig):
    model_type = "mine"
    base_model_tp_plan = {
        "layers.*.q_proj": "colwise",
        "layers.*.k_proj": "colwise",
        "layers.*.v_proj": "colwise",
        "layers.*.o_proj": "rowwise",
        "out_gate": "replicate",
    }

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        super().__init__(**kwargs)


class MyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        width = config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        query = self.q_proj(hidden_states).view(batch, length, -1, self.head_dim)
        key = self.k_proj(hidden_states).view(batch, length, -1, self.head_dim)
        value = self.v_proj(hidden_states).view(batch, length, -1, self.head_dim)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
        output, weights = attend(
            self,
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attention_mask,
            scaling=self.scaling,
            **kwargs,
        )
        output = output.reshape(batch, length, -1)
        return self.o_proj(output)


class MyModel(PreTrainedModel):
    config_class = MyConfig
    _supports_attention_backend = True

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(512, config.hidden_size)
        self.layers = nn.ModuleList(
            [MyAttention(config, index) for index in range(config.num_hidden_layers)]
        )
        self.out_gate = nn.Linear(config.hidden_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)
        for layer in self.layers:
            hidden_states = hidden_states + layer(hidden_states, **kwargs)
        return (self.out_gate(hidden_states),)


def eager(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = torch.softmax(query @ key.transpose(2, 3) * scaling, dim=-1)
    return (weights @ value).transpose(1, 2), weights
```

Fix safety
----------
There is no fix: what the entry is to say is for the author to decide.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.plans._models import plan_finding, planned_models
from modelcheck.source.plans import Entry

CODE = "MC803"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each such entry that vLLM reaches in its search for a linear layer."""
    for models in planned_models(context):
        reported: set[str] = set()
        for model in models[:1]:
            for linear in model.left_to_plan():
                entry = model.plan.first(linear.path) if model.plan is not None else None
                problem = _problem(entry) if entry is not None else ""
                if entry is None or not problem or entry.key in reported:
                    continue
                reported.add(entry.key)
                yield plan_finding(
                    context,
                    CODE,
                    Severity.ERROR,
                    model,
                    entry,
                    f"{problem}, and vLLM reads it for {linear.path}: the model does not load",
                    "Write a path with * for numbers, and a style as a string such as "
                    '"colwise" or "rowwise".',
                    tp_only=False,
                )


def _problem(entry: Entry) -> str:
    if entry.pattern is None:
        return f"{entry.key!r} is no regular expression"
    if not isinstance(entry.style, str):
        return f"the style of {entry.key!r} is no string"
    return ""
