"""The tensor-parallel plan names modules that do not exist.

What it does
------------
Compares the names of the tensor-parallel plan (`base_model_tp_plan` of the configuration
class, `_tp_plan` of the base model) with the modules and parameters of the base model. A name
that other settings of the configuration would bring about is not reported.

Why it matters
--------------
Names are relative to the base model: vLLM (0.24 to 0.33) puts `model.` in front of each
itself. A name that matches nothing is passed over without a word. What vLLM fuses is cut all
the same; every other linear layer is held in full by every rank.

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
        "model.layers.*.q_proj": "colwise",
        "model.layers.*.k_proj": "colwise",
        "model.layers.*.v_proj": "colwise",
        "model.layers.*.o_proj": "rowwise",
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
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)
        for layer in self.layers:
            hidden_states = hidden_states + layer(hidden_states, **kwargs)
        return (hidden_states,)


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
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)
        for layer in self.layers:
            hidden_states = hidden_states + layer(hidden_states, **kwargs)
        return (hidden_states,)


def eager(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = torch.softmax(query @ key.transpose(2, 3) * scaling, dim=-1)
    return (weights @ value).transpose(1, 2), weights
```

Fix safety
----------
There is no fix: whether a name is to go or to be changed is for the author to say. The advice
names the module where only one can be meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.plans._models import PlannedModel, plan_finding, planned_models
from modelcheck.source.classes import ClassInfo
from modelcheck.source.plans import Entry, generic_name

CODE = "MC802"


def check(context: Context) -> Iterable[Finding]:
    """One finding for a plan of which nothing matches, else one for each stale entry."""
    for models in planned_models(context):
        model = models[0]
        if any(m.plan is None for m in models):
            continue
        entries = model.plan.entries if model.plan is not None else ()
        stale = [e for e in entries if e.pattern is not None and _is_stale(e, models)]
        if not stale:
            continue
        hints = [f"{e.key!r} is {hint!r}" for e in stale if (hint := _nearest(e, models))]
        advice = "Name the modules as they are below the base model, without its own prefix"
        advice += f": {'; '.join(hints)}." if hints else "."
        if len(stale) == len(entries):
            message = (
                f"none of the {len(stale)} names of the tensor-parallel plan is a module of "
                f"{model.info.name}: what vLLM does not fuse, every rank holds in full"
            )
            yield plan_finding(context, CODE, Severity.SLOW, model, stale[0], message, advice)
            continue
        for entry in stale:
            if not _is_own(entry, model):
                continue
            message = f"{entry.key!r} of the tensor-parallel plan names no module of the model"
            hint = _nearest(entry, models)
            yield plan_finding(
                context,
                CODE,
                Severity.INFO,
                model,
                entry,
                message,
                f"Name it {hint!r}." if hint else "Take the entry out, or name what is there.",
            )


def _is_own(entry: Entry, model: PlannedModel) -> bool:
    """Is the entry the author's own, not one of a borrowed configuration class?"""
    owner = entry.owner
    return owner is not None and _folder(owner) == _folder(model.info)


def _folder(info: ClassInfo) -> Path:
    return info.file.location.parent


def _is_stale(entry: Entry, models: Sequence[PlannedModel]) -> bool:
    """Is there nothing, under any setting, that the entry could name?

    A module that other settings would build has its name in the source all the same.
    """
    for model in models:
        if any(entry.matches(path) for path in model.names.everything()):
            return False
        if any(entry.may_match_below(path) for path in model.names.open):
            return False
    if _candidate(entry, models):
        return True
    parts = [part for part in entry.key.split(".") if part.isidentifier()]
    sources = {i.info.file.source.text for m in models for i in m.names.instances.values()}
    assigned = [any(_names(part, text) for text in sources) for part in parts]
    return not all(assigned)


def _names(part: str, text: str) -> bool:
    """Is it an attribute of self somewhere, or a string of its own (for setattr)?"""
    return re.search(rf"self\.{part}\b|[\"']{part}[\"']", text) is not None


def _candidate(entry: Entry, models: Sequence[PlannedModel]) -> str:
    """The path without the base model's own prefix, if that is there."""
    head, _, rest = entry.key.partition(".")
    prefix = models[0].info.find_attribute("base_model_prefix")
    prefixes = {"model", getattr(prefix[1], "value", None) if prefix else None}
    if not rest or head not in prefixes:
        return ""
    return rest if rest in _generic(models) else ""


def _nearest(entry: Entry, models: Sequence[PlannedModel]) -> str:
    """What the entry should say: without the prefix, or the only module with its last name."""
    last = entry.key.rpartition(".")[2]
    same = [name for name in _generic(models) if name.rpartition(".")[2] == last]
    return _candidate(entry, models) or (same[0] if len(same) == 1 else "")


def _generic(models: Sequence[PlannedModel]) -> set[str]:
    return {generic_name(path) for model in models for path in model.names.everything()}
