"""No class says `_supports_attention_backend = True`.

What it does
------------
Looks for `_supports_attention_backend = True` on the model classes of a text model that has
attention, and, where the release allows it, for the text that transformers' own check looks
for: a file that defines `class ...Attention(nn.Module)` must contain
`ALL_ATTENTION_FUNCTIONS.get_interface(`.

Why it matters
--------------
vLLM asks the model class before it builds it. Up to 0.29 only the flag counts; from 0.30 the
text check opens the gate as well. Otherwise: "The Transformers implementation of ... is not
compatible with vLLM". With only the text check open the finding is `info`: the model loads
there, and in no earlier release.

Example
-------
Judged for vLLM 0.29:

```python
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def eager(module, query, key, value, attention_mask, scaling, **kwargs):
    weights = torch.softmax(query @ key.transpose(2, 3) * scaling, dim=-1)
    return (weights @ value).transpose(1, 2), weights


class MyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        self.is_causal = True
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width)
        self.k_proj = nn.Linear(config.hidden_size, width)
        self.v_proj = nn.Linear(config.hidden_size, width)
        self.o_proj = nn.Linear(width, config.hidden_size)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager
        )
        output, weights = attention_interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


class MyPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"


class MyModel(MyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [MyAttention(config, i) for i in range(config.num_hidden_layers)]
        )
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        hidden_states = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        for layer in self.layers:
            hidden_states, _ = layer(hidden_states, **kwargs)
        return (hidden_states,)
```

Use instead
-----------
```python
class MyPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"
    _supports_attention_backend = True
```

Fix safety
----------
Safe: nothing is computed differently. It is offered only when no attention rule (MC1, MC2)
has anything left to say of the file, because the flag is a promise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.backend.config_json import architectures
from modelcheck.rules.backend.text_models import text_heads, text_models
from modelcheck.rules.base import Context, all_rules
from modelcheck.source.basemodel import base_models, has_unknown_base
from modelcheck.source.classes import ClassInfo, FileIndex

CODE = "MC301"
FLAG = "_supports_attention_backend"
INTERFACE = "ALL_ATTENTION_FUNCTIONS"
# transformers >= 5.16, `PreTrainedModel._can_set_attn_implementation`: what it searches for.
_TEXT_CLASS = re.compile(r"^class \w*Attention\w*\(nn\.Module\):", re.MULTILINE)
_TEXT_CALL = f"{INTERFACE}.get_interface("


def check(context: Context) -> Iterable[Finding]:
    """One finding for each family of model classes without the flag."""
    file = context.file
    if not _has_attention(file):
        return
    for root, models in _families(context).items():
        if any(has_unknown_base(info) or _flag(info) is not False for info in models):
            continue
        if context.contract.text_gate and _text_check_opens(file.source.text):
            severity = Severity.INFO
            why = (
                "the file's text shows the attention interface"
                if _TEXT_CALL in file.source.text
                else "no class in the file's text looks like attention to it"
            )
            message = (
                f"{FLAG} is not set; vLLM {context.contract.version} still takes the model "
                f"because {why}, releases to 0.29 do not"
            )
        else:
            severity = Severity.ERROR
            message = (
                f"{FLAG} is not set: vLLM refuses the model "
                f'("The Transformers implementation of {_served(context, models)!r} is not '
                'compatible")'
            )
        fix = _fix(context, root)
        yield context.finding(
            CODE,
            severity,
            root,
            root.node,
            message,
            f"Set `{FLAG} = True` on {root.name}"
            + ("." if fix else ", once all its attention goes through the interface."),
            fix,
        )


def _served(context: Context, models: list[ClassInfo]) -> str:
    """The class of which vLLM speaks: the architecture of config.json, where it is one of them."""
    wanted = architectures(context.repo) if context.repo is not None else []
    return next((m.name for m in models if m.name in wanted[:1]), models[-1].name)


def _families(context: Context) -> dict[ClassInfo, list[ClassInfo]]:
    """The text models of the file by the class that should carry the flag."""
    models = [base.info for base in text_models(context)]
    if models or not base_models(context.file, context.repo):
        models += text_heads(context)
    families: dict[ClassInfo, list[ClassInfo]] = {}
    for info in models:
        own = [each for each in info.mro if each.file is context.file and each.kind == "pretrained"]
        if own:  # auto_map may name what is no model
            families.setdefault(own[-1], []).append(info)
    return families


def _has_attention(file: FileIndex) -> bool:
    return INTERFACE in file.source.text or any(
        info.is_module and re.search(r"Att(entio)?n", info.name) for info in file.classes.values()
    )


def _flag(info: ClassInfo) -> bool | None:
    """The flag's value; transformers' default is False, an expression is unknown."""
    found = info.find_attribute(FLAG)
    if found is None:
        return False
    value = found[1]
    return bool(value.value) if isinstance(value, ast.Constant) else None


def _text_check_opens(text: str) -> bool:
    return _TEXT_CALL in text or not _TEXT_CLASS.search(text)


def _fix(context: Context, root: ClassInfo) -> Fix | None:
    attention = [rule for rule in all_rules() if rule.code[:3] in ("MC1", "MC2")]
    if any(True for rule in attention for _ in rule.check(context)):
        return None
    if INTERFACE not in context.file.source.text:
        return None
    return Fix("attention_flag", f"set {FLAG} on {root.name}")
