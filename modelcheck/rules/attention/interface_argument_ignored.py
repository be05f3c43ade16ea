"""An argument of the attention call carries a value that vLLM does not read from there.

What it does
------------
Looks at `softcap=`, `sliding_window=` and bias arguments of the attention call, evaluated in the
module tree that the configuration gives, and compares them with what vLLM uses. Also at a
`sliding_window` of the configuration that the file never reads.

Why it matters
--------------
vLLM (every release) ignores the arguments of the attention call other than `scaling` and `s_aux`.
The cap is `attn_logit_softcapping` of the text configuration, the window is `sliding_window` on the
layers that `layer_types` calls "sliding_attention" (on all layers without `layer_types`), and there
is no bias. Any other value is lost without a word.

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
        self.attention_cap = 50.0
        super().__init__(**kwargs)


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.cap = config.attention_cap
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
            self,
            query,
            key,
            value,
            attention_mask,
            scaling=self.scaling,
            softcap=self.cap,
            **kwargs,
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
        self.attn_logit_softcapping = 50.0
        super().__init__(**kwargs)


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.cap = config.attn_logit_softcapping
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
            self,
            query,
            key,
            value,
            attention_mask,
            scaling=self.scaling,
            softcap=self.cap,
            **kwargs,
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
```

Fix safety
----------
Unsafe for a window that an attention class chooses by the index of its layer: `layer_types` is
added to config.json, which the caches of transformers read too. No fix for the others: give the
configuration the field that vLLM reads (an `attribute_map` entry will do).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from typing import Any

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.graph.configs import config_value
from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import Unknown
from modelcheck.rules.attention._windows import (
    FULL,
    SLIDING,
    TYPES,
    WINDOW,
    tree_windows,
    unasked_window,
    window_fields,
)
from modelcheck.rules.backend.config_json import config_finding, config_repo
from modelcheck.rules.base import Context
from modelcheck.rules.modules import Built, Tree, trees
from modelcheck.source.attention import Attention, attention_of
from modelcheck.source.bodies import self_name
from modelcheck.source.classes import Signature, dotted_name
from modelcheck.source.repo import Repo

CODE = "MC114"
CAP = "attn_logit_softcapping"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each lost argument of an attention class."""
    repo = config_repo(context)
    if repo is not None:
        yield from _without_types(context, repo)
        return
    for group in trees(context):
        yield from _unasked(context, group)
        lost = [dict(_lost(tree)) for tree in group]
        for node, (module, reason) in lost[0].items():
            same = all(node in other and other[node][1] == reason for other in lost)
            if same and module.info.file is context.file:
                yield context.finding(
                    CODE,
                    Severity.WRONG,
                    module.info,
                    node,
                    f"{module.info.name} passes {node.arg} to the attention interface, and vLLM "
                    f"{reason}.",
                    "Put the value into the configuration field that vLLM reads.",
                )


def _unasked(context: Context, group: tuple[Tree, ...]) -> Iterator[Finding]:
    """A window that only the configuration knows of."""
    found = [unasked_window(tree) for tree in group]
    first = found[0]
    if first is None or not all(found) or first[0].info.file is not context.file:
        return
    module, size = first
    attention = attention_of(module.info)
    if attention is not None and attention.call is not None:
        yield context.finding(
            CODE,
            Severity.WRONG,
            module.info,
            attention.call,
            f"{module.info.name} attends to all tokens, and vLLM uses {WINDOW} = {size} of the "
            "configuration on every layer.",
            f"Give the interface {WINDOW} and make masks with it; or take {WINDOW} out of the "
            "configuration.",
        )


def _without_types(context: Context, repo: Repo) -> Iterator[Finding]:
    """config.json without the layer_types by which its attention has windows."""
    for file in repo.files:
        for tree in (t for group in trees(Context(file, repo, context.contract)) for t in group):
            fields = window_fields(context, repo, tree)
            if fields is None:
                continue
            size, (name, *_) = fields[WINDOW], tree_windows(tree)
            yield config_finding(
                context,
                repo,
                CODE,
                Severity.WRONG,
                [WINDOW],
                f"there is no {TYPES} here: vLLM cannot know on which layers {name} has a window "
                f"of {size}.",
                f'Add {TYPES}, a list with "{SLIDING}" or "{FULL}" for every layer.',
                Fix(
                    "config_fields",
                    f"add {TYPES}",
                    Safety.UNSAFE,
                    {"fields": json.dumps(fields)},
                ),
            )


def _lost(tree: Tree) -> Iterator[tuple[ast.keyword, tuple[Built, str]]]:
    windows: dict[ast.keyword, list[tuple[Built, Any]]] = {}
    for module in tree.modules:
        attention = attention_of(module.info) if module.index is not None else None
        if attention is None or attention.call is None:
            continue
        for keyword in attention.call.keywords:
            value = _value(keyword.value, module, self_name(attention.function))
            if keyword.arg == WINDOW:
                windows.setdefault(keyword, []).append((module, value))
            elif keyword.arg == "softcap" and (reason := _cap(value, tree)):
                yield keyword, (module, reason)
            elif _is_bias(keyword, attention) and value is not None:
                yield keyword, (module, "takes no bias")
    for keyword, values in windows.items():
        yield from _windows(keyword, values, tree)


def _value(node: ast.expr, module: Built, first: str) -> Any:
    """What an argument is on this module; `Unknown` where it is not written down."""
    if isinstance(node, ast.Constant):
        return node.value
    owner, _, rest = dotted_name(node).partition(".")
    attributes = module.instance.attributes
    if owner == first and rest in attributes:
        return attributes[rest]
    if owner == first and rest.startswith("config.") and "config" in attributes:
        return config_value(attributes["config"], rest.partition(".")[2])
    return Unknown("an expression")


def _is_bias(keyword: ast.keyword, attention: Attention) -> bool:
    """Is it a bias that the forward makes? One of its own arguments may always be None."""
    signature = Signature.of(attention.function)
    handed_on = isinstance(keyword.value, ast.Name) and signature.names(keyword.value.id)
    name = keyword.arg or ""
    return not handed_on and ("bias" in name or "alibi" in name)


def _cap(value: Any, tree: Tree) -> str:
    if not _is_number(value) or not value:
        return ""
    read = config_value(tree.config, CAP)
    if isinstance(read, Sym):
        return f"reads the cap from {CAP} of the configuration, which there is not"
    return f"uses {CAP} = {read} instead of {value}" if read != value else ""


def _windows(
    keyword: ast.keyword, values: list[tuple[Built, Any]], tree: Tree
) -> Iterator[tuple[ast.keyword, tuple[Built, str]]]:
    read = config_value(tree.config, WINDOW)
    kinds = tree.layer_types
    for module, value in values:
        assert module.index is not None
        window = value if _is_number(value) and value else None
        if value is not None and window is None:
            return  # not known
        if window is not None and isinstance(read, Sym):
            reason = f"reads {WINDOW} from the configuration, which has none"
        elif window is not None and module.index < len(kinds):
            if kinds[module.index] == SLIDING or set(kinds) == {SLIDING}:
                continue
            reason = f'has no window on layers that layer_types does not call "{SLIDING}"'
        elif window is None and not kinds and _is_number(read):
            if all(other is None for _, other in values):
                continue  # a switch such as use_sliding_window, which vLLM knows too
            reason = f"uses {WINDOW} on every layer, because there is no layer_types"
        else:
            continue
        yield keyword, (module, reason)
        return


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
