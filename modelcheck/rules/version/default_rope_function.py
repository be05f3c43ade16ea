"""The table of rope functions is asked for its default entry.

What it does
------------
Finds `ROPE_INIT_FUNCTIONS["default"]`, and `ROPE_INIT_FUNCTIONS[self.rope_type]` in a class that
sets the type to "default" on one way and does not treat that type apart. With a config.json that
names another rope type, only the first form is reported. A file that puts its own "default" into
the table is left alone.

Why it matters
--------------
transformers 5.0 took "default" out of the table: the constructor raises `KeyError: 'default'`,
in vLLM (all releases that run on it) as elsewhere.

Example
-------
```python
from torch import nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


class MyRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        inv_freq, self.attention_scaling = ROPE_INIT_FUNCTIONS["default"](config)
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.original_inv_freq = inv_freq
```

Use instead
-----------
```python
import torch
from torch import nn


class MyRotaryEmbedding(nn.Module):
    rope_type = "default"

    def __init__(self, config):
        super().__init__()
        self.config = config
        inv_freq, self.attention_scaling = self.compute_default_rope_parameters(config)
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.register_buffer("original_inv_freq", inv_freq.clone(), persistent=False)

    @staticmethod
    def compute_default_rope_parameters(config, device=None, seq_len=None):
        theta = config.rope_parameters["rope_theta"]
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float) / config.head_dim
        return theta**-exponent, 1.0
```

Fix safety
----------
Safe: a `compute_default_rope_parameters` with the formula of transformers 4 joins the class; it
reads the base from `rope_parameters`, or from `rope_theta` where that is missing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, nodes_of, reached_methods
from modelcheck.source.classes import ClassInfo, dotted_name
from modelcheck.versions.configs import config_of, given
from modelcheck.versions.judged import judged
from modelcheck.versions.table import Kind, removed

CODE = "MC904"
TABLE = "ROPE_INIT_FUNCTIONS"
DEFAULT = "default"


def check(context: Context) -> Iterable[Finding]:
    """One finding for each class."""
    change = removed(Kind.CONSTANT)[DEFAULT]
    if TABLE not in context.file.source.text or not judged(context).lacks(change.until):
        return
    for info in context.file.classes.values():
        if not info.is_module or "__init__" not in info.methods:
            continue
        node = _lookup(context, info)
        if node is not None and not _own_entry(context):
            yield context.finding(
                CODE,
                Severity.ERROR,
                info,
                node,
                f"{TABLE} has no {DEFAULT!r} since transformers {change.until}: the constructor "
                "raises KeyError",
                "Compute the default inverse frequencies in a compute_default_rope_parameters "
                "method of the class, and use it for that type.",
                Fix(
                    "v5_rope_parameters",
                    "compute the default frequencies in the class",
                    data={"what": "default"},
                ),
            )


def _own_entry(context: Context) -> bool:
    """Does the file change the table, or test what is in it?"""
    for node in nodes_of(context.file.source.tree):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if _is_table(node.value):
                return True
        elif isinstance(node, ast.Compare) and any(_is_table(n) for n in node.comparators):
            return True
        elif isinstance(node, ast.Attribute) and _is_table(node.value):
            return True  # .get, .update, .setdefault
    return TABLE in context.file.assignments


def _is_table(node: ast.AST) -> bool:
    return dotted_name(node).rpartition(".")[2] == TABLE


def _lookup(context: Context, info: ClassInfo) -> ast.Subscript | None:
    """The lookup in the constructor that meets "default"."""
    functions = [f for owner, f in reached_methods(info, "__init__") if owner.file is context.file]
    bodies = [body(context.file, f) for f in functions]
    lookups = [n for nodes in bodies for n in nodes.some(ast.Subscript) if _is_table(n.value)]
    if not lookups or any(nodes.some(ast.Try) for nodes in bodies):
        return None
    for node in lookups:
        if isinstance(node.slice, ast.Constant) and node.slice.value == DEFAULT:
            return node
    values = [n for nodes in bodies for n in nodes.some(ast.Constant) if n.value == DEFAULT]
    if not values or _treated_apart(context, info) or _other_type(context, info):
        return None
    assigned = [
        n
        for f in functions
        for n in body(context.file, f).all(ast.Assign)
        if ast.unparse(n.targets[0]) == ast.unparse(lookups[0].slice)
        and any(isinstance(v, ast.Constant) and v.value == DEFAULT for v in ast.walk(n.value))
    ]
    return lookups[0] if assigned else None


def _treated_apart(context: Context, info: ClassInfo) -> bool:
    """Does the class compare something with "default"?"""
    return any(
        isinstance(node, ast.Compare)
        and any(
            isinstance(each, ast.Constant) and each.value == DEFAULT
            for part in (node.left, *node.comparators)
            for each in ast.walk(part)
        )
        for node in nodes_of(info.node)
    )


def _other_type(context: Context, info: ClassInfo) -> bool:
    """Does config.json, or the configuration class, name a rope type other than the default?"""
    values = given(context)
    settings = [v for v in map(values.get, ("rope_scaling", "rope_parameters")) if v]
    kinds = [v.get("rope_type", v.get("type", DEFAULT)) for v in settings if isinstance(v, dict)]
    if kinds:
        return any(kind != DEFAULT for kind in kinds)
    config = config_of(info)
    return config is not None and any(
        isinstance(key, ast.Constant)
        and key.value in ("rope_type", "type")
        and not (isinstance(value, ast.Constant) and value.value == DEFAULT)
        for node in nodes_of(config.node)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
    )
