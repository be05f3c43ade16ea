"""Which models the rules of this family judge: text-only models that are their own decoder.

Of composite and encoder-decoder models the source does not tell enough; they stay unjudged.
"""

from __future__ import annotations

import re

from modelcheck.rules.base import Context
from modelcheck.source.basemodel import (
    BaseModel,
    base_models,
    forward_of,
    is_head,
    is_language_head,
    reads_text,
)
from modelcheck.source.classes import ClassInfo, Signature

_OTHER_INPUTS = re.compile(
    r"pixel|image|video|visual|vision|audio|bbox|boxes|spectrogram|speech|decoder_input|"
    r"input_(values|features)|encoder_(hidden_states|outputs)"
)
_TOWERS = re.compile(r"(^|_)(vision|visual|image|audio|speech|encoder$)")


def text_models(context: Context) -> list[BaseModel]:
    """The base models of the file that read text only."""
    has_language_head = any(is_language_head(info) for info in context.file.classes.values())
    return [
        base
        for base in base_models(context.file, context.repo)
        if base.decoder is base.info
        and (reads_text(base.info) or has_language_head)
        and is_text_only(base.info)
    ]


def text_heads(context: Context) -> list[ClassInfo]:
    """The text models with a head, whether or not their base model can be told."""
    return [
        info
        for info in context.file.classes.values()
        if is_head(info) and reads_text(info) and is_text_only(info)
    ]


def is_text_only(info: ClassInfo) -> bool:
    """No input of another kind, no tower, no encoder beside the decoder."""
    forward = forward_of(info)
    if forward is None:
        return False
    signature = Signature.of(forward)
    parameters = (*signature.positional, *signature.keyword_only)
    if any(_OTHER_INPUTS.search(name) for name in parameters):
        return False
    towers = [name for name in info.self_assignments if _TOWERS.search(name)]
    return not towers or (towers == ["encoder"] and "decoder" not in info.self_assignments)
