"""`auto_map` names something that is no model.

What it does
------------
Looks up what the `AutoModel...` entries of `auto_map` name: a file of the repository, a class
in it, a `PreTrainedModel`. `AutoConfig` has to name a class of a file that is there, too.

Why it matters
--------------
vLLM tries the entries in order and passes over what it cannot import; with none left it says
"Cannot find model module", which hides the cause, and with a class that is no
`PreTrainedModel` an assertion fails without a text. What it builds is `AutoModel`, which must
be right in any case (all releases).

Example
-------
```json
{
  "architectures": ["MineForCausalLM"],
  "model_type": "mine",
  "auto_map": {
    "AutoConfig": "configuration_mine.MineConfig",
    "AutoModel": "MineModel",
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
There is no fix: which class is meant is for the author to say.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend.config_json import config_finding, config_repo
from modelcheck.rules.base import Context
from modelcheck.source.attributes import is_visible
from modelcheck.source.classes import ClassInfo, FileIndex
from modelcheck.source.repo import Repo

CODE = "MC324"
BASE = "AutoModel"
CONFIG = "AutoConfig"


def check(context: Context) -> Iterable[Finding]:
    """At most one finding for each entry."""
    repo = config_repo(context)
    if repo is None:
        return
    config = repo.auto_map.get(CONFIG)
    problem = _problem(repo, config) if config is not None else ""
    if problem:
        yield config_finding(
            context,
            repo,
            CODE,
            Severity.ERROR,
            ["auto_map", CONFIG],
            f"auto_map names for {CONFIG} what cannot be the configuration: {problem}",
            'Name the class as "<file without .py>.<class>", in a file of the repository.',
        )
    entries = {k: v for k, v in repo.auto_map.items() if k.startswith(BASE)}
    problems = {key: _problem(repo, reference) for key, reference in entries.items()}
    importable = [key for key, problem in problems.items() if not problem]
    for key, problem in problems.items():
        if problem and (key == BASE or not importable):
            yield _finding(context, repo, key, problem)
    if importable:
        # The first that imports is the one that vLLM asks whether it is a model.
        for key in dict.fromkeys((importable[0], *(k for k in importable if k == BASE))):
            found = _class_of(repo, entries[key])
            if found is not None and found.kind in ("module", "") and is_visible(found):
                yield _finding(context, repo, key, f"{found.name} is no PreTrainedModel")


def _finding(context: Context, repo: Repo, key: str, problem: str) -> Finding:
    return config_finding(
        context,
        repo,
        CODE,
        Severity.ERROR,
        ["auto_map", key],
        f"auto_map names for {key} what cannot be the model: {problem}",
        'Name the class as "<file without .py>.<class>", a PreTrainedModel in a file of the '
        "repository.",
    )


def _problem(repo: Repo, reference: str) -> str:
    """Why transformers cannot import an entry, "" when it may."""
    local = reference.rpartition("--")[2]
    if local.count(".") != 1:
        return f"{reference!r} is not of the form file.Class"
    if "--" in reference or not repo.files:
        return ""  # in another repository, or not looked at
    module, name = local.split(".")
    if not (repo.folder / f"{module}.py").is_file():
        return f"there is no {module}.py"
    file = _file(repo, module)
    known = file is None or _defines(file, name) or "*" in file.imports
    return "" if known else f"{module}.py has no {name}"


def _defines(file: FileIndex, name: str) -> bool:
    return name in file.classes or name in file.imports or name in file.assignments


def _file(repo: Repo, module: str) -> FileIndex | None:
    names = (f.path.replace("\\", "/").rpartition("/")[2] for f in repo.files)
    found = [f for f, name in zip(repo.files, names, strict=True) if name == f"{module}.py"]
    return found[0] if found else None


def _class_of(repo: Repo, reference: str) -> ClassInfo | None:
    module, _, name = reference.rpartition("--")[2].partition(".")
    file = _file(repo, module)
    return file.classes.get(name) if file is not None else None
