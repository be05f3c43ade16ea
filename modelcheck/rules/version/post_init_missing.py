"""A model does not call post_init.

What it does
------------
Looks at the constructors of `PreTrainedModel` classes: one that never calls `self.post_init()`,
and whose ancestors in sight do not either, is reported; so is one that calls
`self.init_weights()` without it. A model that is part of another one with `post_init` is left
alone.

Why it matters
--------------
`post_init` makes `all_tied_weights_keys` since transformers 5.0. Without it `from_pretrained`
raises AttributeError, and `self.init_weights()` does so in the constructor. vLLM (all releases)
builds the model without `from_pretrained`: for vLLM the first is `info` (an error with
`--transformers`), the second an error in the base model, which vLLM builds.

Example
-------
```python
from torch import nn
from transformers import PreTrainedModel


class MyForCausalLM(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedModel


class MyForCausalLM(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()
```

Fix safety
----------
Safe: the call becomes the last statement of the constructor, in place of `init_weights`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import (
    body,
    callee_name,
    headline,
    nodes_of,
    reached_methods,
    self_name,
)
from modelcheck.source.classes import ClassInfo, FunctionNode, is_self_attribute
from modelcheck.versions.heads import is_head
from modelcheck.versions.judged import judged, transformers_only
from modelcheck.versions.reach import certain_nodes

CODE = "MC906"
SINCE = "5.0"
CALL = "post_init"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each constructor."""
    if not judged(context).lacks(SINCE):
        return
    for info in context.file.classes.values():
        init = info.methods.get("__init__")
        if info.kind != "pretrained" or init is None or not _plain(info):
            continue
        if _initialised(info, init):
            continue
        weights = _init_weights(info, init)
        if weights is None and (_builds_nothing(init) or _part(info)):
            continue
        yield context.finding(
            CODE,
            Severity.ERROR if weights and not is_head(info) else transformers_only(context),
            info,
            weights or headline(init),
            f"self.init_weights() without self.{CALL}() raises AttributeError since transformers "
            f"{SINCE}: all_tied_weights_keys does not exist yet"
            if weights
            else f"{CALL} is never called: since transformers {SINCE} from_pretrained raises "
            "AttributeError, because all_tied_weights_keys does not exist",
            f"Call self.{CALL}() as the last statement of __init__.",
            Fix("v5_post_init", f"call self.{CALL}() at the end of __init__"),
        )


def _plain(info: ClassInfo) -> bool:
    """Are all ancestors in sight but PreTrainedModel itself and mixins?"""
    last = [base.rpartition(".")[2] for base in info.external_bases]
    return all(n == "PreTrainedModel" or n.endswith("Mixin") or n == "ABC" for n in last)


def _initialised(info: ClassInfo, init: FunctionNode) -> bool:
    """Does this constructor, or one that it inherits, call post_init?"""
    functions = [f for _, f in reached_methods(info, "__init__")]
    functions += [constructor for _, constructor in info.constructors]
    return any(
        isinstance(node, ast.Attribute) and node.attr == CALL
        for function in functions
        for node in nodes_of(function)
    )


def _part(info: ClassInfo) -> bool:
    """Is it built by another model of the file, whose post_init serves for both?"""
    for other in info.file.classes.values():
        init = other.methods.get("__init__")
        if other is info or other.kind != "pretrained" or init is None:
            continue
        calls = body(info.file, init).all(ast.Call)
        if any(callee_name(c) == info.name for c in calls) and _initialised(other, init):
            return True
    return False


def _builds_nothing(init: FunctionNode) -> bool:
    """Is it an abstract class, or one that only hands over?"""
    made = [n for n in nodes_of(init) if isinstance(n, ast.Assign | ast.AnnAssign)]
    return not made


def _init_weights(info: ClassInfo, init: FunctionNode) -> ast.Call | None:
    """The ``self.init_weights()`` that the constructor certainly runs and does not define."""
    found = info.find_method("init_weights")
    if found is not None:
        return None
    calls = set(body(info.file, init).all(ast.Call))
    for node in certain_nodes(init.body):
        if isinstance(node, ast.Call) and node in calls:
            target = node.func
            if is_self_attribute(target, self_name(init)) and ast.unparse(target).endswith(
                ".init_weights"
            ):
                return node
    return None
