"""`auto_map` has no AutoModel entry.

What it does
------------
Reports an `auto_map` that names model classes (`AutoModelForCausalLM`, ...) but none under
the exact key `AutoModel`, which is to be the headless base model. It is `info` when the
configuration is not the repository's own, because transformers may know a base model for it.

Why it matters
--------------
vLLM checks the class of `architectures` and then builds `AutoModel.from_config(...)`, adding
its own head. Without the entry the check passes and the build fails: "Unrecognized
configuration class ... for this kind of AutoModel: AutoModel" (all releases).

Example
-------
```json
{
  "architectures": ["MineForCausalLM"],
  "model_type": "mine",
  "auto_map": {
    "AutoConfig": "configuration_mine.MineConfig",
    "AutoModelForCausalLM": "modeling_mine.MineForCausalLM"
  }
}
```

Use instead
-----------
```json
{
  "architectures": ["MineForCausalLM"],
  "model_type": "mine",
  "auto_map": {
    "AutoConfig": "configuration_mine.MineConfig",
    "AutoModel": "modeling_mine.MineModel",
    "AutoModelForCausalLM": "modeling_mine.MineForCausalLM"
  }
}
```

Fix safety
----------
Safe, and offered where the modeling files beside config.json show one base model: an entry
is added, nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.backend.config_json import (
    architectures,
    class_named,
    config_finding,
    config_repo,
    reference_to,
)
from modelcheck.rules.base import Context
from modelcheck.source.basemodel import base_models
from modelcheck.source.classes import ClassInfo
from modelcheck.source.repo import Repo

CODE = "MC306"
KEY = "AutoModel"


def check(context: Context) -> Iterable[Finding]:
    """At most one finding."""
    repo = config_repo(context)
    if repo is None or KEY in repo.auto_map:
        return
    own_config = "AutoConfig" in repo.auto_map
    named = any(key.startswith(KEY) for key in repo.auto_map)
    defined = any(class_named(repo, name) for name in architectures(repo))
    if not named and not (own_config and defined):
        return
    base = _base(repo)
    fix = None
    if base is not None:
        title = f"add {KEY}: {base.name} to auto_map"
        fix = Fix("auto_map", title, data={"key": KEY, "value": reference_to(base)})
    yield config_finding(
        context,
        repo,
        CODE,
        Severity.ERROR if own_config else Severity.INFO,
        ["auto_map"],
        f"auto_map has no {KEY}, which vLLM builds the model with",
        f'Add `"{KEY}": "{reference_to(base)}"` to auto_map.'
        if base is not None
        else f"Name the headless base model under {KEY}; a model that has none needs one.",
        fix,
    )


def _base(repo: Repo) -> ClassInfo | None:
    """The base model, when the repo's files show exactly one."""
    found = [base.info for file in repo.files for base in base_models(file, repo)]
    return found[0] if len(found) == 1 else None
