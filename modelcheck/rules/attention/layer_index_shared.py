"""Two attention modules have the same `layer_idx`, or one is built without any.

What it does
------------
Builds the model's module tree from its constructors and its configuration (config.json, or the
defaults of the configuration class) and reports dispatching attention modules that end up with one
`layer_idx`, and those that are built with None for it.

Why it matters
--------------
vLLM keeps one KV cache for each `layer_idx`. 0.30 and later refuse the model ("dispatches attention
from more than one module", or "does not dispatch" for None); up to 0.29 both modules write into one
cache, and the numbers are wrong. Encoder-decoder models are refused for the same reason.

Example
-------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
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
        self.second_attn = ToyAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        hidden_states = hidden_states + output
        output, _ = self.second_attn(hidden_states, attention_mask=attention_mask, **kwargs)
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
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
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
        self.self_attn = ToyAttention(config, 2 * layer_idx)
        self.second_attn = ToyAttention(config, 2 * layer_idx + 1)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        hidden_states = hidden_states + output
        output, _ = self.second_attn(hidden_states, attention_mask=attention_mask, **kwargs)
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
            [ToyLayer(config, index) for index in range(config.num_hidden_layers // 2)]
        )
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Fix safety
----------
No fix: number the attention modules from 0 to `num_hidden_layers` - 1, each number once.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.base import Context
from modelcheck.rules.modules import Built, Tree, trees
from modelcheck.source.attributes import Kind, attribute_kind
from modelcheck.source.bodies import headline

CODE = "MC111"
SAID_BY_MC108 = (Kind.MISSING, Kind.NONE, Kind.NUMBER)


def check(context: Context) -> Iterable[Finding]:
    """One finding for each model in which every reading of its constructors agrees."""
    refused = context.contract.refuses_undispatched
    for group in trees(context):
        shared = [_shared(tree) for tree in group]
        if all(shared) and (pair := shared[0]):
            first, second = pair
            effect = "vLLM refuses the model" if refused else "both write into one KV cache"
            yield context.finding(
                CODE,
                Severity.ERROR if refused else Severity.WRONG,
                first.info,
                headline(first.info.node),
                f"{first.path} and {second.path} of {group[0].model.name} both attend as layer "
                f"{first.index}: {effect}.",
                "Give every attention module a layer_idx of its own.",
            )
            continue
        unnumbered = [_unnumbered(tree) for tree in group]
        if all(unnumbered) and (module := unnumbered[0]):
            effect = "vLLM refuses the layer" if refused else "the first forward fails"
            yield context.finding(
                CODE,
                Severity.ERROR,
                module.info,
                headline(module.info.node),
                f"{group[0].model.name} builds {module.path} without a layer_idx: {effect}.",
                "Pass layer_idx from the list of layers down to the attention.",
            )


def _shared(tree: Tree) -> tuple[Built, Built] | None:
    """Two modules with one index, the first in the order of layers."""
    for _, modules in sorted(tree.attention().items()):
        if len(modules) > 1 and modules[0].info.file is tree.model.file:
            return modules[0], modules[1]
    return None


def _unnumbered(tree: Tree) -> Built | None:
    if tree.doubt or len(tree.attention()) >= tree.layers:
        return None
    for module in tree.modules:
        named = module.dispatches and "layer_idx" in module.instance.attributes
        if not named or module.instance.attributes["layer_idx"] is not None:
            continue
        said = attribute_kind(module.info, "layer_idx") in SAID_BY_MC108
        if not said and module.info.file is tree.model.file:
            return module
    return None
