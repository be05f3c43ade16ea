"""`architectures` names a class that transformers itself has, and `auto_map` another.

What it does
------------
For a config.json whose `auto_map` names model classes, looks up the first of `architectures` in
the transformers that is installed. It is an `error` when the class there is one that vLLM
refuses, `info` otherwise. Without transformers nothing is looked up.

Why it matters
--------------
vLLM asks the class of that name in transformers whether it can be served, and the repository's
own only when transformers has none; what it then builds is the repository's `AutoModel`. So
the answer is about other code: a model that is ready is refused with "The Transformers
implementation of ... is not compatible with vLLM", or one that is not ready is let through.
Without `--model-impl transformers` a model of vLLM's own that has this name comes first, and
the repository's code does not run at all (all releases).

Example
-------
```json
{
  "architectures": ["LlamaForCausalLM"],
  "model_type": "mine",
  "auto_map": {
    "AutoConfig": "configuration_mine.MineConfig",
    "AutoModel": "modeling_mine.LlamaModel",
    "AutoModelForCausalLM": "modeling_mine.LlamaForCausalLM"
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
There is no fix: the class needs another name in the code as well, and where transformers' own
fits the checkpoint it is `auto_map` that should go.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend import attention_backend_flag_missing
from modelcheck.rules.backend.config_json import architectures, config_finding, config_repo
from modelcheck.rules.base import Context
from modelcheck.source.classes import ClassInfo
from modelcheck.source.installed import PACKAGE

CODE = "MC327"


def check(context: Context) -> Iterable[Finding]:
    """At most one finding."""
    repo = config_repo(context)
    if repo is None or not any(key.startswith("AutoModel") for key in repo.auto_map):
        return
    names = architectures(repo)
    theirs = _of_transformers(context, names[0]) if names else None
    if theirs is None:
        return
    refused = _is_refused(context, theirs)
    what = (
        f"transformers itself has a {theirs.name}, which vLLM's transformers backend asks "
        "instead of this repository's"
    )
    yield config_finding(
        context,
        repo,
        CODE,
        Severity.ERROR if refused else Severity.INFO,
        ["architectures"],
        f'{what} and refuses ("The Transformers implementation of {theirs.name!r} is not '
        'compatible")'
        if refused
        else f"{what}; without --model-impl transformers, one of vLLM's own of that name is run",
        "Give the class a name that transformers does not have, here, in auto_map and in the "
        "code; or drop auto_map, if transformers' own class fits the checkpoint.",
        class_name=theirs.name,
    )


def _of_transformers(context: Context, name: str) -> ClassInfo | None:
    """The class that the package exports by a name."""
    file = context.file.project.sibling(context.file, f"{PACKAGE}.{name}")
    info = file.classes.get(name) if file is not None else None
    exported = file.assignments.get("__all__") if file is not None else None
    if info is None or (exported is not None and not _lists(exported, name)):
        return None
    return info if info.kind == "pretrained" else None


def _lists(exported: ast.expr, name: str) -> bool:
    return any(isinstance(n, ast.Constant) and n.value == name for n in ast.walk(exported))


def _is_refused(context: Context, info: ClassInfo) -> bool:
    """Does vLLM's check of model classes fail for one of transformers?"""
    their_file = Context(info.file, None, context.contract)
    refusing = {
        finding.class_name
        for finding in attention_backend_flag_missing.check(their_file)
        if finding.severity is Severity.ERROR
    }
    return any(base.name in refusing for base in info.mro)
