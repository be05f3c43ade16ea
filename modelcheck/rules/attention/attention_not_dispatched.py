"""Attention is computed in place and never reaches the attention interface.

What it does
------------
Reports the self-attention of a text model's layers when its forward computes attention itself
(softmax between two products, `scaled_dot_product_attention`, a flash or xformers kernel) and
nothing in the layer reads `ALL_ATTENTION_FUNCTIONS`. Cross-attention and the attention of image,
sound and video towers are left alone: vLLM keeps them as they are.

Why it matters
--------------
vLLM puts its paged attention where a module calls the attention interface. Since 0.30 a layer
without such a module is refused: `Layer 0 does not dispatch through the Transformers attention
interface`. To 0.29 it was accepted and attended over all requests of the batch at once, without
a KV cache: wrong numbers and no error.

Example
-------
```python
import torch
from torch import nn


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
        scores = torch.matmul(query, key.transpose(2, 3)) * self.scaling
        weights = torch.softmax(scores + attention_mask, dim=-1)
        output = torch.matmul(weights, value).transpose(1, 2)
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
Unsafe fix. The statements that compute attention move unchanged into a module-level eager
function, so the numbers of `attn_implementation="eager"` stay the same; the scale becomes an
attribute of the module, a configuration and a layer index that the constructor receives are
kept. It rests on this: other implementations compute the same attention with their own rounding,
return no weights and ignore a head mask, and no key comes from another sequence. What is added to
the scores for a setting that the configuration does not have goes, and the constructor then refuses
that setting. Left alone, with the line: ALiBi and other biases, cross-attention, weights that are
used for more than being returned, and whatever is not plainly softmax of scaled products.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.settings import compared
from modelcheck.source.attention import Attention, Dispatch
from modelcheck.source.bodies import headline
from modelcheck.source.callpath import children
from modelcheck.source.classes import FileIndex
from modelcheck.source.layers import undispatched

CODE = "MC101"
FIX = Fix(
    "attention_to_interface",
    "Move the computation into an eager function and call the attention interface",
    Safety.UNSAFE,
)


def check(context: Context) -> Iterable[Finding]:
    """Look at every layer below a text model."""
    missing = [a for a in undispatched(context.file) if a.dispatch is Dispatch.INLINE]
    tables = _tables(context.file) if missing else {}
    for attention in missing:
        yield _finding(context, attention, tables.get(attention.info.name, ""))


def _finding(context: Context, attention: Attention, table: str) -> Finding:
    name = attention.info.name
    if table:
        what = f"{name} is chosen from the class table {table} and never reaches"
        advice = (
            "Keep one attention class that calls the interface and delete the table and its "
            "other classes."
        )
    else:
        what = f"{name} computes attention itself and never reaches"
        advice = (
            "Bind ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager) "
            "to a local and call it once; keep the present code as the eager function."
        )
    if context.contract.refuses_undispatched:
        severity, effect = Severity.ERROR, "vLLM refuses the layer"
    else:
        severity, effect = Severity.WRONG, "requests of one batch attend to each other"
    node = attention.core
    own = attention.info.node
    line = getattr(node, "lineno", 0)
    if node is None or not (attention.here and own.lineno <= line <= (own.end_lineno or 0)):
        node = headline(attention.function if attention.here else own)
    return context.finding(
        CODE,
        severity,
        attention.info,
        node,
        f"{what} the attention interface ALL_ATTENTION_FUNCTIONS: {effect}.",
        advice,
        replace(FIX, data=compared(context, attention.info)) if attention.here else None,
    )


def _tables(file: FileIndex) -> dict[str, str]:
    """Class name to the dict that it is looked up in."""
    return {
        child.type_name: child.table
        for info in file.classes.values()
        if info.is_module
        for child in children(info)
        if child.table
    }
