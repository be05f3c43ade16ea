"""The checkpoint and the model do not have the same parameters.

What it does
------------
Compares the names in `model.safetensors.index.json`, or in the header of `model.safetensors`,
with the model's parameters under vLLM's mapping of names: a tensor that nothing takes, a
parameter that nothing fills. Without a checkpoint it points at parameters that are constants
(`requires_grad=False`), which are easily left out of one. Quantised checkpoints are not
compared.

Why it matters
--------------
vLLM creates parameters empty and fills them from the checkpoint alone. A tensor too many ends
the load with "There is no module or parameter named ...", one too few with "Following weights
were not initialized from checkpoint" (all releases). Buffers keep the values of the
constructor.

Example
-------
```python
import torch
from torch import nn


class MyScale(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.steps = nn.Parameter(torch.ones(config.steps), requires_grad=False)

    def forward(self, values):
        return values * self.steps
```

Use instead
-----------
```python
import torch
from torch import nn


class MyScale(nn.Module):
    def __init__(self, config):
        super().__init__()
        steps = torch.ones(config.steps)
        self.register_buffer("steps", steps, persistent=False)

    def forward(self, values):
        return values * self.steps
```

Fix safety
----------
There is no fix: the checkpoint is not modelcheck's to change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend.config_json import architectures
from modelcheck.rules.backend.head_not_lm_head import misnamed_heads
from modelcheck.rules.base import Context
from modelcheck.rules.config._weights import generic_names, is_judged, module_name, unfilled
from modelcheck.rules.plans._models import PlannedModel, planned_models
from modelcheck.source.bodies import body, headline
from modelcheck.source.checkpoint import Checkpoint
from modelcheck.source.classes import ClassInfo, dotted_name

CODE = "MC325"
SHOWN = 3
RENAMES = "register_checkpoint_conversion_mapping"
HEADS = ("ForCausalLM", "LMHeadModel", "Model")


def check(context: Context) -> Iterable[Finding]:
    """With a checkpoint, what does not fit; without, the parameters that are constants."""
    repo = context.repo
    checkpoint = repo.checkpoint if repo is not None else None
    if repo is None or checkpoint is None:
        yield from _constants(context)
        return
    served = architectures(repo)[:1]
    if "quantization_config" in repo.config or not (served and served[0].endswith(HEADS)):
        return  # other names, or a head that is not looked at
    if RENAMES in context.file.source.text:
        return  # its checkpoints have the names that it renames
    for models in planned_models(context):
        if all(is_judged(model) for model in models):
            yield from _compared(context, models, checkpoint)


def _compared(
    context: Context, models: tuple[PlannedModel, ...], checkpoint: Checkpoint
) -> Iterator[Finding]:
    info = models[0].info
    known = [generic_names(model) for model in models]
    heads = tuple(f"{name}." for _, name in misnamed_heads(context))  # another rule's
    keys = [key for key in checkpoint.keys if not key.startswith(heads)]
    names = {key: module_name(models[0], key, context.repo) for key in keys}
    unknown = sorted(
        key for key, name in names.items() if name and not any(k.takes(name) for k in known)
    )
    if unknown:
        yield context.finding(
            CODE,
            Severity.ERROR,
            info,
            headline(info.node),
            f"no module or parameter takes {_some(unknown)} of the checkpoint: the load fails",
            "Rename the tensors, or list them in _keys_to_ignore_on_load_unexpected.",
        )
    loaded = {name for name in names.values() if name}
    missing = sorted(set.intersection(*(unfilled(model, loaded) for model in models)))
    if missing:
        yield context.finding(
            CODE,
            Severity.ERROR,
            info,
            headline(info.node),
            f"nothing in the checkpoint fills {_some(missing)}: the load fails",
            "Save them with the checkpoint, or register what is computed as a buffer "
            "(persistent=False).",
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def _constants(context: Context) -> Iterator[Finding]:
    """``nn.Parameter(..., requires_grad=False)``: what no training fills, a checkpoint must."""
    if "requires_grad" not in context.file.source.text:
        return
    for info in context.file.classes.values():
        init = info.methods.get("__init__")
        if init is None or not info.is_module:
            continue
        for node in body(context.file, init).all(ast.Call):
            if _is_constant(info, node):
                yield context.finding(
                    CODE,
                    Severity.INFO,
                    info,
                    node,
                    "vLLM drops a parameter's first value: one that is not trained must be in "
                    "the checkpoint all the same",
                    "Register it as a buffer (persistent=False).",
                )


def _is_constant(info: ClassInfo, call: ast.Call) -> bool:
    if info.file.qualify(dotted_name(call.func)) != "torch.nn.Parameter":
        return False
    return any(
        k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value is False
        for k in call.keywords
    )
