"""The weights are in MXFP4, which the Transformers backend refuses.

What it does
------------
Looks in the config.json of a repository with code of its own for a `quantization_config` whose
`quant_method` is mxfp4.

Why it matters
--------------
vLLM's Transformers backend stops: "Transformers modeling backend does not support MXFP4
quantization yet" (all releases).

Example
-------
```json
{
  "architectures": ["MineForCausalLM"],
  "model_type": "mine",
  "auto_map": {
    "AutoConfig": "configuration_mine.MineConfig",
    "AutoModel": "modeling_mine.MineModel",
    "AutoModelForCausalLM": "modeling_mine.MineForCausalLM"
  },
  "quantization_config": {"quant_method": "mxfp4"}
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
  },
  "quantization_config": {"quant_method": "fp8"}
}
```

Fix safety
----------
There is no fix: the weights are to be saved again.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend.config_json import config_finding, config_repo
from modelcheck.rules.base import Context

CODE = "MC322"
REFUSED = ("mxfp4", "gpt_oss_mxfp4")


def check(context: Context) -> Iterable[Finding]:
    """At most one finding, for a repository with code of its own."""
    repo = config_repo(context)
    if repo is None or not repo.auto_map:
        return  # a model of vLLM's own may well have MXFP4 weights
    quantization = repo.config.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    if method not in REFUSED:
        return
    yield config_finding(
        context,
        repo,
        CODE,
        Severity.ERROR,
        ["quantization_config", "quant_method"],
        f"vLLM's Transformers backend refuses {method} weights",
        "Publish the weights in another format (bf16, or one that the backend takes, such as fp8).",
    )
