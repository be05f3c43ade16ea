"""`auto_map` has no AutoConfig entry for a configuration class of the repository's own.

What it does
------------
For a config.json beside modeling code, checks that `auto_map` names the configuration class.
It is an `error` when the repository defines the class of its `model_type` itself, or when
there is no `model_type` to find one by, and `info` when `model_type` may be one that
transformers knows.

Why it matters
--------------
Without the entry transformers must know the `model_type`, or the configuration does not load
("The checkpoint you are trying to load has model type ..."), before vLLM looks at any code
(all releases).

Example
-------
```json
{
  "architectures": ["MineForCausalLM"],
  "auto_map": {
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
  "auto_map": {
    "AutoConfig": "configuration_mine.MineConfig",
    "AutoModel": "modeling_mine.MineModel",
    "AutoModelForCausalLM": "modeling_mine.MineForCausalLM"
  }
}
```

Fix safety
----------
Safe where the class is known: an entry is added, nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.backend.config_json import (
    config_class,
    config_finding,
    config_repo,
    reference_to,
)
from modelcheck.rules.base import Context

CODE = "MC305"
KEY = "AutoConfig"


def check(context: Context) -> Iterable[Finding]:
    """At most one finding."""
    repo = config_repo(context)
    if repo is None or KEY in repo.auto_map:
        return
    loads_code = any(key.startswith("AutoModel") for key in repo.auto_map)
    own = config_class(repo)
    model_type = repo.config.get("model_type")
    if not loads_code and own is None:
        return  # an in-tree model; nothing here is the repository's own
    certain = loads_code and (own is not None or not isinstance(model_type, str))
    value = reference_to(own) if own is not None else "configuration_<name>.<Name>Config"
    fix = None
    if certain and own is not None:
        title = "add AutoConfig to auto_map"
        fix = Fix("auto_map", title, data={"key": KEY, "value": value})
    yield config_finding(
        context,
        repo,
        CODE,
        Severity.ERROR if certain else Severity.INFO,
        ["auto_map"],
        f"auto_map has no {KEY}: "
        + (
            "transformers cannot load this configuration"
            if certain
            else f"the model loads only if transformers itself knows model_type {model_type!r}"
        ),
        f'Add `"{KEY}": "{value}"` to auto_map.',
        fix,
    )
