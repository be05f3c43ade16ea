"""The base model's forward does not name an argument that vLLM compiles for.

What it does
------------
Checks that the forward of a text model's decoder (the base model itself, or what its
`get_decoder` returns: in a model with an encoder and a decoder of text, the decoder) has
parameters called `input_ids`, `inputs_embeds` and `position_ids`.

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
Safe: the arguments are added and used in place of what the forward makes itself. Unsafe in a file
whose rotary table is cut to a length: positions are handed down to the attention, and the table is
computed by them. Refused where it is not clear where positions are counted or tokens looked up.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.rules.backend.text_models import text_models
from modelcheck.rules.base import Context
from modelcheck.rules.threading.rope_by_length import cuts_table
from modelcheck.source.basemodel import base_models, is_encoder_decoder, is_language_head
from modelcheck.source.callpath import takes_input_ids
from modelcheck.source.classes import ClassInfo, Signature

CODE = "MC302"
ARGUMENTS = ("input_ids", "inputs_embeds", "position_ids")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each decoder, naming all that is missing."""
    for decoder in dict.fromkeys(_decoders(context)):
        found = decoder.find_method("forward")
        if found is None or found[0].file is not context.file:
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
                Fix(
                    "base_forward",
                    f"accept {names}",
                    _safety(context, missing),
                    {"missing": " ".join(missing)},
                )
                if found[0] is decoder and "input_ids" not in missing
                else None,
            )


def _safety(context: Context, missing: list[str]) -> Safety:
    """Unsafe where a rotary table may have to be computed by position for it."""
    tables = any(c.is_module and cuts_table(c) for c in context.file.classes.values())
    return Safety.UNSAFE if tables and "position_ids" in missing else Safety.SAFE


def _decoders(context: Context) -> Iterable[ClassInfo]:
    """What vLLM prepares: the text models themselves, and the decoders inside of others."""
    causal = any(is_language_head(info) for info in context.file.classes.values())
    judged = {base.info for base in text_models(context)}
    for base in base_models(context.file, context.repo):
        decoder = base.decoder
        if decoder is None:
            continue
        if decoder is base.info:
            if base.info in judged:
                yield decoder
        elif takes_input_ids(decoder) and (causal or is_encoder_decoder(base)):
            yield decoder
