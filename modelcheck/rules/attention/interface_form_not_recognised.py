"""The attention interface is used in a form that vLLM does not recognise.

What it does
------------
Reports an attention whose forward, a method or function it calls, or parent class names
`ALL_ATTENTION_FUNCTIONS`, but not in the one accepted form: one local assigned from the bare name
(`get_interface(…)` or a subscript) and exactly one call of that local, both in forward itself.
Not accepted are `:=`, a conditional expression, `self.fn = …`, a call without a local, an import
alias, a name read through its module, a lookup in a helper or in `super().forward`, two calls.

Why it matters
--------------
Since 0.30 vLLM finds attention by reading the source of forward. What it does not recognise is a
layer that "does not dispatch": the model is refused, although it runs under transformers.

Example
-------
```python
from torch import nn
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

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        interface = (
            ALL_ATTENTION_FUNCTIONS["sdpa"] if self.training else eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights
```

Use instead
-----------
```python
from torch import nn
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

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights
```

Fix safety
----------
No fix yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import Attention, Dispatch
from modelcheck.source.bodies import headline
from modelcheck.source.layers import undispatched

CODE = "MC103"


def check(context: Context) -> Iterable[Finding]:
    """Look at every layer below a text model."""
    for attention in undispatched(context.file):
        if attention.dispatch is Dispatch.UNRECOGNISED:
            yield _finding(context, attention)


def _finding(context: Context, attention: Attention) -> Finding:
    refused = context.contract.refuses_undispatched
    effect = "vLLM refuses the layer" if refused else "vLLM 0.30 and later refuse the layer"
    where = attention.core if attention.here else None
    return context.finding(
        CODE,
        Severity.ERROR if refused else Severity.INFO,
        attention.info,
        where or headline(attention.info.node),
        f"{attention.info.name}.forward {attention.form}: {effect}.",
        "In forward, assign ALL_ATTENTION_FUNCTIONS.get_interface("
        "self.config._attn_implementation, eager) to one local and call that local once.",
    )
