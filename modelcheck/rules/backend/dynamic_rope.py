"""The rotary embedding is of the dynamic type, which keeps vLLM from compiling the model.

What it does
------------
Looks in config.json for a `rope_type` (or legacy `type`) of "dynamic".

Why it matters
--------------
Up to 0.32 vLLM does not compile such a model, nor capture it in CUDA graphs: it serves right and
slower. 0.33 compiles it as long as `max_model_len` is not above `max_position_embeddings`; there
the finding is `info`.

Example
-------
Judged for vLLM 0.32:

```json
{
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "max_position_embeddings": 4096,
  "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
}
```

Use instead
-----------
```json
{
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "max_position_embeddings": 4096,
  "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
}
```

Fix safety
----------
No fix: the type belongs to the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from packaging.version import Version

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend.config_json import config_finding, config_repo
from modelcheck.rules.base import Context

CODE = "MC312"
COMPILED_SINCE = Version("0.33")  # within the trained length
KEYS = ("rope_parameters", "rope_scaling")


def check(context: Context) -> Iterable[Finding]:
    """Look at the rotary settings of config.json and of its text_config."""
    repo = config_repo(context)
    if repo is None:
        return
    compiled = Version(context.contract.version) >= COMPILED_SINCE
    inner = repo.config.get("text_config")
    prefix = ("text_config",) if isinstance(inner, dict) else ()
    config = inner if isinstance(inner, dict) else repo.config
    for key in KEYS:
        if any(kind == "dynamic" for kind in _types(config.get(key))):
            yield config_finding(
                context,
                repo,
                CODE,
                Severity.INFO if compiled else Severity.SLOW,
                (*prefix, key),
                "The rotary embedding is of type dynamic: vLLM compiles the model only up to "
                "max_position_embeddings."
                if compiled
                else "The rotary embedding is of type dynamic: vLLM does not compile the model.",
                "Serve it with max_model_len up to max_position_embeddings, on vLLM 0.33 or newer.",
            )
            return


def _types(value: Any) -> Iterator[Any]:
    """The rope types of one set of parameters, or of one for each kind of layer."""
    if isinstance(value, dict):
        yield value.get("rope_type", value.get("type"))
        for part in value.values():
            yield from _types(part)
