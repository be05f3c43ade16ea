"""The model cannot be cut into pipeline stages.

What it does
------------
Counts the `nn.ModuleList`s among the modules between which vLLM cuts: those that
`base_model_pp_plan` names, or without a plan the direct children of the base model that have
parameters.

Why it matters
--------------
With a pipeline-parallel size above 1 vLLM (0.25 to 0.33) needs exactly one: "Could not find
`ModuleList` in ...", or "Pipeline parallel of models with multiple `ModuleList`s ...". Without
pipeline parallelism it does not matter.

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
        "adapters.*": "replicate",
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
        self.adapters = nn.ModuleList(
            [nn.Linear(config.hidden_size, config.hidden_size) for _ in self.layers]
        )
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)
        for layer, adapter in zip(self.layers, self.adapters):
            hidden_states = adapter(hidden_states + layer(hidden_states, **kwargs))
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
        self.adapter = nn.Linear(config.hidden_size, config.hidden_size)

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
        return self.adapter(self.o_proj(output))


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
There is no fix: moving modules renames the weights.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.graph.values import Instance, Module
from modelcheck.rules.base import Context
from modelcheck.rules.plans._models import PlannedModel, planned_models
from modelcheck.source.basemodel import DECODER_ATTRIBUTES
from modelcheck.source.bodies import headline

CODE = "MC810"
LISTS = "torch.nn.ModuleList"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each model that certainly cannot be cut into stages."""
    for models in planned_models(context):
        problems = {_problem(model) for model in models}
        problem = problems.pop()
        if problems or not problem:
            continue
        info = models[0].info
        yield context.finding(
            CODE,
            Severity.INFO,
            info,
            headline(info.node),
            f"{problem}: vLLM refuses the model with pipeline parallelism, and with that only",
            "Keep the layers in one ModuleList of the base model, and name it in "
            "base_model_pp_plan between what comes before and what comes after.",
        )


def _problem(model: PlannedModel) -> str:
    root = model.names.instances.get("")
    if root is None or root.unknown or model.tree.doubt:
        return ""
    names = _planned_names(model)
    if names is None or any(name in root.attributes for name in DECODER_ATTRIBUTES):
        return ""
    lists = [n for n in (names or _with_parameters(model)) if _is_list(root, n)]
    where = "its pipeline-parallel plan names" if names else f"{model.info.name} has"
    if len(lists) > 1:
        return f"{where} more than one ModuleList ({', '.join(lists)})"
    return "" if lists else f"{where} no ModuleList"


def _planned_names(model: PlannedModel) -> list[str] | None:
    """The names of the plan, [] without one, None where it cannot be told."""
    if model.info.find_attribute("_pp_plan") is not None:
        return None
    declared = model.config.info
    if declared is None:
        return None
    found = declared.find_attribute("base_model_pp_plan")
    plan = model.config.values.get("base_model_pp_plan")
    if plan is None:
        return [] if found is None else None
    if not isinstance(plan, dict) or not all(isinstance(key, str) for key in plan):
        return None
    root = model.names.instances[""]
    direct = [key for key in plan if key in root.attributes]
    return direct if len(direct) == len(plan) else None


def _with_parameters(model: PlannedModel) -> list[str]:
    """The direct children that vLLM would cut between."""
    found = {path.partition(".")[0] for path in model.names.parameters}
    return [name for name in model.names.instances[""].children if name in found]


def _is_list(root: Instance, name: str) -> bool:
    value = root.attributes.get(name)
    if not isinstance(value, Module):
        return False
    if value.info is not None:
        return any(base.endswith("nn.ModuleList") for base in value.info.external_bases)
    return value.dotted == LISTS
