"""Tied weights are named in a list.

What it does
------------
Finds `_tied_weights_keys = [...]`, a list where transformers 5 wants a dictionary from each tied
weight to the one it shares.

Why it matters
--------------
transformers 5.0 reads `_tied_weights_keys.keys()`: saving the model raises AttributeError, and so
does building it when `tie_word_embeddings` is on. vLLM (all releases) builds the base model only
and ties the head itself, so for vLLM the finding is `info`; with `--transformers` it is an error.

Example
-------
```python
from transformers import PreTrainedModel


class MyForCausalLM(PreTrainedModel):
    _tied_weights_keys = ["lm_head.weight"]

    def __init__(self, config):
        super().__init__(config)
        self.post_init()
```

Use instead
-----------
```python
from transformers import PreTrainedModel


class MyForCausalLM(PreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.post_init()
```

Fix safety
----------
Safe where the tied weight is that of the output embeddings: its source is then that of the input
embeddings; and where it is their bias, and the class that holds them assigns it. For any other
weight the fix is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix
from modelcheck.rules.base import Context
from modelcheck.versions.judged import judged, transformers_only

CODE = "MC905"
SINCE = "5.0"
NAME = "_tied_weights_keys"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each list."""
    if NAME not in context.file.source.text or not judged(context).lacks(SINCE):
        return
    for info in context.file.classes.values():
        value = info.attributes.get(NAME)
        if info.kind == "pretrained" and isinstance(value, ast.List | ast.Tuple | ast.Set):
            yield context.finding(
                CODE,
                transformers_only(context),
                info,
                value,
                f"{NAME} is a list: transformers {SINCE} reads a dictionary from each tied weight "
                "to its source, and save_pretrained raises AttributeError",
                'Write {"lm_head.weight": "model.embed_tokens.weight"}, with this model\'s names.',
                Fix("v5_tied_weights", f"write {NAME} as a dictionary"),
            )
