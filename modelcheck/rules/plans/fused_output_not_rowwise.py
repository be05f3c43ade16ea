"""What follows a fused projection is not cut as the projection is.

What it does
------------
Looks for a module whose projections vLLM merges, where vLLM does not see the layer that takes
their output (a dropout or a norm lies between, or another module holds it) and the
tensor-parallel plan does not make that layer `rowwise`.

Why it matters
--------------
vLLM cuts merged projections by columns whatever the plan says, and makes the layer behind them
`rowwise` only if it finds it. Else that layer expects the whole width, and with a
tensor-parallel size above 1 the first forward fails (0.25 to 0.33).

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
        self.mlp = MyMLP(config)

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
        return self.mlp(self.o_proj(output))


class MyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, 256, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, 256, bias=False)
        self.down_proj = nn.Linear(256, config.hidden_size, bias=False)
        self.act_fn = nn.SiLU()
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden_states):
        gated = self.act_fn(self.gate_proj(hidden_states)) * self.up_proj(hidden_states)
        return self.down_proj(self.dropout(gated))


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
        "layers.*.mlp.down_proj": "rowwise",
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
        self.mlp = MyMLP(config)

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
        return self.mlp(self.o_proj(output))


class MyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, 256, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, 256, bias=False)
        self.down_proj = nn.Linear(256, config.hidden_size, bias=False)
        self.act_fn = nn.SiLU()
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden_states):
        gated = self.act_fn(self.gate_proj(hidden_states)) * self.up_proj(hidden_states)
        return self.down_proj(self.dropout(gated))


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
There is no fix: the plan may be in another file than the module.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.fusers.ast_facts import AstFacts
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Env, Undecided
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.fusers.select import outcomes
from modelcheck.graph.values import Module
from modelcheck.rules.base import Context
from modelcheck.rules.names import Linear
from modelcheck.rules.plans._held_elsewhere import taker_elsewhere
from modelcheck.rules.plans._models import (
    Fate,
    PlannedModel,
    head_size,
    merged_names,
    planned_models,
)
from modelcheck.source.bodies import headline
from modelcheck.source.plans import ROWS, generic_name

CODE = "MC808"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each class of the file."""
    reported: set[str] = set()
    for models in planned_models(context):
        model = models[0]
        if any(m.plan is None for m in models):
            continue
        for path, instance in model.members():
            info = instance.info
            if info.name in reported or info.file is not context.file:
                continue
            for result in model.fused_of(instance) or ():
                whole = _takers(model, path, result, context.contract)
                if not whole or not _fits(model, path, result, whole):
                    continue
                if not _output_is_lost(model, path, result, context.contract):
                    continue
                reported.add(info.name)
                names = " and ".join(dict.fromkeys(_named(linear, path) for linear in whole))
                merged = ", ".join(merged_names(result))
                yield context.finding(
                    CODE,
                    Severity.ERROR,
                    info,
                    headline(info.node),
                    f"vLLM cuts {merged} into columns for tensor parallelism, and {names} "
                    "expects their whole width",
                    f'Add "{generic_name(whole[0].path)}": "rowwise" to base_model_tp_plan.',
                    tp_only=True,
                )
                break


def _named(linear: Linear, path: str) -> str:
    owner = "" if linear.owner_path == path else f" of {linear.owner.info.name}"
    return f"{linear.name}{owner}"


def _takers(
    model: PlannedModel, path: str, result: FusionResult, contract: Contract
) -> list[Linear]:
    """The linear layers left for the output, when none is cut by rows, as the value needs.

    Those of the module itself; without any, the one of another module that takes its output.
    """
    if result.fuser == "MLA" or "output" in dict(result.details):
        return []
    merged = merged_names(result)
    others = [
        linear
        for linear in model.names.linears.values()
        if linear.owner_path == path and linear.name not in merged
    ]
    if not others:
        elsewhere = taker_elsewhere(model, path, result, contract)
        others = [elsewhere] if elsewhere is not None else []
    if not others or any(model.fate(linear) is not Fate.PLANNED for linear in others):
        return []
    styles = [model.style(linear) for linear in others]
    return [] if None in styles or ROWS in styles else others


def _output_is_lost(
    model: PlannedModel, path: str, result: FusionResult, contract: Contract
) -> bool:
    """Is it certain, for this very module, that vLLM finds no output projection?"""
    module = _module_at(model, path)
    if module is None:
        return False
    facts = AstFacts(module, contract)
    try:
        if facts.graph().doubt:
            return False
        found = outcomes(facts, Env(contract, head_size=head_size(model))).get(result.fuser)
    except Undecided:
        return False
    return found is not None and found.fires is Fires.YES and "output" not in dict(found.details)


def _module_at(model: PlannedModel, path: str) -> Module | None:
    owner, _, name = path.rpartition(".")
    instance = model.names.instances.get(owner)
    value = instance.attributes.get(name) if instance is not None else model.names.modules.get(path)
    members = getattr(model.names.modules.get(owner), "items", None)
    if isinstance(members, list) and name.isdigit() and int(name) < len(members):
        value = members[int(name)]  # one of a list of layers
    return value if isinstance(value, Module) else None


def _fits(model: PlannedModel, path: str, result: FusionResult, others: list[Linear]) -> bool:
    """Is there one layer left, and does it take what a merged one gives?"""
    widths = {
        linear.outputs
        for linear in model.names.linears.values()
        if linear.owner_path == path and linear.name in merged_names(result)
    }
    widths |= set(result.rows)  # of one packed projection, the part of the queries
    return len(others) == 1 and others[0].inputs is not None and others[0].inputs in widths
