"""A norm or a parameter as wide as a projection is applied to its output.

What it does
------------
Follows the outputs of projections that tensor parallelism cuts to an `nn.LayerNorm` over the
whole width, and to a parameter of the whole width that is added or multiplied.

Why it matters
--------------
With a tensor-parallel size above 1 a rank has a part of the width, and the first forward
fails. Only an RMSNorm that vLLM fuses gathers the parts first (0.30 to 0.33).

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
        self.q_norm = nn.LayerNorm(config.hidden_size)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        query = self.q_proj(hidden_states)
        key = self.k_proj(hidden_states)
        value = self.v_proj(hidden_states)
        query = self.q_norm(query).view(batch, length, -1, self.head_dim)
        key = key.view(batch, length, -1, self.head_dim)
        value = value.view(batch, length, -1, self.head_dim)
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
        self.q_norm = nn.LayerNorm(self.head_dim)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        query = self.q_proj(hidden_states).view(batch, length, -1, self.head_dim)
        key = self.k_proj(hidden_states).view(batch, length, -1, self.head_dim)
        value = self.v_proj(hidden_states).view(batch, length, -1, self.head_dim)
        query = self.q_norm(query)
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
There is no fix: a norm over one head is another norm.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.graph.core import Node
from modelcheck.graph.values import Module, Parameter
from modelcheck.rules.base import Context
from modelcheck.rules.plans._lines import node_finding
from modelcheck.rules.plans._models import planned_models
from modelcheck.rules.plans._sharded import Forward, forwards

CODE = "MC809"
BROADCAST = ("operator.mul", "operator.add", "operator.sub", "operator.truediv")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each line of a file's own classes."""
    reported: set[int] = set()
    for models in planned_models(context):
        for forward in forwards(models[0], context.contract):
            if forward.instance.info.file is not context.file:
                continue
            for node in forward.certain:
                problem = _norm(forward, node) or _parameter(forward, node)
                if not problem or node.line is None or node.line in reported:
                    continue
                reported.add(node.line)
                yield node_finding(
                    context,
                    CODE,
                    Severity.ERROR,
                    forward,
                    node,
                    problem,
                    "Apply it to one head's values, or plan the projection so that it is not "
                    "cut (an RMSNorm that vLLM fuses is the one norm that knows about cuts).",
                )


def _norm(forward: Forward, node: Node) -> str:
    """A LayerNorm over the whole width of a projection that is cut."""
    if node.op != "call_module" or len(node.args) != 1:
        return ""
    linear = forward.source(node.args[0])
    module = forward.instance.attributes.get(node.target)
    if linear is None or linear.outputs is None or not isinstance(module, Module):
        return ""
    if module.dotted != "torch.nn.LayerNorm":
        return ""
    shape = module.args[0] if module.args else module.kwargs.get("normalized_shape")
    if shape not in (linear.outputs, (linear.outputs,), [linear.outputs]):
        return ""
    return (
        f"{node.target} normalises all {linear.outputs} outputs of {linear.name}, of which a "
        "rank has a part with tensor parallelism"
    )


def _parameter(forward: Forward, node: Node) -> str:
    """A parameter as wide as the projection, combined with its output."""
    if node.op != "call_function" or node.target not in BROADCAST or len(node.args) != 2:
        return ""
    for value, other in (node.args, node.args[::-1]):
        linear = forward.source(value)
        if linear is None or not isinstance(other, Node) or other.op != "get_attr":
            continue
        parameter = forward.instance.attributes.get(other.target)
        if isinstance(parameter, Parameter) and parameter.shape == (linear.outputs,):
            return (
                f"{other.target} has a value for each of the {linear.outputs} outputs of "
                f"{linear.name}, of which a rank has a part with tensor parallelism"
            )
    return ""
