"""transformers cannot find the input embeddings.

What it does
------------
Checks that a text model's input embeddings are where `get_input_embeddings` looks: in the
attribute named by `_input_embed_layer` (`embed_tokens` by default) of the model, of its
`embeddings`, `model` or `language_model`, or behind an override of the method.

Why it matters
--------------
vLLM asks for the embeddings when it builds the model, and stops: "`get_input_embeddings` not
auto-handled for ..." (all releases).

Example
-------
```python
from torch import nn
from transformers import PreTrainedModel


class MyModel(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.tok_embeddings(input_ids) if inputs_embeds is None else inputs_embeds,)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedModel


class MyModel(PreTrainedModel):
    _input_embed_layer = "tok_embeddings"

    def __init__(self, config):
        super().__init__(config)
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.tok_embeddings(input_ids) if inputs_embeds is None else inputs_embeds,)
```

Fix safety
----------
Safe where the model holds one `nn.Embedding`: the getter and the setter are added.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.backend.text_models import text_models
from modelcheck.rules.base import Context
from modelcheck.source.basemodel import has_unknown_base
from modelcheck.source.classes import ClassInfo, dotted_name

CODE = "MC308"
DEFAULT = "embed_tokens"
GETTER = "get_input_embeddings"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each base model whose embeddings are certainly not found."""
    for base in text_models(context):
        info = base.info
        if has_unknown_base(info) or info.find_method(GETTER) or info.find_method("__getattr__"):
            continue
        if not info.self_assignments:
            continue  # it builds nothing: what is built inherits from it
        declared = info.find_attribute("_input_embed_layer")
        name = DEFAULT
        if declared is not None:
            if not isinstance(declared[1], ast.Constant):
                continue
            name = str(declared[1].value)
        if _can_be_found(info, name):
            continue
        held = [k for k, (_, value) in info.self_assignments.items() if _is_embedding(info, value)]
        setting = f'Set `_input_embed_layer = "{held[0]}"`' if len(held) == 1 else ""
        yield context.finding(
            CODE,
            Severity.ERROR,
            info,
            info.node,
            f"the model has no {name}, where transformers looks for the input embeddings",
            f"{setting}, or override {GETTER}." if setting else f"Override {GETTER}.",
            Fix("base_forward", f"define {GETTER}", data={"embedding": held[0]})
            if setting
            else None,
        )


def _can_be_found(info: ClassInfo, name: str) -> bool:
    """Is there, or may there be, what `get_input_embeddings` looks for?"""
    assigned = info.self_assignments
    prefix = info.find_attribute("base_model_prefix")
    nested = {"model", "language_model"}
    if prefix is not None and isinstance(prefix[1], ast.Constant):
        nested.add(str(prefix[1].value))
    if name in assigned or nested & set(assigned) or info.find_attribute(name):
        return True
    if _sets_attributes_by_name(info):
        return True
    if "embeddings" not in assigned:
        return False
    value = assigned["embeddings"][1]
    if _is_embedding(info, value):
        return False
    if isinstance(value, ast.Call):
        inner = info.file.resolve(dotted_name(value.func))
        if isinstance(inner, ClassInfo) and not has_unknown_base(inner):
            return name in inner.self_assignments
    return True


def _sets_attributes_by_name(info: ClassInfo) -> bool:
    for each in info.mro:
        init = each.methods.get("__init__")
        for node in ast.walk(init) if init is not None else ():
            if isinstance(node, ast.Call):
                called = dotted_name(node.func).rpartition(".")[2]
                if called in ("setattr", "add_module", "register_module"):
                    return True
    return False


def _is_embedding(info: ClassInfo, value: ast.expr | None) -> bool:
    return (
        isinstance(value, ast.Call)
        and info.file.qualify(dotted_name(value.func)).rpartition(".")[2] == "Embedding"
    )
