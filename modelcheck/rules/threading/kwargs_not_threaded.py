"""`**kwargs` do not travel from the base model to the attention interface.

What it does
------------
Follows the calls from the base model's forward through the layers to the attention and its
interface call, and reports each forward on the way that takes no `**kwargs` and each call that does
not pass them on. Calls to norms and MLPs, and calls made by a checkpoint wrapper, are left alone.

Why it matters
--------------
To 0.29 vLLM handed its attention state down through `**kwargs`; where they stop, the first forward
fails. Since 0.30 nothing of vLLM's own travels there, but transformers and other engines still pass
per-request state that way, so the gap is a note.

Example
-------
```python
from torch import nn
from transformers import LlamaConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
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


class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = ToyAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask)
        return hidden_states + output


class ToyPreTrainedModel(PreTrainedModel):
    config_class = LlamaConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.post_init()

    def forward(
        self,
        input_ids=None,
        inputs_embeds=None,
        attention_mask=None,
        position_ids=None,
        **kwargs,
    ):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, attention_mask=attention_mask, position_ids=position_ids, **kwargs
            )
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Use instead
-----------
```python
from torch import nn
from transformers import LlamaConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
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


class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = ToyAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        return hidden_states + output


class ToyPreTrainedModel(PreTrainedModel):
    config_class = LlamaConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.post_init()

    def forward(
        self,
        input_ids=None,
        inputs_embeds=None,
        attention_mask=None,
        position_ids=None,
        **kwargs,
    ):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, attention_mask=attention_mask, position_ids=position_ids, **kwargs
            )
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Fix safety
----------
Safe: `**kwargs` are added to the signature and the call; nothing is renamed and no value changes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.attention import Attention, Dispatch, attention_of
from modelcheck.source.bodies import headline
from modelcheck.source.callpath import (
    Hop,
    children,
    hops,
    is_head_model,
    is_other_modality,
    text_models,
)
from modelcheck.source.classes import ClassInfo, FunctionNode

CODE = "MC201"
_CROSS = re.compile(r"cross|encoder", re.IGNORECASE)


def check(context: Context) -> Iterable[Finding]:
    """Walk from every base model down to the attention classes that dispatch."""
    walk = _Walk(context)
    for model in text_models(context.file):
        if not is_head_model(model):
            walk.visit(model)
    return walk.findings


def _is_other_sequence(hop: Hop, below: list[ClassInfo]) -> bool:
    """Is it a call of cross-attention, which has no KV cache of vLLM's?"""
    return bool(_CROSS.search(hop.attr)) and any(attention_of(c) is not None for c in below)


class _Walk:
    """One file's walk; every gap is reported once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.findings: list[Finding] = []
        self._visited: set[ClassInfo] = set()
        self._reported: set[ast.AST] = set()
        self._leads: dict[ClassInfo, bool] = {}

    def visit(self, info: ClassInfo) -> None:
        """Check one class on the way, then those it calls."""
        if info in self._visited:
            return
        self._visited.add(info)
        attention = attention_of(info)
        if attention is not None and attention.dispatch is Dispatch.INTERFACE:
            self._interface(attention)
            return
        for hop in hops(info):
            held = [c.cls for c in children(info) if c.attr == hop.attr]
            below = [c for c in held if isinstance(c, ClassInfo) and self._leads_on(c)]
            if not below or _is_other_sequence(hop, below):
                continue
            if isinstance(hop.call.func, ast.Subscript) and len(below) < len(held):
                continue  # an element of a mixed list: it may be the MLP
            if hop.function.name == "forward":  # kwargs of other methods cannot be followed
                self._check(info, hop.owner, hop.function, hop.call)
            for cls in below:
                self.visit(cls)

    def _interface(self, attention: Attention) -> None:
        assert attention.call is not None
        self._check(attention.info, attention.owner, attention.function, attention.call)

    def _check(
        self, info: ClassInfo, owner: ClassInfo, function: FunctionNode, call: ast.Call
    ) -> None:
        if owner.file is not self.context.file:
            return
        name = f"{owner.name}.forward"
        if function.args.kwarg is None and function not in self._reported:
            self._report(owner, function, "signature", "", f"{name} takes no **kwargs")
        if not any(k.arg is None for k in call.keywords) and call not in self._reported:
            callee = ast.unparse(call.func)
            self._report(owner, call, "call", callee, f"{name} does not pass **kwargs to {callee}")

    def _report(
        self, owner: ClassInfo, node: FunctionNode | ast.Call, gap: str, callee: str, what: str
    ) -> None:
        self._reported.add(node)
        needed = self.context.contract.state_in_kwargs
        effect = "vLLM's attention state does not arrive" if needed else "other engines need them"
        self.findings.append(
            self.context.finding(
                CODE,
                Severity.ERROR if needed else Severity.INFO,
                owner,
                node if isinstance(node, ast.Call) else headline(node),
                f"{what}: {effect}.",
                "Add **kwargs to the signature." if not callee else f"Pass **kwargs to {callee}.",
                Fix(
                    "thread_kwargs",
                    "Thread **kwargs down to the attention interface",
                    data={"gap": gap, "callee": callee},
                ),
            )
        )

    def _leads_on(self, info: ClassInfo) -> bool:
        """Is there an attention at or below this class that dispatches?"""
        if info not in self._leads:
            self._leads[info] = False  # ends a cycle
            attention = attention_of(info)
            if attention is not None:
                reaches = attention.dispatch is Dispatch.INTERFACE and not attention.is_cross
            else:
                reaches = not is_other_modality(info) and any(
                    isinstance(c.cls, ClassInfo) and self._leads_on(c.cls) for c in children(info)
                )
            self._leads[info] = reaches
        return self._leads[info]
