"""Which layers of a model have a sliding window, where its configuration does not say so."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from modelcheck.graph.configs import config_value
from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import Config
from modelcheck.rules.base import Context
from modelcheck.rules.modules import LAYERS, Built, Tree, configuration
from modelcheck.source.attention import Dispatch, attention_of
from modelcheck.source.bodies import nodes_of, self_name
from modelcheck.source.classes import ClassInfo, FileIndex, dotted_name
from modelcheck.source.repo import Repo

WINDOW = "sliding_window"
SLIDING, FULL = "sliding_attention", "full_attention"
TYPES = "layer_types"
INDEX = "layer_idx"

_Operators = Mapping[type[ast.AST], Callable[[Any, Any], Any]]
_BINARY: _Operators = {
    ast.Mod: operator.mod,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
}
_COMPARED: _Operators = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def tree_windows(tree: Tree) -> tuple[str, dict[int, int | None]]:
    """The attention class, and the window of each layer that was built (None: no window).

    ("", {}) where a window is not known, or there are two attention classes.
    """
    names: set[str] = set()
    found: dict[int, int | None] = {}
    for index, modules in tree.attention().items():
        for module in modules:
            attention = attention_of(module.info)
            call = attention.call if attention is not None else None
            given = [k.value for k in call.keywords if k.arg == WINDOW] if call else []
            name = dotted_name(given[0]).partition(".")[2] if given else ""
            value = module.instance.attributes.get(name, ...)
            if value is not None and not _is_count(value):
                return "", {}
            names.add(module.info.name)
            found[index] = value
    return (names.pop(), found) if len(names) == 1 else ("", {})


def unasked_window(tree: Tree) -> tuple[Built, int] | None:
    """An attention of a model that nowhere reads the window of its configuration, and its size.

    None where a class has ancestors out of sight, which may read it.
    """
    size = config_value(tree.config, WINDOW)
    served = [module for modules in tree.attention().values() for module in modules]
    classes = {tree.model, *(module.info for module in tree.modules)}
    if not _is_count(size) or tree.layer_types or tree.doubt or not served:
        return None
    for info in classes:
        if _mentions_window(info.file):
            return None
        known = ("torch.", "transformers.modeling_utils.", "transformers.PreTrainedModel", "abc.")
        mixins = [b for b in info.external_bases if not b.endswith("Mixin")]
        if any(not base.startswith(known) for base in mixins):
            return None
    return served[0], size


def _mentions_window(file: FileIndex) -> bool:
    """Is the window named anywhere but in a configuration class?"""
    for statement in file.source.tree.body:
        info = file.classes.get(getattr(statement, "name", ""))
        if info is not None and info.node is statement and info.kind == "config":
            continue
        for node in nodes_of(statement):
            words = [getattr(node, name, None) for name in ("attr", "id", "arg", "value")]
            if any(isinstance(w, str) and WINDOW in w and "_supports_" not in w for w in words):
                return True
    return False


def window_fields(context: Context, repo: Repo, tree: Tree) -> dict[str, Any] | None:
    """What config.json lacks for vLLM to know the windows of the layers; None if it is unclear.

    The layers beyond those that were built have theirs by a list of the configuration, or by
    what the attention class makes of the index.
    """
    name, built = tree_windows(tree)
    sizes = {size for size in built.values() if size is not None}
    config = configuration(context, tree.model)
    if not name or len(sizes) != 1 or config is None or tree.layer_types or tree.doubt:
        return None
    total, read = config_value(config, LAYERS), config_value(config, WINDOW)
    given = repo.config.get(config.attribute_map.get(LAYERS, LAYERS), total)
    size = sizes.pop()
    if not _is_count(given) or TYPES in repo.config or not (isinstance(read, Sym) or read == size):
        return None
    chosen = _by_list(config, built, given) or _by_index(tree, name, given)
    if chosen is None or len(set(chosen)) != 2:
        return None
    fields: dict[str, Any] = {TYPES: [SLIDING if has else FULL for has in chosen]}
    return fields | {WINDOW: size}


def _by_list(config: Config, built: Mapping[int, int | None], total: int) -> list[bool] | None:
    """By a list of the configuration with an item for each layer."""
    if set(built) == set(range(total)):
        return [built[index] is not None for index in range(total)]
    for value in config.values.values():
        if not isinstance(value, list | tuple) or len(value) != total:
            continue
        meanings: dict[str, set[bool]] = {}
        for index, size in built.items():
            meanings.setdefault(str(value[index]), set()).add(size is not None)
        known = {item: found.pop() for item, found in meanings.items() if len(found) == 1}
        if set(known.values()) == {True, False} and {str(item) for item in value} == set(known):
            return [known[str(item)] for item in value]
    return None


def _by_index(tree: Tree, name: str, total: int) -> list[bool] | None:
    found = [m.info for m in tree.modules if m.info.name == name]
    chosen = window_by_index(found[0]) if found else None
    return None if chosen is None else [chosen(index) for index in range(total)]


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def window_by_index(info: ClassInfo) -> Callable[[int], bool] | None:
    """Which layers of this attention have ``config.sliding_window``; None where it is unclear.

    For ``config.sliding_window if <a test of layer_idx> else None`` that the interface is given.
    """
    attention = attention_of(info)
    if attention is None or attention.dispatch is not Dispatch.INTERFACE or attention.call is None:
        return None
    given = [k.value for k in attention.call.keywords if k.arg == WINDOW]
    owner, _, name = dotted_name(given[0]).partition(".") if given else ("", "", "")
    assigned = info.self_assignments.get(name)
    if owner != self_name(attention.function) or assigned is None:
        return None
    match assigned[1]:
        case ast.IfExp(test=test, body=value, orelse=ast.Constant(None)):
            wanted = True
        case ast.IfExp(test=test, body=ast.Constant(None), orelse=value):
            wanted = False
        case _:
            return None
    if dotted_name(value).rpartition(".")[2] != WINDOW or _value(test, 0) is None:
        return None
    return lambda index: bool(_value(test, index)) == wanted


def _value(node: ast.expr, index: int) -> int | bool | None:
    """The value of an expression of the index and numbers, None for any other."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return index if name == INDEX else None
        case ast.Call(func=ast.Name(id="bool"), args=[inner], keywords=[]):
            given = _value(inner, index)
            return None if given is None else bool(given)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            negated = _value(inner, index)
            return None if negated is None else not negated
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _applied(_BINARY[type(op)], left, right, index)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            return _applied(_COMPARED[type(op)], left, right, index)
    return None


def _applied(
    function: Callable[[Any, Any], Any], left: ast.expr, right: ast.expr, index: int
) -> int | bool | None:
    one, two = _value(left, index), _value(right, index)
    if one is None or two is None:
        return None
    try:
        result: int | bool = function(one, two)
    except ZeroDivisionError:
        return None
    return result
