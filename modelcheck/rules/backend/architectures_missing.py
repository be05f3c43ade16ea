"""config.json does not say which architecture it holds.

What it does
------------
Reports a model's config.json (one with `model_type` or `auto_map`) whose `architectures` is
missing, empty, or not a list of class names.

Why it matters
--------------
vLLM looks the model up by the first entry and stops without one: "No model architectures are
specified" (all releases).

Example
-------
```json
{
  "model_type": "mine",
  "auto_map": {
    "AutoConfig": "configuration_mine.MineConfig",
    "AutoModel": "modeling_mine.MineModel",
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
There is no fix: which head the checkpoint was saved with is for its author to say.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend.config_json import architectures, config_finding, config_repo
from modelcheck.rules.base import Context

CODE = "MC304"


def check(context: Context) -> Iterable[Finding]:
    """At most one finding."""
    repo = config_repo(context)
    if repo is None or architectures(repo):
        return
    if not (repo.auto_map or isinstance(repo.config.get("model_type"), str)):
        return  # not a model's configuration
    heads = [k for k in ("AutoModelForCausalLM", "AutoModel") if k in repo.auto_map]
    example = repo.auto_map[heads[0]].rpartition(".")[2] if heads else "...ForCausalLM"
    yield config_finding(
        context,
        repo,
        CODE,
        Severity.ERROR,
        ["architectures"],
        "`architectures` names no class: vLLM cannot tell which model to load",
        f'Add `"architectures": ["{example}"]`, the class that the checkpoint was saved from.',
    )
