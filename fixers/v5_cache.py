"""Take one use of the legacy cache API out.

- ``DynamicCache.from_legacy_cache(x)``: the constructor takes the same tuples (and None).
- ``x.to_legacy_cache()``: the cache itself, which is what transformers 5 hands on; conditions
  that only chose between the two go, and so do their flags.
- ``get_usable_length(n, layer)`` and ``seen_tokens``: ``get_seq_length(layer)``, the same number
  for a cache that grows.
- ``key_cache[i]`` and ``value_cache[i]``: ``layers[i].keys`` and ``layers[i].values``.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice, names
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import dotted_name

PARTS = {"key_cache": "keys", "value_cache": "values"}


def fix(text: str, finding: Finding) -> str:
    """``text`` without that use. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    name = finding.fix.data.get("name", "") if finding.fix else ""
    span = finding.span
    found = [
        node
        for node in nodes_of(splice.tree)
        if isinstance(node, ast.Attribute)
        and node.attr == name
        and splice.offset(node.lineno, node.col_offset)
        == splice.offset(span.line, 0) + span.column - 1
    ]
    if len(found) != 1:
        raise FixRefused(f"there is no {name} here", span.line)
    node = found[0]
    if name in PARTS:
        _part(splice, node)
    elif name == "seen_tokens":
        splice.replace(node, f"{splice.code(node.value)}.get_seq_length()")
    else:
        call = splice.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            raise splice.refuse(f"{name} is not called here", node)
        if name == "get_usable_length":
            _usable_length(splice, node, call)
        elif name == "from_legacy_cache":
            _from_legacy(splice, node, call)
        elif name == "to_legacy_cache":
            _to_legacy(splice, node, call)
        else:
            raise splice.refuse(f"nothing is known about {name}", node)
    return splice.text()


def _part(splice: Splice, node: ast.Attribute) -> None:
    cache, holder = splice.code(node.value), splice.parent(node)
    if isinstance(holder, ast.Subscript) and holder.value is node:
        if not isinstance(holder.ctx, ast.Load):
            raise splice.refuse(f"{node.attr} is written here", node)
        index = splice.code(holder.slice)
        splice.replace(holder, f"{cache}.layers[{index}].{PARTS[node.attr]}")
    elif isinstance(holder, ast.Call) and dotted_name(holder.func) == "len":
        splice.replace(node, f"{cache}.layers")
    else:
        raise splice.refuse(f"{node.attr} is neither indexed nor counted here", node)


def _usable_length(splice: Splice, node: ast.Attribute, call: ast.Call) -> None:
    layer = [k.value for k in call.keywords if k.arg == "layer_idx"] + call.args[1:]
    if len(layer) > 1 or any(isinstance(a, ast.Starred) for a in call.args):
        raise splice.refuse("the arguments of get_usable_length are unclear", call)
    argument = splice.code(layer[0]) if layer else ""
    splice.replace(call, f"{splice.code(node.value)}.get_seq_length({argument})")


def _from_legacy(splice: Splice, node: ast.Attribute, call: ast.Call) -> None:
    if not splice.doc.index.qualify(dotted_name(node.value)).endswith(".DynamicCache"):
        raise splice.refuse(f"{splice.code(node.value)} is no DynamicCache", node)
    values = [*call.args, *(k.value for k in call.keywords)]
    if len(values) > 1:
        raise splice.refuse("from_legacy_cache has more than one argument", call)
    argument = splice.code(values[0]) if values else ""
    splice.replace(call, f"{splice.code(node.value)}({argument})")


def _to_legacy(splice: Splice, node: ast.Attribute, call: ast.Call) -> None:
    if call.args or call.keywords:
        raise splice.refuse("to_legacy_cache takes arguments", call)
    cache = splice.code(node.value)
    holder = splice.parent(call)
    if (
        isinstance(holder, ast.IfExp)
        and holder.body is call
        and splice.code(holder.orelse) == cache
    ):
        splice.replace(holder, cache)
        _forget(splice, holder.test, [holder])
        return
    statement = splice.statement_of(call)
    outer = splice.parent(statement)
    onto_itself = (
        isinstance(statement, ast.Assign)
        and statement.value is call
        and [splice.code(t) for t in statement.targets] == [cache]
    )
    if not onto_itself:
        splice.replace(call, cache)
    elif isinstance(outer, ast.If) and outer.body == [statement] and not outer.orelse:
        splice.remove(outer)
        _forget(splice, outer.test, [outer])
    else:
        splice.remove(statement)


def _forget(splice: Splice, test: ast.expr, gone: list[ast.AST]) -> None:
    """Remove a flag that nothing reads any more."""
    function = splice.function_of(test)
    if not isinstance(test, ast.Name) or function is None:
        return
    inside = {node for part in gone for node in nodes_of(part)}
    uses = [use for use in names(function, test.id) if use not in inside]
    stores = [splice.parent(use) for use in uses]
    plain = [s for s in stores if isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant)]
    if len(plain) != len(uses) or test.id in {a.arg for a in function.args.args}:
        return
    for statement in plain:
        if len(splice.block_of(statement)) > 1:
            splice.remove(statement, with_comments=False)
