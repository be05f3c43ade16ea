"""A shape or a split names the whole width, of which a rank has its part only.

What it does
------------
Follows the outputs of projections that tensor parallelism cuts (query, key and value that vLLM
merges, and layers planned `colwise`), and the attention's output, to a `view` or `reshape`
whose sizes make up the whole width, and to a `split`, a `chunk` or a slice along it.

Why it matters
--------------
With a tensor-parallel size above 1 a rank has its part of the heads, and the change of shape
fails in the first forward: "shape ... is invalid for input of size ..." (all releases). With
one rank all is well. From vLLM 0.30 any two linear layers of a module that read the same input
become one, cut into columns: a `split` of one's output by its full widths fails as well
("split_with_sizes expects split_sizes to sum exactly to ..."), a `chunk` or a slice takes other
columns without an error.

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
        self.num_heads = config.num_attention_heads
        self.num_key_value_heads = config.num_key_value_heads
        self.scaling = self.head_dim**-0.5
        width = config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        query = self.q_proj(hidden_states).view(batch, length, self.num_heads, self.head_dim)
        key = self.k_proj(hidden_states).view(
            batch, length, self.num_key_value_heads, self.head_dim
        )
        value = self.v_proj(hidden_states).view(
            batch, length, self.num_key_value_heads, self.head_dim
        )
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
There is no fix yet. -1 in the place of the number of heads changes nothing with one rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from modelcheck.findings import Finding, Severity
from modelcheck.graph.core import Node
from modelcheck.rules.base import Context
from modelcheck.rules.plans._lines import node_finding
from modelcheck.rules.plans._models import planned_models
from modelcheck.rules.plans._pieces import Taken, taken_apart
from modelcheck.rules.plans._sharded import Forward, attended, forwards

CODE = "MC807"
RESHAPES = ("view", "reshape")
HEADS = "Write -1 for the number of heads, and for the width behind the attention."


def check(context: Context) -> Iterable[Finding]:
    """One finding for each line of a file's own classes."""
    reported: set[int] = set()
    for models in planned_models(context):
        for forward in forwards(models[0], context.contract):
            if forward.instance.info.file is not context.file:
                continue
            for node in forward.certain:
                shape = _problem(forward, node)
                taken = None if shape else taken_apart(forward, node)
                if not (shape or taken) or node.line is None or node.line in reported:
                    continue
                reported.add(node.line)
                problem = taken.problem if taken else shape
                severity = taken.severity if taken else Severity.ERROR
                advice = _advice(forward, taken) if taken else HEADS
                yield node_finding(context, CODE, severity, forward, node, problem, advice)


def _advice(forward: Forward, taken: Taken) -> str:
    if taken.linear.name not in forward.merged:
        return "Plan the projection so that it is not cut, or take it apart head by head."
    names = " and ".join(sorted(forward.merged))
    return (
        f"Take it apart head by head, or keep vLLM from merging {names}: give one of them the "
        "input through a local name, as in h = x.contiguous()."
    )


def _problem(forward: Forward, node: Node) -> str:
    """What is wrong with a change of shape, "" where nothing is known to be."""
    if node.op != "call_method" or node.target not in RESHAPES or len(node.args) < 2:
        return ""
    value, sizes = node.args[0], _flat(node.args[1:])
    linear = forward.source(value)
    if linear is not None:
        width = linear.outputs
        what = f"the output of {linear.name}"
    elif forward.heads and attended(value):
        width = _attention_width(forward)
        what = "the attention's output"
    else:
        return ""
    if width is None:
        return ""
    full = _product(forward, sizes)
    if full is None or full != width:
        return ""
    shown = " x ".join(str(size) for size in sizes if isinstance(size, int) and size > 0)
    return (
        f"{node.target} takes {what} to be {shown or width} wide: with tensor parallelism a rank "
        "has its part of the heads only"
    )


def _flat(arguments: tuple[Any, ...]) -> list[Any]:
    first = arguments[0]
    return list(first) if isinstance(first, tuple | list) else list(arguments)


def _product(forward: Forward, sizes: list[Any]) -> int | None:
    """The elements that the sizes behind batch and sequence demand; None where one is open.

    Of batch and sequence (read off the input's shape) nothing needs to be known.
    """
    wanted: list[int] = []
    for position, size in enumerate(sizes):
        if isinstance(size, bool):
            return None
        if isinstance(size, int) and size == -1:
            if wanted:
                return None  # it stands for what is left of the width
            continue
        if isinstance(size, int):
            wanted.append(size)
            continue
        axis = _axis(size)
        if axis in (0, 1) and not wanted and position < 2:
            continue
        hidden = _hidden(forward, size) if axis in (2, -1) else None
        if hidden is None:
            return None
        wanted.append(hidden)
    if sizes and sizes[0] == 1 and wanted:
        wanted = wanted[1:]
    return math.prod(wanted) if wanted else None


def _axis(size: Any) -> int | None:
    """Which axis of a forward's input a size is, read off its shape."""
    if not isinstance(size, Node):
        return None
    if size.target == "size" and len(size.args) == 2 and _is_input(size.args[0]):
        return size.args[1] if isinstance(size.args[1], int) else None
    if size.target != "operator.getitem" or not isinstance(size.args[1], int):
        return None
    inner = size.args[0]
    if not isinstance(inner, Node):
        return None
    if inner.target == "operator.getitem":  # shape[:-1][i]
        cut = inner.args[1]
        if cut not in (slice(None, -1, None), slice(None, 2, None)) or size.args[1] < 0:
            return None
        inner = inner.args[0]
    is_shape = inner.target == "builtins.getattr" and inner.args[1:] == ("shape",)
    is_size = inner.target == "size" and len(inner.args) == 1
    return size.args[1] if (is_shape or is_size) and _is_input(inner.args[0]) else None


def _is_input(value: Any) -> bool:
    return isinstance(value, Node) and value.op == "placeholder"


def _hidden(forward: Forward, size: Node) -> int | None:
    """The width of the input that a size is read off, as a projection of it has it."""
    source = _placeholder(size)
    for node in forward.graph:
        linear = forward.linears.get(node.target) if node.op == "call_module" else None
        if linear is not None and node.args and node.args[0] is source:
            return linear.inputs
    return None


def _placeholder(value: Any) -> Any:
    while isinstance(value, Node) and value.op != "placeholder":
        value = value.args[0] if value.args else None
    return value


def _attention_width(forward: Forward) -> int | None:
    """The width of all heads' values: what the output projection takes."""
    for node in forward.graph:
        if node.op != "call_module":
            continue
        linear = forward.linears.get(node.target)
        if linear is None or node.target in forward.sharded:
            continue
        value = node.args[0] if node.args else None
        while isinstance(value, Node) and value.op == "call_method":
            if value.target in RESHAPES and attended(value.args[0]):
                return linear.inputs
            value = value.args[0] if value.args else None
    return None
