"""A model prepares inputs for generation and cannot generate.

What it does
------------
Finds `PreTrainedModel` classes with a `prepare_inputs_for_generation` of their own that do not
inherit from `GenerationMixin`.

Why it matters
--------------
`PreTrainedModel` has not inherited from `GenerationMixin` since transformers 4.50: `generate` is
no longer there, and the first call raises AttributeError. vLLM (all releases) does not call it and
builds the base model only, so it is `info`, and an error with `--transformers`.

Example
-------
```python
from torch import nn
from transformers import PreTrainedModel


class MyForCausalLM(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, **kwargs):
        return {"input_ids": input_ids, "past_key_values": past_key_values}
```

Use instead
-----------
```python
from torch import nn
from transformers import GenerationMixin, PreTrainedModel


class MyForCausalLM(PreTrainedModel, GenerationMixin):
    def __init__(self, config):
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, **kwargs):
        return {"input_ids": input_ids, "past_key_values": past_key_values}
```

Fix safety
----------
Safe: the base class and its import are added; transformers 4 has both.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Fix
from modelcheck.rules.base import Context
from modelcheck.source.bodies import headline
from modelcheck.versions.judged import judged, transformers_only

CODE = "MC912"
SINCE = "4.50"
METHOD = "prepare_inputs_for_generation"
MIXIN = "GenerationMixin"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each class."""
    if METHOD not in context.file.source.text or not judged(context).has(SINCE):
        return
    for info in context.file.classes.values():
        if info.kind != "pretrained" or METHOD not in info.methods:
            continue
        bases = [base.rpartition(".")[2] for base in info.external_bases]
        if not bases or any(not b.endswith("PreTrainedModel") for b in bases):
            continue  # the mixin, or a class that may bring it
        if any(b != "PreTrainedModel" for b in bases):
            continue  # another file's class
        yield context.finding(
            CODE,
            transformers_only(context),
            info,
            headline(info.node),
            f"{info.name} does not inherit from {MIXIN}: since transformers {SINCE} it has no "
            "generate",
            f"Write class {info.name}(..., {MIXIN}).",
            Fix("generation_mixin", f"inherit from {MIXIN}"),
        )
