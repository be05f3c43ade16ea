"""Query, key and value projections do not become one QKVParallelLinear.

What it does
------------
Finds three projections that look like query, key and value and says which line keeps vLLM from
merging them.

Why it matters
--------------
vLLM (0.25 to 0.33, ``QKVFuser``) merges exactly three Linears that read one argument of the
forward, each called once as ``self.name(argument)``. From 0.30 nothing between the first and
the last of them may write to something that could share the argument's memory, which vLLM
assumes of every value that is not a chain of methods on a projection. Missed, the model makes
three matrix products instead of one, and the heads are not sharded together.

Example
-------
```python
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def eager_attention_forward(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = (query @ key.transpose(2, 3) * scaling).softmax(dim=-1)
    return (weights @ value).transpose(1, 2), weights


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        self.is_causal = True
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        input_shape = hidden_states.shape[:-1]
        shape = (*input_shape, -1, self.head_dim)
        query = (self.q_proj(hidden_states) * self.scaling).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        out, weights = attention_interface(
            self, query, key, value, attention_mask, scaling=1.0, **kwargs
        )
        return self.o_proj(out.reshape(*input_shape, -1)), weights
```

Use instead
-----------
```python
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def eager_attention_forward(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = (query @ key.transpose(2, 3) * scaling).softmax(dim=-1)
    return (weights @ value).transpose(1, 2), weights


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        self.is_causal = True
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        input_shape = hidden_states.shape[:-1]
        shape = (*input_shape, -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        out, weights = attention_interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(out.reshape(*input_shape, -1)), weights
```

Fix safety
----------
Safe for branches on `config.pretraining_tp > 1`, which go, where the configuration says 1; unsafe
where it may say more. Unsafe for branches on `key_value_states`, which go where nothing in the file
gives them (attention that is always given them keeps the branches, in a subclass), and for one
input to each projection, which become one where every call in the file gives the same. No other
fix yet: arithmetic has to move behind the last projection by hand.
"""

from collections.abc import Iterator

from modelcheck.findings import Finding, Fix
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import finding, misses
from modelcheck.rules.qkv._one_input import one_input
from modelcheck.rules.qkv._own_sequence import own_sequence
from modelcheck.rules.settings import unsliced
from modelcheck.source.classes import ClassInfo

CODE = "MC701"
BETTER = ("MLA", "PackedQKV")


def check(context: Context) -> Iterator[Finding]:
    """One finding per attention whose three projections stay apart."""
    for miss in misses(context, "QKV", unless=BETTER):
        yield finding(
            context,
            CODE,
            miss,
            f"The query, key and value projections of {miss.prediction.info.name} stay apart: "
            f"{miss.result.reason}.",
            "Call each once as self.name(argument) on the same argument of forward, with "
            "nothing but view, transpose and the like until the last of them ran.",
            _fix(context, miss.prediction.info),
        )


def _fix(context: Context, info: ClassInfo) -> Fix | None:
    return unsliced(context, info) or own_sequence(context, info) or one_input(context, info)
