"""A constructor reads rope settings that transformers 5 keeps elsewhere.

What it does
------------
Two reads in a constructor, where the configuration class is in sight:

- `config.rope_scaling["type"]` or `["factor"]`: the key is there only when config.json itself
  writes it.
- `config.rope_theta`, where the class sets no `rope_theta`, and config.json's value (if any) is
  moved into `rope_parameters` when the configuration is made.

A read below a condition other than one on `rope_scaling` is not reported, nor is a file that
handles the exception.

Why it matters
--------------
transformers 5 keeps all rope settings in `config.rope_parameters`, under `rope_type` and
`rope_theta`. `config.rope_scaling` is the same dictionary under its old name and is filled with
`rope_type: default`, so that `rope_scaling is None` no longer holds and `["type"]`, like
`["factor"]`, raises KeyError, in vLLM (all releases that run on it) as elsewhere; vLLM fills it
too when the configuration class does not.

Example
-------
```python
from torch import nn
from transformers import PreTrainedModel, PretrainedConfig


class MyConfig(PretrainedConfig):
    def __init__(self, rope_theta=10000.0, rope_scaling=None, **kwargs):
        self.rope_theta = rope_theta
        self.rope_scaling = rope_scaling
        super().__init__(**kwargs)


class MyRotaryEmbedding(nn.Module):
    def __init__(self, config: MyConfig):
        super().__init__()
        self.kind = "plain" if config.rope_scaling is None else config.rope_scaling["type"]
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedModel, PretrainedConfig


class MyConfig(PretrainedConfig):
    def __init__(self, rope_parameters=None, **kwargs):
        self.rope_parameters = rope_parameters or {"rope_type": "default", "rope_theta": 10000.0}
        super().__init__(**kwargs)


class MyRotaryEmbedding(nn.Module):
    def __init__(self, config: MyConfig):
        super().__init__()
        self.kind = config.rope_parameters["rope_type"]
```

Fix safety
----------
Safe: the settings are read through a small function that knows both places, so that the rest of
the code sees what transformers 4 gave it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body, callee_name, reached_methods
from modelcheck.source.classes import ClassInfo, FunctionNode, is_self_attribute
from modelcheck.versions.configs import config_of, given, is_config, names_of
from modelcheck.versions.judged import judged
from modelcheck.versions.reach import runs_always

CODE = "MC903"
SINCE = "5.0"
OLD, NEW = "rope_scaling", "rope_parameters"
KEYS = {  # that a filled rope_scaling lacks: how it is said, what to read instead
    "type": ("rope_type, never with type", f'config.{NEW}["rope_type"]'),
    "factor": ("the type default, which has no factor", f'config.{NEW}.get("factor")'),
}
THETA = ("rope_theta", "rotary_emb_base")  # vLLM takes the second for the first


def check(context: Context) -> Iterable[Finding]:
    """One finding for each read."""
    text = context.file.source.text
    if not judged(context).lacks(SINCE):
        return
    if not any(f".{name}" in text for name in (OLD, "rope_theta")):
        return
    seen: set[ast.AST] = set()
    for info in context.file.classes.values():
        if not info.is_module or "__init__" not in info.methods:
            continue
        config = config_of(info)
        names = names_of(config) if config is not None else None
        if config is None or names is None:
            continue
        for owner, function in reached_methods(info, "__init__"):
            if owner.file is not context.file or seen & {function}:
                continue
            seen.add(function)
            yield from _type_reads(context, owner, function, config)
            yield from _theta_reads(context, owner, function, names)


def _type_reads(
    context: Context, info: ClassInfo, function: FunctionNode, config: ClassInfo
) -> Iterator[Finding]:
    settings = [given(context).get(key) for key in (OLD, NEW)]
    present = {key for value in settings if isinstance(value, dict) for key in value}
    if not _filled(config):
        return
    for node in _reached(function.body, _copied(info)):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.slice, ast.Constant)
            and node.slice.value in KEYS.keys() - present
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == OLD
            and is_config(node.value.value)
        ):
            key = str(node.slice.value)
            fills, instead = KEYS[key]
            yield context.finding(
                CODE,
                Severity.ERROR,
                info,
                node,
                f'config.{OLD}["{key}"] raises KeyError: transformers {SINCE} fills {OLD} with '
                f"{fills}, and no longer leaves it None",
                f"Read {instead}.",
                _fix("scaling", OLD),
            )
            return


def _theta_reads(
    context: Context, info: ClassInfo, function: FunctionNode, names: frozenset[str]
) -> Iterator[Finding]:
    if names & set(THETA):
        return
    # config.json's value stays on the configuration only where nothing asks for rope settings.
    values = given(context)
    moved = bool(names & {OLD, NEW}) or bool(values.get(OLD))
    if any(name in values for name in THETA) and not moved:
        return
    for node in body(context.file, function).reads_of({"rope_theta"}):
        if (
            isinstance(node.ctx, ast.Load)
            and is_config(node.value)
            and node in runs_always(function)
        ):
            yield context.finding(
                CODE,
                Severity.ERROR,
                info,
                node,
                "config.rope_theta raises AttributeError: the configuration class does not set "
                f"it, and transformers {SINCE} keeps it in {NEW}",
                f'Read config.{NEW}["rope_theta"].',
                _fix("theta", "rope_theta"),
            )
            return


def _fix(what: str, name: str) -> Fix:
    return Fix("v5_rope_parameters", f"read {name} in either place", data={"what": what})


def _filled(config: ClassInfo) -> bool:
    """Is rope_scaling, None by default, filled with the default type?

    By transformers, for a configuration that has it when its base class's constructor runs, or by
    vLLM, which does so for a configuration with a rope_theta.
    """
    init = config.methods.get("__init__")
    if init is None:
        return False
    arguments = [*init.args.posonlyargs, *init.args.args]
    defaults = dict(
        zip([a.arg for a in reversed(arguments)], reversed(init.args.defaults), strict=False)
    )
    defaults |= {
        a.arg: d for a, d in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True) if d
    }
    default = defaults.get(OLD)
    if default is not None and not (isinstance(default, ast.Constant) and default.value is None):
        return False
    stored = {
        node.attr: statement
        for statement in init.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    plain = stored.get(OLD)
    if plain is not None and not (
        isinstance(plain, ast.Assign) and isinstance(plain.value, ast.Name)
    ):
        return False
    if NEW in stored:
        return False
    return not set(THETA).isdisjoint(stored) or (plain is not None and _before_base(init, plain))


def _before_base(init: FunctionNode, statement: ast.stmt) -> bool:
    """Does a statement of a constructor stand before the call of the base class's?"""
    calls = [s.lineno for s in init.body if isinstance(s, ast.Expr) and _calls_init(s.value)]
    return bool(calls) and statement in init.body and statement.lineno < min(calls)


def _calls_init(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and callee_name(node) == "__init__"


def _reached(body: list[ast.stmt], copied: bool) -> Iterator[ast.AST]:
    """The nodes that run when rope_scaling is a dictionary of the default type.

    Behind conditions on rope_scaling being there, and nothing else; ``copied`` says whether
    ``self.rope_scaling`` is the configuration's.
    """
    for statement in body:
        if isinstance(statement, ast.If):
            taken = _taken(statement.test, copied)
            if taken is not None:
                yield from _reached(statement.body if taken else statement.orelse, copied)
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
            yield from _parts(statement, copied)


def _parts(node: ast.AST, copied: bool) -> Iterator[ast.AST]:
    if isinstance(node, ast.IfExp):
        taken = _taken(node.test, copied)
        if taken is not None:
            yield from _parts(node.body if taken else node.orelse, copied)
        return
    if isinstance(node, ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _parts(child, copied)


def _taken(test: ast.expr, copied: bool) -> bool | None:
    """What a condition on rope_scaling is for a dictionary; None for any other condition."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and _is_setting(test.left, copied):
        none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        if none and isinstance(test.ops[0], ast.Is | ast.Eq):
            return False
        if none and isinstance(test.ops[0], ast.IsNot | ast.NotEq):
            return True
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _taken(test.operand, copied)
        return None if inner is None else not inner
    return True if _is_setting(test, copied) else None


def _copied(info: ClassInfo) -> bool:
    """Is ``self.rope_scaling`` what the configuration has?"""
    assigned = info.self_assignments.get(OLD)
    value = assigned[1] if assigned is not None else None
    return value is not None and _is_setting(value, False)


def _is_setting(node: ast.AST, copied: bool) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr != OLD:
        return False
    return is_config(node.value) or (copied and is_self_attribute(node))
