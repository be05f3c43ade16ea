"""A model calls a method that PreTrainedModel no longer has.

What it does
------------
Finds calls of `self.get_head_mask`, `self.get_extended_attention_mask`, `self.prune_heads` and
others that `PreTrainedModel` has lost, in classes that do not define them. One that certainly
runs in a `forward` or a constructor is an error, any other is `info`, and so is one that only the
newer of the releases that vLLM allows have lost. In a model around a base model, which vLLM does
not build, it is an error with `--transformers` only.

Why it matters
--------------
transformers 5 took them away (5.0 the head mask and pruning, 5.17 the mask helpers): the call
raises AttributeError in the first forward pass, which vLLM (all releases that run on it) makes
when it starts.

Example
-------
```python
from torch import nn
from transformers import PreTrainedModel


class MyModel(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        head_mask = self.get_head_mask(None, 2)
        return (self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds, head_mask)
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
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds,)
```

Fix safety
----------
Safe for `get_head_mask`, `get_extended_attention_mask` and `invert_attention_mask`: a method that
computes the same joins the file's own PreTrainedModel class. For the others there is no fix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, callee_name, self_name
from modelcheck.source.classes import ClassInfo, is_self_attribute
from modelcheck.versions.heads import is_head
from modelcheck.versions.judged import judged, transformers_only
from modelcheck.versions.reach import runs_always
from modelcheck.versions.table import Kind, removed

CODE = "MC910"
STARTS = ("__init__", "forward")
DEFINABLE = ("get_head_mask", "get_extended_attention_mask", "invert_attention_mask")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each call."""
    release = judged(context)
    gone = {
        n: c
        for n, c in removed(Kind.MODEL_METHOD).items()
        if release.lacks(c.until) or (release.high is None and n in DEFINABLE)
    }
    present = {name for name in gone if name in context.file.source.text}
    if not present:
        return
    for info in context.file.classes.values():
        if info.kind != "pretrained":
            continue
        if not any(b.rpartition(".")[2] == "PreTrainedModel" for b in info.external_bases):
            continue
        mixed = [b for b in info.external_bases if not b.endswith(("PreTrainedModel", "Mixin"))]
        if mixed:
            continue
        for name, function in info.methods.items():
            for call in body(context.file, function).all(ast.Call):
                method = callee_name(call)
                if method not in present or not is_self_attribute(call.func, self_name(function)):
                    continue
                if info.find_method(method) is not None or method in info.self_assignments:
                    continue
                change = gone[method]
                certain = name in STARTS and release.lacks(change.until)
                yield context.finding(
                    CODE,
                    _severity(context, info, certain and call in runs_always(function)),
                    info,
                    call,
                    f"self.{method} is gone since transformers {change.until}: the call raises "
                    "AttributeError",
                    f"Use {change.replacement}."
                    if change.replacement
                    else "Remove the call and what uses its result, or define the method.",
                    Fix("v5_model_methods", f"define {method} here", data={"method": method})
                    if method in DEFINABLE
                    else None,
                )


def _severity(context: Context, info: ClassInfo, certain: bool) -> Severity:
    if not certain:
        return Severity.INFO
    return transformers_only(context) if is_head(info) else Severity.ERROR
