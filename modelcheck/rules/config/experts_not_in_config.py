"""vLLM does not find the number, choice or width of the experts in the configuration.

What it does
------------
Looks for a model with experts that vLLM would replace, whose configuration has none of the
names under which vLLM looks for the number of experts, the number of experts per token, and
their width.

Why it matters
--------------
Without the first vLLM (0.25 to 0.33) takes the model for a dense one and runs the experts as
they are written, unfused. Without the others it stops at an assertion without a text. Where the
configuration class leaves such a number at None, it is for config.json to give it: that is only
noted (`info`) while there is no config.json to look at.

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
        num_experts=4,
        experts_used=2,
        intermediate_size=128,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.num_experts = num_experts
        self.experts_used = experts_used
        self.intermediate_size = intermediate_size
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
        self.moe = MyMoE(config)

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
        return self.moe(self.o_proj(output))


class MyExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(config.num_experts, 256, config.hidden_size))
        self.down_proj = nn.Parameter(torch.empty(config.num_experts, config.hidden_size, 128))

    def forward(self, hidden_states, top_k_index, top_k_weights):
        output = torch.zeros_like(hidden_states)
        for expert in range(self.down_proj.shape[0]):
            row, slot = torch.where(top_k_index == expert)
            gate, up = (hidden_states[row] @ self.gate_up_proj[expert].T).chunk(2, dim=-1)
            value = (nn.functional.silu(gate) * up) @ self.down_proj[expert].T
            output.index_add_(0, row, value * top_k_weights[row, slot, None])
        return output


class MyRouter(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.top_k = config.experts_used
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_size))

    def forward(self, hidden_states):
        scores = nn.functional.linear(hidden_states, self.weight).softmax(dim=-1)
        weights, index = torch.topk(scores, self.top_k, dim=-1)
        return scores, weights, index


class MyMoE(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = MyRouter(config)
        self.experts = MyExperts(config)

    def forward(self, hidden_states):
        shape = hidden_states.shape
        hidden_states = hidden_states.view(-1, shape[-1])
        _, weights, index = self.gate(hidden_states)
        return self.experts(hidden_states, index, weights).view(shape)


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

    attribute_map = {"num_experts_per_tok": "experts_used"}

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_experts=4,
        experts_used=2,
        intermediate_size=128,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.num_experts = num_experts
        self.experts_used = experts_used
        self.intermediate_size = intermediate_size
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
        self.moe = MyMoE(config)

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
        return self.moe(self.o_proj(output))


class MyExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(config.num_experts, 256, config.hidden_size))
        self.down_proj = nn.Parameter(torch.empty(config.num_experts, config.hidden_size, 128))

    def forward(self, hidden_states, top_k_index, top_k_weights):
        output = torch.zeros_like(hidden_states)
        for expert in range(self.down_proj.shape[0]):
            row, slot = torch.where(top_k_index == expert)
            gate, up = (hidden_states[row] @ self.gate_up_proj[expert].T).chunk(2, dim=-1)
            value = (nn.functional.silu(gate) * up) @ self.down_proj[expert].T
            output.index_add_(0, row, value * top_k_weights[row, slot, None])
        return output


class MyRouter(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.top_k = config.experts_used
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_size))

    def forward(self, hidden_states):
        scores = nn.functional.linear(hidden_states, self.weight).softmax(dim=-1)
        weights, index = torch.topk(scores, self.top_k, dim=-1)
        return scores, weights, index


class MyMoE(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = MyRouter(config)
        self.experts = MyExperts(config)

    def forward(self, hidden_states):
        shape = hidden_states.shape
        hidden_states = hidden_states.view(-1, shape[-1])
        _, weights, index = self.gate(hidden_states)
        return self.experts(hidden_states, index, weights).view(shape)


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
There is no fix: an `attribute_map` changes what the configuration saves.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.fusers.ast_facts import AstFacts
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Undecided
from modelcheck.graph.values import Instance, Module
from modelcheck.rules.base import Context
from modelcheck.rules.config._settings import settings_of
from modelcheck.rules.plans._models import PlannedModel, planned_models
from modelcheck.source.bodies import headline
from modelcheck.source.repo_config import (
    EXPERT_COUNT,
    EXPERT_WIDTH,
    Origin,
    RepoConfig,
    Setting,
)

CODE = "MC321"
DOES_NOT_SAY = "vLLM finds no {what} in the configuration ({names})"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each model with experts whose configuration vLLM cannot read."""
    for models in planned_models(context):
        model = models[0]
        blocks = [i for i in model.names.instances.values() if _has_experts(i, context.contract)]
        if not blocks or len(models) != sum(_any_experts(m, context.contract) for m in models):
            continue
        problem = _problem(settings_of(context, model.config), context.contract)
        if problem is None:
            continue
        severity, message, advice = problem
        info = blocks[0].info
        where = info if info.file is context.file else model.info
        yield context.finding(CODE, severity, where, headline(where.node), message, advice)


def _any_experts(model: PlannedModel, contract: Contract) -> bool:
    return any(_has_experts(i, contract) for i in model.names.instances.values())


def _has_experts(instance: Instance, contract: Contract) -> bool:
    value = instance.attributes.get("experts")
    if not isinstance(value, Module):
        return False
    try:
        return AstFacts(value, contract).is_expert_store
    except Undecided:
        return False


def _problem(settings: RepoConfig, contract: Contract) -> tuple[Severity, str, str] | None:
    count = settings.first(EXPERT_COUNT)
    if _missing(count, settings) or (count.exists and count.value == 0):
        return (
            Severity.SLOW,
            f"{_says('number of experts', EXPERT_COUNT)}: it does not take the model for a "
            "mixture of experts, and runs the experts as they are written",
            _advice(EXPERT_COUNT[0]),
        )
    if not count.exists:
        return None
    for what, names in (
        ("number of experts per token", contract.moe_topk_aliases),
        ("width of an expert", EXPERT_WIDTH),
    ):
        found = settings.first(names)
        if _missing(found, settings):
            return Severity.ERROR, f"{_says(what, names)} and does not load", _advice(names[0])
        if found.exists and found.value is None:
            return (
                Severity.INFO,
                f"{found.name} is None by default, and vLLM does not load without the {what}",
                f"Give {found.name} in every config.json, or a default.",
            )
    return None


def _missing(setting: Setting, settings: RepoConfig) -> bool:
    """Is it not there? A default of None is judged only with the config.json that could say it."""
    if setting.origin is Origin.ABSENT:
        return True
    return setting.exists and setting.value is None and bool(settings.given)


def _says(what: str, names: tuple[str, ...]) -> str:
    return DOES_NOT_SAY.format(what=what, names=", ".join(names))


def _advice(name: str) -> str:
    return (
        f'Name it {name}, or map it in the configuration class: attribute_map = {{"{name}": ...}}.'
    )
