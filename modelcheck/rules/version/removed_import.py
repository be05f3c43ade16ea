"""An import names what transformers no longer has.

What it does
------------
Compares every `from transformers... import name` with a table of the modules and names that
transformers releases have dropped, for the release given by `--transformers`, else for the
releases that the vLLM release allows. An import in `try`/`except ImportError`, below
`if TYPE_CHECKING` or below a condition on a version is left alone; one inside a function, or
below any other condition, is `info`, because it may never run.

Why it matters
--------------
vLLM imports the file to find the model class (all releases): a name that is gone ends that with
"ImportError: cannot import name ...", and the model is refused.

Example
-------
```python
from transformers.utils.import_utils import is_torch_fx_available

HAS_FX = is_torch_fx_available()
```

Use instead
-----------
```python
import importlib.util

HAS_FX = importlib.util.find_spec("torch.fx") is not None
```

Fix safety
----------
Safe where the name moved, is not used, or is a check that is always true (the condition goes; so
do calls of `torch.fx.wrap` below it, which only mark functions for tracing). Unsafe for helpers
of `prune_heads` and `parallelize`: those methods go too. Otherwise there is no fix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Fix, Safety, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body as nodes_in
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, dotted_name
from modelcheck.source.installed import PACKAGE, absolute_name
from modelcheck.versions.judged import judged
from modelcheck.versions.moves import DEAD_HELPERS, always_true, is_export, successor
from modelcheck.versions.table import Change, removed_import

CODE = "MC902"
CATCHING = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
ALWAYS = {"is_torch_available"}  # true wherever vLLM runs
Import = ast.Import | ast.ImportFrom


def check(context: Context) -> Iterable[Finding]:
    """One finding for each name."""
    release = judged(context)
    for node, certain, owner in _imports(context.file.source.tree.body, True, None, context):
        for written, name, change in _changes(context, node):
            if not release.lacks(change.until):
                continue
            yield context.finding(
                CODE,
                Severity.ERROR if certain else Severity.INFO,
                owner,
                node,
                f"{written} is gone since transformers {change.until}"
                + ("" if certain else ": the import fails if it ever runs"),
                f"Use `{change.replacement}`."
                if change.replacement
                else "Remove the import and what uses it, or write the function in this file.",
                _fix(context, node, name, change) if certain else None,
            )


def _fix(context: Context, node: Import, name: str, change: Change) -> Fix | None:
    """The fix, where the table knows what to write or the file does not use the name."""
    if isinstance(node, ast.Import) or node.level:
        return None
    module = node.module or ""
    data = {"module": module, "name": name}
    instead = successor(change, module, name)
    if instead is not None:
        new = dict(zip(("home", "new"), instead, strict=True))
        return Fix("v5_imports", f"import {instead[1]} from {instead[0]}", data={**data, **new})
    if name in DEAD_HELPERS and _used(context, node, name):
        title = f"remove {name} and the methods that it is for"
        return Fix("v5_imports", title, Safety.UNSAFE, data)
    if is_export(module) and _used(context, node, name):
        title = f"remove the classes derived from {name}, which nothing exports with"
        return Fix("v5_imports", title, Safety.UNSAFE, data)
    if always_true(name):
        return Fix("v5_imports", f"remove {name}, which is always true", data=data)
    if not _used(context, node, name):
        return Fix("v5_imports", f"remove the import of {name}, which is not used", data=data)
    return None


def _used(context: Context, node: ast.ImportFrom, name: str) -> bool:
    local = next(a.asname or a.name for a in node.names if a.name == name)
    return any(
        (isinstance(n, ast.Name) and n.id == local)
        or (isinstance(n, ast.Constant) and n.value == local)
        for n in nodes_of(context.file.source.tree)
    )


def _changes(context: Context, node: Import) -> Iterator[tuple[str, str, Change]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] == PACKAGE:
                change = removed_import(alias.name)
                if change is not None:
                    yield alias.name, "", change
        return
    module = _module(context, node)
    if module.partition(".")[0] != PACKAGE:
        return
    for alias in node.names:
        change = removed_import(module, alias.name)
        if change is not None:
            what = change.owner if not change.name else f"{module}.{alias.name}"
            yield what, alias.name, change


def _module(context: Context, node: ast.ImportFrom) -> str:
    """The full name of the module; a relative one only within a transformers tree."""
    if not node.level:
        return node.module or ""
    if context.file.tree is None:
        return ""
    relative = "." * node.level + (node.module or "")
    return absolute_name(context.file.location, relative).rstrip(".")


def _imports(
    body: list[ast.stmt], certain: bool, owner: ClassInfo | None, context: Context
) -> Iterator[tuple[Import, bool, ClassInfo | None]]:
    """Imports that are not guarded, whether each certainly runs, and the class it is in."""
    for node in body:
        if isinstance(node, Import):
            yield node, certain, owner
        elif isinstance(node, ast.ClassDef):
            inner = context.file.classes.get(node.name, owner)
            yield from _imports(node.body, certain, inner, context)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes = nodes_in(context.file, node)
            if not nodes.kinds.isdisjoint((ast.Import, ast.ImportFrom)):
                yield from _imports(node.body, False, owner, context)
        elif isinstance(node, ast.Try):
            if not any(_catches(handler) for handler in node.handlers):
                yield from _imports(node.body, certain, owner, context)
                yield from _imports(node.finalbody, certain, owner, context)
        elif isinstance(node, ast.If):
            names = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)} | {
                n.attr for n in ast.walk(node.test) if isinstance(n, ast.Attribute)
            }
            if any("TYPE_CHECKING" in name or "version" in name.lower() for name in names):
                continue
            plain = isinstance(node.test, ast.Call) and dotted_name(node.test.func) in ALWAYS
            yield from _imports(node.body, certain and plain, owner, context)
            yield from _imports(node.orelse, False, owner, context)
        elif isinstance(node, ast.With) and not _suppresses(node):
            yield from _imports(node.body, certain, owner, context)


def _suppresses(node: ast.With) -> bool:
    """Is it ``with contextlib.suppress(...)``?"""
    return any(
        isinstance(item.context_expr, ast.Call)
        and dotted_name(item.context_expr.func).endswith("suppress")
        for item in node.items
    )


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(dotted_name(kind).rpartition(".")[2] in CATCHING for kind in kinds)
