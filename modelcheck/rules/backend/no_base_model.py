"""There is no headless base model for vLLM to build.

What it does
------------
Reports a causal language model class that holds embeddings, layers and output head itself
while its file has no headless model, and an `auto_map` whose `AutoModel` names a class with a
head.

Why it matters
--------------
vLLM builds the base model through `AutoModel` and adds its own output head (all releases).
Without a base model the build fails ("Unrecognized configuration class ... for this kind of
AutoModel"); with a headed class in its place vLLM takes the logits for hidden states.

Example
-------
```python
from torch import nn
from transformers import PreTrainedModel


class MyForCausalLM(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList()
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        hidden_states = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return (self.lm_head(hidden_states),)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedModel


class MyModel(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList()
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        hidden_states = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return (hidden_states,)


class MyForCausalLM(PreTrainedModel):
    base_model_prefix = "model"

    def __init__(self, config):
        super().__init__(config)
        self.model = MyModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def forward(self, input_ids=None, **kwargs):
        return (self.lm_head(self.model(input_ids, **kwargs)[0]),)
```

Fix safety
----------
There is no fix: moving modules into a base model renames the checkpoint's weights.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend.config_json import config_finding, config_repo
from modelcheck.rules.base import Context
from modelcheck.source.basemodel import (
    auto_map_class,
    forward_of,
    has_unknown_base,
    is_head,
    is_language_head,
    is_root,
)
from modelcheck.source.bodies import body
from modelcheck.source.classes import ClassInfo, dotted_name
from modelcheck.source.repo import Repo

CODE = "MC307"
KEY = "AutoModel"
HEAD_WORDS = ("ForCausalLM", "LMHead")


def check(context: Context) -> Iterable[Finding]:
    """Findings on the class in its file, or on the entry of auto_map."""
    yield from _in_config(context)
    if context.repo is not None and KEY in context.repo.auto_map:
        return  # a base model is named, here or in another file
    models = [
        info
        for info in context.file.classes.values()
        if info.kind == "pretrained" and not is_root(info)
    ]
    if not all(is_head(info) for info in models):
        return
    for info in models:
        if is_language_head(info) and not has_unknown_base(info) and _holds_everything(info):
            base = info.name
            for word in HEAD_WORDS:
                base = base.partition(word)[0]
            yield context.finding(
                CODE,
                Severity.ERROR,
                info,
                info.node,
                "this class holds embeddings, layers and head, and there is no headless model "
                "for vLLM to build through AutoModel",
                f"Move all but the head into a {base}Model (base_model_prefix names the "
                "attribute that holds it), and name it under AutoModel in auto_map.",
            )


def _in_config(context: Context) -> Iterable[Finding]:
    repo = config_repo(context)
    name = repo.auto_map.get(KEY, "").rpartition(".")[2] if repo is not None else ""
    if repo is not None and (any(word in name for word in HEAD_WORDS) or _gives_logits(repo)):
        yield config_finding(
            context,
            repo,
            CODE,
            Severity.ERROR,
            ["auto_map", KEY],
            f"{KEY} names {name}, which has a head: vLLM would take its logits for hidden states",
            f"Name the headless base model under {KEY}.",
            class_name=name,
        )


def _gives_logits(repo: Repo) -> bool:
    """Does the class under AutoModel, a head by its name, put logits into what it returns?"""
    info = auto_map_class(repo, KEY)
    forward = forward_of(info) if info is not None and is_head(info) else None
    if info is None or forward is None:
        return False
    calls = body(info.file, forward).all(ast.Call)
    return any(keyword.arg == "logits" for call in calls for keyword in call.keywords)


def _holds_everything(info: ClassInfo) -> bool:
    built = set()
    for _, value in info.self_assignments.values():
        if isinstance(value, ast.Call):
            built.add(info.file.qualify(dotted_name(value.func)).rpartition(".")[2])
    return {"Embedding", "ModuleList", "Linear"} <= built
