"""The code uses what the key-value cache no longer has.

What it does
------------
Finds `from_legacy_cache`, `to_legacy_cache`, `get_usable_length`, `seen_tokens`, `key_cache` and
`value_cache` on a transformers cache: on the class, or on a value called `past_key_values` or the
like. A file with a cache class of its own that has the name is left alone.

Why it matters
--------------
transformers 4.54 to 5.0 took these away: `generate()` raises AttributeError. vLLM (all releases)
passes no cache, so code that runs only with one does not matter to it: such a finding is `info`,
and an error with `--transformers`. A call on the class that runs in every forward is an error.

Example
-------
```python
from torch import nn
from transformers.cache_utils import DynamicCache


class MyStack(nn.Module):
    def forward(self, hidden_states, past_key_values=None, **kwargs):
        past_key_values = DynamicCache.from_legacy_cache(past_key_values)
        return hidden_states, past_key_values
```

Use instead
-----------
```python
from torch import nn
from transformers.cache_utils import DynamicCache


class MyStack(nn.Module):
    def forward(self, hidden_states, past_key_values=None, use_cache=False, **kwargs):
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        return hidden_states, past_key_values
```

Fix safety
----------
Safe: the cache takes the place of its tuples, the constructor that of the conversion, and
`get_seq_length` that of the lengths; a cache is all that transformers 5 hands on. The fix is
refused where the tensors of a cache are written, or passed on as a list.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, nodes_of
from modelcheck.source.classes import FileIndex, dotted_name
from modelcheck.versions.judged import judged, transformers_only
from modelcheck.versions.reach import runs_always
from modelcheck.versions.table import Kind, removed

CODE = "MC908"
VALUES = {
    "past_key_value",
    "past_key_values",
    "past_key_values_cache",
    "kv_cache",
    "cache",
    "next_cache",
    "next_decoder_cache",
}


def check(context: Context) -> Iterable[Finding]:
    """One finding for each use."""
    release = judged(context)
    gone = {n: c for n, c in removed(Kind.CACHE_METHOD).items() if release.lacks(c.until)}
    gone = {n: c for n, c in gone.items() if n in context.file.source.text}
    if not gone:
        return
    own = _own_names(context.file)
    for info in context.file.classes.values():
        if not info.is_module:
            continue
        for name, function in info.methods.items():
            for node in body(context.file, function).reads_of(gone.keys() - own):
                change = gone[node.attr]
                on_class = _is_cache_class(context.file, node.value)
                if not on_class and not _is_cache(node.value):
                    continue
                if not on_class and _asked(function, node.attr):
                    continue
                always = on_class and name == "forward" and node in runs_always(function)
                yield context.finding(
                    CODE,
                    Severity.ERROR if always else transformers_only(context),
                    info,
                    node,
                    f"{node.attr} is gone from transformers' caches since {change.until}: it "
                    "raises AttributeError" + ("" if always else " when a cache is used"),
                    f"Use {change.replacement}.",
                    Fix("v5_cache", f"take {node.attr} out", data={"name": node.attr}),
                )


def _own_names(file: FileIndex) -> set[str]:
    """What cache classes of the file define or set themselves."""
    names: set[str] = set()
    for info in file.classes.values():
        if info.is_module:
            continue
        names |= {*info.methods, *info.attributes}
        for node in nodes_of(info.node):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return names


def _is_cache_class(file: FileIndex, node: ast.expr) -> bool:
    full = file.qualify(dotted_name(node))
    return full.startswith("transformers.") and full.endswith("Cache")


def _is_cache(node: ast.expr) -> bool:
    return dotted_name(node).rpartition(".")[2] in VALUES


def _asked(function: ast.AST, name: str) -> bool:
    """Does the function ask whether the cache has it, or what kind of cache it is?"""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("hasattr", "getattr")
        and any(isinstance(a, ast.Constant) and a.value == name for a in node.args)
        for node in nodes_of(function)
    )
