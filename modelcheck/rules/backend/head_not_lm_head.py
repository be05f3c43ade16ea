"""The head of a causal language model is not called `lm_head`.

What it does
------------
Looks for a causal language model whose head, one linear layer, has another name, and whose
weight a checkpoint has: nothing ties it to the embeddings. A checkpoint at hand is looked into
instead.

Why it matters
--------------
vLLM (every release) builds the base model and a head of its own, `lm_head`. It has no place for
`output.weight`, and the load ends in "There is no module or parameter named 'output'".

Example
-------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        head_dim=16,
        num_attention_heads=4,
        num_hidden_layers=4,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.head_dim = head_dim
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        self.logit_scale = 1 / 8.0
        super().__init__(**kwargs)


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
    config_class = ToyConfig
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

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


class ToyForCausalLM(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = ToyModel(config)
        self.output = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, **kwargs):
        hidden_states = self.model(input_ids=input_ids, **kwargs).last_hidden_state
        logits = self.output(hidden_states)
        return CausalLMOutput(logits=logits)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        head_dim=16,
        num_attention_heads=4,
        num_hidden_layers=4,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.head_dim = head_dim
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        self.logit_scale = 1 / 8.0
        super().__init__(**kwargs)


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
    config_class = ToyConfig
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

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


class ToyForCausalLM(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = ToyModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, **kwargs):
        hidden_states = self.model(input_ids=input_ids, **kwargs).last_hidden_state
        logits = self.lm_head(hidden_states)
        return CausalLMOutput(logits=logits)
```

Fix safety
----------
Unsafe: the attribute gets another name, which other code may ask for. transformers is told of the
renaming, so checkpoints are read and written with the old name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.graph.configs import config_value
from modelcheck.rules.backend._head_input import head_calls
from modelcheck.rules.base import Context
from modelcheck.rules.modules import configuration
from modelcheck.source.basemodel import is_language_head
from modelcheck.source.bodies import nodes_of
from modelcheck.source.callpath import children
from modelcheck.source.classes import ClassInfo

CODE = "MC313"
HEAD = "lm_head"
TIED = "_tied_weights_keys"
IGNORED = "_keys_to_ignore_on_load_unexpected"


def check(context: Context) -> Iterable[Finding]:
    """Look at the head of every causal language model."""
    for info, name in misnamed_heads(context):
        statement, _ = info.self_assignments[name]
        title = f"call it {HEAD}; checkpoints keep {name}"
        yield context.finding(
            CODE,
            Severity.ERROR,
            info,
            statement,
            f"vLLM calls its head {HEAD} and has no place for {name}.weight of a checkpoint: the "
            "load fails",
            f"Call it {HEAD}; old checkpoints need their key renamed.",
            Fix("head_name", title, Safety.UNSAFE, {"name": name}),
        )


def misnamed_heads(context: Context) -> Iterator[tuple[ClassInfo, str]]:
    """The causal models whose head has another name, with that name, if checkpoints have it."""
    checkpoint = context.repo.checkpoint if context.repo is not None else None
    for info in context.file.classes.values():
        if "forward" not in info.methods or not is_language_head(info):
            continue
        heads = {attr for attr, _ in head_calls(info)}
        if len(heads) != 1 or HEAD in heads or any(c.attr == HEAD for c in children(info)):
            continue
        name = heads.pop()
        if info.find_attribute(IGNORED) is not None:
            continue
        if checkpoint is None:
            saved = not _may_be_tied(context, info, name)
        else:
            saved = f"{name}.weight" in checkpoint.keys
        if saved:
            yield info, name


def _may_be_tied(context: Context, info: ClassInfo, name: str) -> bool:
    """May the checkpoint leave it out, as the embeddings' weight is the same?"""
    tied = info.find_attribute(TIED)
    texts = [n.value for n in nodes_of(tied[1]) if isinstance(n, ast.Constant)] if tied else []
    if tied is not None and not any(str(text).startswith(f"{name}.") for text in texts):
        return not texts  # what is no literal
    config = configuration(context, info)
    known = config_value(config, "tie_word_embeddings") if config is not None else None
    return tied is not None and known is not False
