"""A sequence classifier has no `classifier` and no `score`.

What it does
------------
Looks for a `...ForSequenceClassification` whose constructor makes neither a `classifier` nor a
`score`. It is an error where config.json names the class as the architecture, and worth
knowing elsewhere.

Why it matters
--------------
vLLM builds the base model and borrows the head from the classifier by one of these names;
without it stops: "Could not find `classifier` or `score` layer" (all releases).

Example
-------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel


class MyModel(PreTrainedModel):
    config_class = PreTrainedConfig
    _supports_attention_backend = True

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds,)


class MyForSequenceClassification(PreTrainedModel):
    base_model_prefix = "model"
    _supports_attention_backend = True

    def __init__(self, config):
        super().__init__(config)
        self.model = MyModel(config)
        self.rank_head = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.rank_head(self.model(input_ids, position_ids, inputs_embeds, **kwargs)[0]),)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel


class MyModel(PreTrainedModel):
    config_class = PreTrainedConfig
    _supports_attention_backend = True

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds,)


class MyForSequenceClassification(PreTrainedModel):
    base_model_prefix = "model"
    _supports_attention_backend = True

    def __init__(self, config):
        super().__init__(config)
        self.model = MyModel(config)
        self.score = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.score(self.model(input_ids, position_ids, inputs_embeds, **kwargs)[0]),)
```

Fix safety
----------
There is no fix: a new name is one for the weights as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend.config_json import architectures
from modelcheck.rules.base import Context
from modelcheck.source.basemodel import has_unknown_base
from modelcheck.source.bodies import headline
from modelcheck.source.classes import ClassInfo

CODE = "MC323"
SUFFIX = "ForSequenceClassification"
HEADS = ("classifier", "score")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each classifier of the file; an error where it is what is served."""
    served = architectures(context.repo)[:1] if context.repo is not None else []
    for info in context.file.classes.values():
        if not info.name.endswith(SUFFIX) or info.kind != "pretrained":
            continue
        if has_unknown_base(info) or _has_head(info):
            continue
        yield context.finding(
            CODE,
            Severity.ERROR if info.name in served else Severity.INFO,
            info,
            headline(info.node),
            f"{info.name} has neither a {HEADS[0]} nor a {HEADS[1]}, where vLLM looks for the "
            "head of a classifier",
            f"Call the layer that gives the scores {HEADS[0]} or {HEADS[1]}.",
        )


def _has_head(info: ClassInfo) -> bool:
    """Is there one, or may there be?"""
    if "__init__" not in {name for each in info.mro for name in each.methods}:
        return True
    mentioned = any(f'"{head}"' in i.file.source.text for i in info.mro for head in HEADS)
    return mentioned or any(
        head in info.self_assignments or info.find_attribute(head) or info.find_method(head)
        for head in HEADS
    )
