"""A constructor reads a config attribute that nothing defines.

What it does
------------
Looks at `config.name` in a constructor where `name` is one of those that transformers 4 gave
every configuration and transformers 5 does not: `pad_token_id` and the other token ids,
`tie_word_embeddings`, `is_decoder`, `add_cross_attention` and a few more. It reports one that
neither the configuration class nor config.json defines. When the configuration class is not
found, nothing is said; `getattr` with a default is fine. In a model around a base model, which
vLLM does not build, it is `info`, and an error with `--transformers`.

Why it matters
--------------
Since transformers 5.0 the read raises AttributeError when the model is built, in vLLM (all
releases that run on it) as elsewhere. vLLM reports another error in its place, about
`_pre_trained_model_classes`.

Example
-------
```python
from torch import nn
from transformers import PreTrainedModel, PretrainedConfig


class MyConfig(PretrainedConfig):
    def __init__(self, vocab_size=64, **kwargs):
        self.vocab_size = vocab_size
        super().__init__(**kwargs)


class MyModel(PreTrainedModel):
    config_class = MyConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, 8, config.pad_token_id)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds,)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedModel, PretrainedConfig


class MyConfig(PretrainedConfig):
    def __init__(self, vocab_size=64, pad_token_id=None, **kwargs):
        self.vocab_size = vocab_size
        self.pad_token_id = pad_token_id
        super().__init__(**kwargs)


class MyModel(PreTrainedModel):
    config_class = MyConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, 8, config.pad_token_id)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        return (self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds,)
```

Fix safety
----------
Safe: the attribute is read with `getattr` and the default that transformers 4 gave it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, callee_name, self_name
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute
from modelcheck.versions.api_data import CONFIG_DEFAULTS
from modelcheck.versions.configs import config_of, given, is_config, names_of
from modelcheck.versions.heads import is_head
from modelcheck.versions.judged import Judged, judged, transformers_only
from modelcheck.versions.reach import runs_always
from modelcheck.versions.table import Kind, removed

CODE = "MC909"
WARNING = "warn_if_padding_and_no_attention_mask"
WARNED = "pad_token_id"
_MODEL_CONFIG = re.compile(r"(?<!generation_)config\w*$")


def check(context: Context) -> Iterable[Finding]:
    """One finding for each attribute of a class."""
    release = judged(context)
    for info in context.file.classes.values():
        init = info.methods.get("__init__")
        if info.is_module and init is not None:
            yield from _reads(context, info, init, release)
        forward = info.methods.get("forward")
        if info.kind == "pretrained" and forward is not None:
            yield from _warns(context, info, forward, release)


def _reads(
    context: Context, info: ClassInfo, init: FunctionNode, release: Judged
) -> Iterable[Finding]:
    known = removed(Kind.CONFIG_ATTRIBUTE)
    seen: set[str] = set()
    for node in body(context.file, init).reads_of(known.keys()):
        if not isinstance(node.ctx, ast.Load) or not is_config(node.value):
            continue
        change = known[node.attr]
        if not release.lacks(change.until):
            continue
        config = config_of(info)
        if config is None or node.attr in seen or not _is_undefined(context, config, node.attr):
            continue
        if node not in runs_always(init):
            continue
        if _written(init.body, node.attr):
            continue
        seen.add(node.attr)
        yield context.finding(
            CODE,
            transformers_only(context) if is_head(info) else Severity.ERROR,
            info,
            node,
            f"config.{node.attr} raises AttributeError: {config.name} does not define it, and "
            f"since transformers {change.until} not every configuration has it",
            f"Give {config.name} a {node.attr}, or read it with getattr and a default.",
            _fix(node.attr),
        )


def _warns(
    context: Context, info: ClassInfo, forward: FunctionNode, release: Judged
) -> Iterable[Finding]:
    """Calls of transformers' warning about padding, which reads the id without a default.

    It does so when there is no attention mask, and vLLM never gives one.
    """
    nodes = body(context.file, forward)
    if WARNING not in nodes.called():
        return
    change = removed(Kind.CONFIG_ATTRIBUTE)[WARNED]
    config = config_of(info)
    if config is None or not release.lacks(change.until) or info.find_method(WARNING):
        return
    if not _is_undefined(context, config, WARNED):
        return
    asked = {n for test in nodes.all(ast.If) if _names(test.test, WARNED) for n in ast.walk(test)}
    for call in nodes.all(ast.Call):
        if call in asked:
            continue
        if is_self_attribute(call.func, self_name(forward)) and callee_name(call) == WARNING:
            yield context.finding(
                CODE,
                transformers_only(context) if is_head(info) else Severity.ERROR,
                info,
                call,
                f"{WARNING} reads config.{WARNED}, which {config.name} does not define, and "
                f"since transformers {change.until} not every configuration has it",
                f"Give {config.name} a {WARNED}, or warn only where there is one.",
                Fix(
                    "v5_token_ids",
                    f"warn about padding only where there is a {WARNED}",
                    data={"name": WARNED, "default": "None", "call": WARNING},
                ),
            )


def _names(test: ast.expr, name: str) -> bool:
    """Does a condition ask for an attribute?"""
    return any(
        (isinstance(n, ast.Attribute) and n.attr == name)
        or (isinstance(n, ast.Constant) and n.value == name)
        for n in ast.walk(test)
    )


def _is_undefined(context: Context, config: ClassInfo, name: str) -> bool:
    names = names_of(config)
    if names is None or name in names or name in given(context):
        return False
    return not _written_to_a_copy(context, name)


def _written_to_a_copy(context: Context, name: str) -> bool:
    """Does a model give the attribute to a configuration that it hands on (T5's is_decoder)?"""
    return any(
        node.attr == name
        and isinstance(node.ctx, ast.Store)
        and _MODEL_CONFIG.search(dotted_name(node.value))
        for info in context.file.classes.values()
        for method in info.methods.values()
        for node in body(context.file, method).some(ast.Attribute)
    )


def _fix(name: str) -> Fix | None:
    default = CONFIG_DEFAULTS.get(name)
    if default is None:
        return None
    title = f"read {name} with the default that transformers 4 gave it"
    return Fix("v5_token_ids", title, data={"name": name, "default": default})


def _written(body: list[ast.stmt], name: str) -> bool:
    """Does the constructor give the config this attribute itself?"""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Store)
        and is_config(node.value)
        for statement in body
        for node in ast.walk(statement)
    )
