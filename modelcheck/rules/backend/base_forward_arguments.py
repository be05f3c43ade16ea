"""The base model's forward does not name an argument that vLLM compiles for.

What it does
------------
Checks that the forward of a text model's decoder (the base model itself, or what its
`get_decoder` returns) has parameters called `input_ids`, `inputs_embeds` and `position_ids`.

Why it matters
--------------
vLLM marks these three as dynamic for torch.compile and looks them up in the signature, even
when compilation is off. One that is missing ends the load: "Argument position_ids not found
in the forward method" (all releases). `**kwargs` does not help.

Example
-------
```python
from torch import nn
from transformers import PreTrainedModel


class MyPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"


class MyModel(MyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, **kwargs):
        return (self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds,)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedModel


class MyPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"


class MyModel(MyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds,)
```

Fix safety
----------
There is no fix: what the model does with the positions is for its author to write.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend.text_models import text_models
from modelcheck.rules.base import Context
from modelcheck.source.classes import Signature

CODE = "MC302"
ARGUMENTS = ("input_ids", "inputs_embeds", "position_ids")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each decoder, naming all that is missing."""
    for base in text_models(context):
        decoder = base.decoder
        found = decoder.find_method("forward") if decoder is not None else None
        if decoder is None or found is None or found[0].file is not context.file:
            continue
        missing = [name for name in ARGUMENTS if not Signature.of(found[1]).names(name)]
        if missing:
            names = ", ".join(missing)
            yield context.finding(
                CODE,
                Severity.ERROR,
                decoder,
                found[1],
                f"forward does not name {names}: vLLM cannot prepare it for torch.compile",
                f"Add {names} to the signature (default None) and use them.",
            )
