"""Build the attention class directly instead of looking it up by the implementation's name.

``TABLE[config._attn_implementation](...)`` becomes the class of the entry "eager". The table and
its other classes go when nothing else in the file names them. They must be subclasses that add
no parameters, and the class that stays must call the attention interface, or be one that
`attention_to_interface` can make call it: otherwise nothing would be won.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

import libcst as cst
import libcst.matchers as m

from fixers import FixRefused, attention_to_interface
from fixers._attention_leftovers import without_leftovers
from fixers.toolkit import Change, Document, document, dotted, find
from modelcheck.findings import Finding
from modelcheck.source.attention import Dispatch, attention_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

KEY = "_attn_implementation"
EAGER = "eager"


def fix(text: str, finding: Finding) -> str:
    """``text`` without the table that the finding names. Raises `FixRefused`."""
    doc = document(text, finding)
    table = finding.fix.data.get("table", "") if finding.fix else ""
    entries = _entries(doc, finding, table)
    kept = _kept(doc, entries, table)
    _check_dispatches(doc, finding, kept)
    others = [_checked(doc, kept, name) for name in dict.fromkeys(entries.values()) if name != kept]
    changes: dict[cst.CSTNode, Change] = {
        node: lambda _: cst.Name(kept) for node in _lookups(doc, table)
    }
    if not changes:
        raise FixRefused(f"no lookup in {table} is found")
    gone = _unused(doc, table, others, changes)
    for node in gone:
        changes[node] = lambda _: cst.RemoveFromParent()
    return without_leftovers(text, doc.rewrite(changes, gone), finding)


def _entries(doc: Document, finding: Finding, table: str) -> dict[str, str]:
    """Implementation name to class name, as the table says."""
    value = doc.index.assignments.get(table)
    if not isinstance(value, ast.Dict):
        raise FixRefused(f"{table or 'the table'} is no dict of this file", finding.span.line)
    entries = {}
    for key, item in zip(value.keys, value.values, strict=True):
        name = dotted_name(item)
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str) or not name:
            raise FixRefused(f"an entry of {table} is no class under a name", value.lineno)
        entries[key.value] = name
    return entries


def _kept(doc: Document, entries: Mapping[str, str], table: str) -> str:
    if len(set(entries.values())) == 1:
        return next(iter(entries.values()))
    if EAGER not in entries:
        line = doc.index.assignments[table].lineno
        raise FixRefused(f'{table} has no entry "{EAGER}" whose arithmetic could be kept', line)
    return entries[EAGER]


def _check_dispatches(doc: Document, finding: Finding, kept: str) -> None:
    """Refuse where the class that stays cannot reach the interface."""
    info = doc.index.classes.get(kept)
    if info is None:
        if kept.partition(".")[0] in doc.index.imports:
            return
        raise FixRefused(f"{kept} is not at the top of this file")
    facts = attention_of(info)
    if facts is not None and facts.dispatch is not Dispatch.INLINE:
        return
    try:
        attention_to_interface.convert(doc, finding, kept)
    except FixRefused as refusal:
        reason = f"{kept} would not reach the interface: {refusal.reason}"
        raise FixRefused(reason, refusal.line) from None


def _checked(doc: Document, kept: str, name: str) -> ClassInfo:
    """Another class of the table, shown to add no parameters. Raises `FixRefused`."""
    info, base = doc.index.classes.get(name), doc.index.classes.get(kept)
    if info is None or base is None:
        raise FixRefused(f"{name} is not a class of this file")
    if base not in info.mro:
        raise FixRefused(f"{name} is no subclass of {kept}", info.node.lineno)
    for parent in info.mro[: info.mro.index(base)]:
        init = parent.methods.get("__init__")
        if init is not None:
            _check_init(parent, init)
    return info


def _check_init(info: ClassInfo, init: FunctionNode) -> None:
    """Only ``super().__init__`` and flags: no module, no parameter, no buffer."""
    for node in ast.walk(init):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in (
            "register_buffer",
            "register_parameter",
            "add_module",
        ):
            raise FixRefused(f"{info.name} adds parameters or buffers", node.lineno)
        if isinstance(node, ast.Assign) and any(is_self_attribute(t, "self") for t in node.targets):
            made = info.file.qualify(dotted_name(getattr(node.value, "func", node.value)))
            local = isinstance(info.file.resolve(made), ClassInfo) if made else False
            if made.startswith("torch.") or local:
                raise FixRefused(f"{info.name} adds modules or tensors", node.lineno)


def _lookups(doc: Document, table: str) -> list[cst.CSTNode]:
    """``TABLE[key]`` and ``TABLE.get(key, ...)`` whose key is the implementation's name."""
    keys = _key_names(doc)
    found: list[cst.CSTNode] = []
    for node in _found(doc, table, m.Subscript(slice=[m.SubscriptElement(slice=m.Index())])):
        assert isinstance(node, cst.Subscript)
        index = node.slice[0].slice
        named = dotted(node.value) == table
        if named and isinstance(index, cst.Index) and _is_key(doc, index.value, keys):
            found.append(node)
    for node in _found(doc, table, m.Call(func=m.Attribute(attr=m.Name("get")))):
        assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
        named = dotted(node.func.value) == table and bool(node.args)
        if named and _is_key(doc, node.args[0].value, keys):
            found.append(node)
    return found


def _found(doc: Document, word: str, matcher: m.BaseMatcherNode) -> list[cst.CSTNode]:
    """What matches in the statements of the file that mention a word: others need no visit."""
    mentioning = [node for node in doc.module.body if word in doc.code(node)]
    return [found for node in mentioning for found in find(node, matcher)]


def _key_names(doc: Document) -> set[str]:
    """Locals that hold the implementation's name wherever they are assigned."""
    names: dict[str, bool] = {}
    for node in _found(doc, KEY, m.Assign(targets=[m.AssignTarget(target=m.Name())])):
        assert isinstance(node, cst.Assign)
        name = dotted(node.targets[0].target)
        names[name] = names.get(name, True) and _names_key(doc, node.value)
    return {name for name, always in names.items() if always}


def _is_key(doc: Document, node: cst.BaseExpression, keys: set[str]) -> bool:
    return dotted(node) in keys or _names_key(doc, node)


def _names_key(doc: Document, node: cst.BaseExpression) -> bool:
    """``config._attn_implementation`` or ``getattr(config, "_attn_implementation", ...)``."""
    if isinstance(node, cst.Attribute):
        return node.attr.value == KEY
    return (
        isinstance(node, cst.Call)
        and dotted(node.func) == "getattr"
        and any(isinstance(a, ast.Constant) and a.value == KEY for a in ast.walk(doc.as_ast(node)))
    )


def _unused(
    doc: Document, table: str, others: list[ClassInfo], replaced: Mapping[cst.CSTNode, Change]
) -> list[cst.CSTNode]:
    """The table and those of its classes that nothing else names."""
    statement = next(
        (n for n in doc.module.body if _assigns(n, table)),
        None,
    )
    lookups = {name for node in replaced for name in find(node, m.Name(table))}
    uses = [n for n in _found(doc, table, m.Name(table)) if n not in lookups]
    if statement is None or len(uses) > 1:  # its assignment, and a use that stays
        return []
    gone: list[cst.CSTNode] = [statement]
    pending = [doc.class_def(info.name) for info in others]
    own = {n.name.value: set(find(n, m.Name(n.name.value))) for n in pending}
    uses_of = {name: _found(doc, name, m.Name(name)) for name in own}
    while True:  # a class may be the base of another
        inside = {name for node in gone for name in find(node, m.Name())}
        free = [
            node
            for node in pending
            if all(use in inside or use in own[node.name.value] for use in uses_of[node.name.value])
        ]
        if not free:
            return gone
        gone += free
        pending = [node for node in pending if node not in free]


def _assigns(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and any(
        isinstance(item, cst.Assign | cst.AnnAssign)
        and name
        in [
            dotted(t)
            for t in (
                [x.target for x in item.targets] if isinstance(item, cst.Assign) else [item.target]
            )
        ]
        for item in node.body
    )
