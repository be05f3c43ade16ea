"""The base model's forward rejects `use_cache` or `return_dict`.

What it does
------------
Checks that the base model's forward accepts both arguments: by name, through `**kwargs`, or
through a transformers decorator that takes `return_dict` (`can_return_tuple`,
`capture_outputs`, `check_model_inputs`).

Why it matters
--------------
vLLM calls the base model with `use_cache=False, return_dict=False` (all releases). The model
builds, and the first forward raises TypeError.

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

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None):
        return (self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds,)
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
Safe: the flags are accepted, and ignored: vLLM passes False for both. `**kwargs`, which must also
be passed on to the layers, are left to the threading rules (MC2).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.backend.text_models import text_models
from modelcheck.rules.base import Context
from modelcheck.source.classes import FunctionNode, Signature, dotted_name

CODE = "MC303"
FLAGS = ("use_cache", "return_dict")
# Decorators that leave the signature alone; any other may take an argument off the call.
PLAIN_DECORATORS = {
    "add_code_sample_docstrings",
    "add_start_docstrings",
    "add_start_docstrings_to_callable",
    "add_start_docstrings_to_model_forward",
    "auto_docstring",
    "deprecate_kwarg",
    "inference_mode",
    "merge_with_config_defaults",
    "no_grad",
    "replace_return_docstrings",
}
TAKES_RETURN_DICT = {"can_return_tuple", "capture_outputs", "check_model_inputs"}


def check(context: Context) -> Iterable[Finding]:
    """One finding for each base model, naming all that is rejected."""
    for base in text_models(context):
        found = base.info.find_method("forward")
        if found is None or found[0].file is not context.file:
            continue
        rejected = [name for name in FLAGS if _rejects(found[1], name)]
        if rejected:
            names = " and ".join(rejected)
            yield context.finding(
                CODE,
                Severity.ERROR,
                base.info,
                found[1],
                f"forward does not accept {names}: vLLM's first call raises TypeError",
                f"Accept `**kwargs` (and pass them on to the layers), or name {names}.",
                Fix("base_forward", f"accept {names}", data={"missing": " ".join(rejected)})
                if found[0] is base.info
                else None,
            )


def _rejects(forward: FunctionNode, name: str) -> bool:
    if Signature.of(forward).accepts(name):
        return False
    decorators = {_name(node) for node in forward.decorator_list}
    if decorators - PLAIN_DECORATORS - TAKES_RETURN_DICT:
        return False  # unknown: it may well take the argument
    return not (name == "return_dict" and decorators & TAKES_RETURN_DICT)


def _name(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return dotted_name(function).rpartition(".")[2]
