"""vLLM reads another head size or number of key and value heads than the model has.

What it does
------------
Compares the key projection that vLLM fuses with what vLLM reads in the configuration: the head
size from `head_dim`, else `hidden_size // num_attention_heads`; the number of key and value
heads from the first of `n_head_kv`, `num_kv_heads`, `num_key_value_heads`,
`multi_query_group_num`, `num_attention_groups`, else `num_attention_heads`.

Why it matters
--------------
vLLM lays out the KV cache with these numbers (all releases). The model loads, and its keys and
values have another shape than the cache.

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
        kv_groups=2,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.kv_groups = kv_groups
        super().__init__(**kwargs)


class MyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        width = config.kv_groups * self.head_dim
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
    attribute_map = {"num_key_value_heads": "kv_groups"}

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        kv_groups=2,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.kv_groups = kv_groups
        super().__init__(**kwargs)


class MyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        width = config.kv_groups * self.head_dim
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
There is no fix: an `attribute_map` changes what the configuration saves.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.config._settings import settings_of
from modelcheck.rules.plans._models import PlannedModel, planned_models
from modelcheck.source.bodies import headline
from modelcheck.source.repo_config import KV_HEADS, RepoConfig

CODE = "MC320"
ANYWHERE = ("is_heterogeneous", "per_layer_config", "kv_lora_rank")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each attention class whose heads vLLM counts otherwise."""
    reported: set[str] = set()
    for models in planned_models(context):
        for model in models[:1]:
            settings = settings_of(context, model.config)
            if any(settings.value(name).value for name in ANYWHERE):
                continue
            for built in model.tree.modules:
                info = built.info
                if built.index is None or info.name in reported or info.file is not context.file:
                    continue
                problem = _problem(model, built.path, settings)
                if not problem:
                    continue
                reported.add(info.name)
                message, advice = problem
                yield context.finding(
                    CODE, Severity.ERROR, info, headline(info.node), message, advice
                )


def _problem(model: PlannedModel, path: str, settings: RepoConfig) -> tuple[str, str] | None:
    instance = model.names.instances[path]
    results = model.fused_of(instance)
    fused = next((r for r in results or () if r.fuser == "QKV"), None)
    size = instance.attributes.get("head_dim")
    if fused is None or not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        return None
    shards = {shard: name for name, shard in fused.shards}
    key = model.names.linears.get(f"{path}.{shards.get('k')}")
    if key is None or key.outputs is None or key.outputs % size:
        return None
    taken = settings.head_size
    if taken is not None and taken != size:
        return (
            f"its heads are {size} wide, and vLLM takes {taken} from the configuration "
            "(head_dim, else hidden_size // num_attention_heads)",
            "Give the configuration a head_dim, with attribute_map if it has another name.",
        )
    heads, kv = key.outputs // size, settings.kv_heads
    if not kv.exists or not isinstance(kv.value, int) or kv.value == heads:
        return None
    return (
        f"it has {heads} key and value heads, and vLLM takes {kv.value} from {kv.name}: the "
        "KV cache gets another shape",
        f"Name their number num_key_value_heads, or map it: attribute_map = "
        f'{{"num_key_value_heads": ...}} (vLLM reads {", ".join(KV_HEADS)}).',
    )
