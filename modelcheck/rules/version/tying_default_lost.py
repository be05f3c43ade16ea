"""The head is tied only by a default that transformers 5 no longer has.

What it does
------------
For a repository whose model names its head's weight in `_tied_weights_keys`, asks whether
`tie_word_embeddings` is in config.json or in the configuration class. It reports a configuration
on `PretrainedConfig`, as transformers 4 spells it, that has it in neither, unless a checkpoint at
hand has the head's weight. Without a config.json it is `info`: that could say it.

Why it matters
--------------
Every configuration of transformers 4 had `tie_word_embeddings = True`, and a checkpoint saved with
it leaves the head's weight out; config.json leaves out a default. Since transformers 5.0 there is
none. vLLM (all releases) reads it as False then, builds a head of its own, finds no weight for it,
and says nothing: the logits are of memory that was never written.

Example
-------
```python
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class MyConfig(PretrainedConfig):
    model_type = "mine"

    def __init__(self, vocab_size=64, hidden_size=8, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        super().__init__(**kwargs)


class MyForCausalLM(PreTrainedModel):
    config_class = MyConfig
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()
```

Use instead
-----------
```python
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class MyConfig(PretrainedConfig):
    model_type = "mine"

    def __init__(self, vocab_size=64, hidden_size=8, tie_word_embeddings=True, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)


class MyForCausalLM(PreTrainedModel):
    config_class = MyConfig
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()
```

Fix safety
----------
Safe: config.json gets the value that transformers 4 gave it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.backend.config_json import (
    architectures,
    class_named,
    config_finding,
    config_repo,
)
from modelcheck.rules.base import Context
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo
from modelcheck.source.repo import Repo
from modelcheck.versions.configs import config_of, given, names_of
from modelcheck.versions.judged import judged
from modelcheck.versions.table import Kind, removed

CODE = "MC913"
TIED, SETTING = "_tied_weights_keys", "tie_word_embeddings"
MODERN = "PreTrainedConfig"  # the base of configurations, as transformers 5 spells it
HEAD = "lm_head.weight"


def check(context: Context) -> Iterable[Finding]:
    """At most one finding for config.json, or one for each model of a file without."""
    if not judged(context).lacks(removed(Kind.CONFIG_ATTRIBUTE)[SETTING].until):
        return
    repo = config_repo(context)
    if repo is not None:
        names = architectures(repo)
        info = class_named(repo, names[0]) if names else None
        weight, config = _untold(info) if info is not None else ("", "")
        there = repo.checkpoint.keys if repo.checkpoint is not None else frozenset()
        told = SETTING in given(context) or {weight, HEAD} & there
        if info is not None and weight and not told:
            yield _finding(context, repo, info, weight, config)
    elif context.repo is None or context.repo.config_path is None:
        for info in context.file.classes.values():
            weight, config = _untold(info)
            if weight:
                yield context.finding(
                    CODE,
                    Severity.INFO,
                    info,
                    info.attributes.get(TIED, info.node),
                    f"{config} has no {SETTING}, and transformers 5 no default: vLLM ties "
                    f"{weight} only where config.json says so",
                    f"Give {config} {SETTING}=True, or write it into config.json.",
                )


def _finding(context: Context, repo: Repo, info: ClassInfo, weight: str, config: str) -> Finding:
    return config_finding(
        context,
        repo,
        CODE,
        Severity.WRONG,
        ["architectures"],
        f"{SETTING} is neither here nor in {config}, and without transformers 4's default of "
        f"true vLLM gives {info.name} a head that nothing fills",
        f'Add `"{SETTING}": true`, or false for a checkpoint that has {weight}.',
        Fix("config_fields", f"set {SETTING} to true", data={"fields": f'{{"{SETTING}": true}}'}),
        class_name=info.name,
    )


def _untold(info: ClassInfo) -> tuple[str, str]:
    """A weight that is tied by default only and the configuration's name, or two empty texts."""
    weight = _tied(info)
    config = config_of(info) if weight else None
    known = names_of(config) if config is not None else None
    if config is None or known is None or SETTING in known:
        return "", ""
    if any(base.rpartition(".")[2] == MODERN for base in config.external_bases):
        return "", ""  # written for transformers 5: a head of its own is the default
    return weight, config.name


def _tied(info: ClassInfo) -> str:
    """The head's weight in what a model ties, "" without one."""
    found = info.find_attribute(TIED)
    if found is None or info.kind != "pretrained":
        return ""
    value = found[1]
    keys = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
    texts = [k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
    heads = [text for text in texts if text.endswith(".weight") and text.count(".") == 1]
    linear = {
        f"{target}.weight"
        for target, (_, built) in info.self_assignments.items()
        if built is not None and any(_is_linear(node) for node in nodes_of(built))
    }
    return next((text for text in heads if text in linear), "")


def _is_linear(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "Linear"
