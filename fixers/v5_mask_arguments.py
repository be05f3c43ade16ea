"""Give a mask function the arguments that transformers 5.9 takes.

``input_embeds=`` becomes ``inputs_embeds=`` and ``cache_position=`` goes, which the function reads
off the cache by itself; in a dictionary that is handed over with ``**`` likewise, if nothing but
such calls reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import libcst as cst
import libcst.matchers as m

from fixers import FixRefused
from fixers.toolkit import Change, Document, comments, document, dotted, find
from modelcheck.findings import Finding
from modelcheck.versions.table import removed_arguments

Names = Mapping[str, str]  # from an argument to its new name, "" for one that goes
Entry = TypeVar("Entry", cst.Arg, cst.BaseDictElement)
Changes = dict[cst.CSTNode, Change]


def fix(text: str, finding: Finding) -> str:
    """``text`` with the call as it has to be. Raises `FixRefused`."""
    doc = document(text, finding)
    names = dict(finding.fix.data) if finding.fix else {}
    method = doc.method_at(doc.class_def(finding.class_name), finding.span)
    call = _call_at(doc, method, finding)
    changes = _of_call(doc, call, names)
    for argument in call.args:
        if argument.star == "**" and isinstance(argument.value, cst.Name):
            changes |= _of_tables(doc, method, call, argument.value.value, names)
    if not changes:
        raise doc.refuse("the call has none of these arguments any more", call)
    try:
        return doc.rewrite(changes)
    except FixRefused as refusal:  # it names no line
        raise doc.refuse(refusal.reason, call) from None


def _call_at(doc: Document, method: cst.FunctionDef, finding: Finding) -> cst.Call:
    for call in find(method, m.Call()):
        # ``f(x).to(y)`` begins at the same place, but is not called by a name.
        if isinstance(call, cst.Call) and doc.starts_at(call, finding.span) and dotted(call.func):
            return call
    raise FixRefused("the call is not here any more", finding.span.line)


def _of_call(doc: Document, call: cst.Call, names: Names) -> Changes:
    given = [a.keyword.value if a.keyword else "" for a in call.args]
    if not names.keys() & set(given):
        return {}
    if any(a.star == "*" for a in call.args):
        raise doc.refuse("the call unpacks a sequence of arguments", call)
    _check(doc, call, names, given, call.args)

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Call)
        renamed = [
            a.with_changes(keyword=cst.Name(names[name])) if names.get(name) else a
            for a, name in zip(node.args, given, strict=True)
        ]
        kept = _without(renamed, [names.get(name) == "" for name in given])
        if kept:
            return node.with_changes(args=kept)
        return node.with_changes(args=(), whitespace_before_args=cst.SimpleWhitespace(""))

    return {call: change}


def _of_tables(
    doc: Document, method: cst.FunctionDef, call: cst.Call, name: str, names: Names
) -> Changes:
    """The dictionaries that the call unpacks under a name."""
    tables = _tables(method, name)
    changes: Changes = {}
    for table in tables:
        changes |= _of_table(doc, table, names)
    if changes:
        _check_uses(doc, method, call, name, names)
    return changes


def _tables(method: cst.FunctionDef, name: str) -> list[cst.Dict]:
    found = find(method, m.Assign(targets=[m.AssignTarget(m.Name(name))], value=m.Dict()))
    return [a.value for a in found if isinstance(a, cst.Assign) and isinstance(a.value, cst.Dict)]


def _of_table(doc: Document, table: cst.Dict, names: Names) -> Changes:
    given = [_key(element) for element in table.elements]
    if not names.keys() & set(given):
        return {}
    if any(isinstance(element, cst.StarredDictElement) for element in table.elements):
        raise doc.refuse("the dictionary takes in another one", table)
    _check(doc, table, names, given, table.elements)

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Dict)
        renamed = [
            _renamed(element, names[name]) if names.get(name) else element
            for element, name in zip(node.elements, given, strict=True)
        ]
        kept = _without(renamed, [names.get(name) == "" for name in given])
        return node.with_changes(elements=kept) if kept else cst.Dict([])

    return {table: change}


def _key(element: cst.BaseDictElement) -> str:
    """The text that an element has for its key, "" for anything else."""
    key = element.key if isinstance(element, cst.DictElement) else None
    value = key.evaluated_value if isinstance(key, cst.SimpleString) else None
    return value if isinstance(value, str) else ""


def _renamed(element: cst.BaseDictElement, new: str) -> cst.BaseDictElement:
    assert isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString)
    key = element.key
    text = f"{key.prefix}{key.quote}{new}{key.quote}"
    return element.with_changes(key=key.with_changes(value=text))


def _check(
    doc: Document,
    place: cst.CSTNode,
    names: Names,
    given: Sequence[str],
    entries: Sequence[cst.Arg | cst.BaseDictElement],
) -> None:
    """Raises `FixRefused` where an entry has both names, or more goes than a plain name."""
    for name, entry in zip(given, entries, strict=True):
        new = names.get(name)
        if given.count(name) > 1 and new is not None:
            raise doc.refuse(f"{name} is given twice", place)
        if new and new in given:
            raise doc.refuse(f"both {name} and {new} are given", place)
        if new == "" and not dotted(entry.value):
            raise doc.refuse(f"{name} is worked out on the spot", entry.value)
        if new == "" and (beside := comments(_line_above(doc, entry) + doc.code(entry))):
            raise doc.refuse(f"the comment {next(iter(beside))!r} stands beside {name}", entry)


def _line_above(doc: Document, entry: cst.CSTNode) -> str:
    """The comment on the line above an entry, "" for code."""
    above = doc.text.split("\n")[doc.line(entry) - 2].strip()
    return f"{above}\n" if above.startswith("#") else ""


def _check_uses(
    doc: Document,
    method: cst.FunctionDef,
    call: cst.Call,
    name: str,
    names: Names,
    copy: cst.Name | None = None,
) -> None:
    """Raises `FixRefused` where something reads the dictionary that is no such mask function.

    ``copy`` is the place where the name gets a copy of it.
    """
    fine: set[cst.CSTNode] = set() if copy is None else {copy}
    copied = m.Call(func=m.Attribute(value=m.Name(name), attr=m.Name("copy")), args=[])
    for node in find(method, m.Attribute() | m.Arg()):  # names that are none of a local
        named = node.attr if isinstance(node, cst.Attribute) else getattr(node, "keyword", None)
        fine |= {named} if named is not None else set()
    for other in find(method, m.Call()):
        if isinstance(other, cst.Call) and (other is call or _is_mask_function(doc, other.func)):
            fine |= {a.value for a in other.args if a.star == "**"}
    for statement in find(method, m.Assign()):
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0].target, statement.value
        if isinstance(target, cst.Name) and isinstance(value, cst.Dict):
            fine.add(target)
        elif isinstance(target, cst.Name) and m.matches(value, copied):
            assert isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute)
            if len(find(method, m.AssignTarget(m.Name(target.value)))) > 1:
                raise doc.refuse("a copy of the dictionary is one of several things", target)
            fine.add(value.func.value)
            _check_uses(doc, method, call, target.value, names, target)
        elif isinstance(target, cst.Subscript) and _other_key(target, names):
            fine.add(target.value)  # the dictionary gets another entry
    for use in find(method, m.Name(name)):
        if use not in fine:
            raise doc.refuse("the dictionary is also used for something else", use)


def _other_key(target: cst.Subscript, names: Names) -> bool:
    """``given["another_key"]``, which has nothing to do with the arguments."""
    if len(target.slice) != 1 or not isinstance(target.slice[0].slice, cst.Index):
        return False
    key = target.slice[0].slice.value
    text = key.evaluated_value if isinstance(key, cst.SimpleString) else None
    return isinstance(text, str) and text not in (*names, *names.values())


def _is_mask_function(doc: Document, function: cst.BaseExpression) -> bool:
    full = doc.qualified(function)
    # A relative import has no package in front.
    owners = {owner.partition(".")[2] for owner, _ in removed_arguments()}
    return any(full.endswith(f".{owner}") for owner in owners)


def _without(entries: Sequence[Entry], gone: Sequence[bool]) -> list[Entry]:
    """The entries that stay; the last one ends as the last one did."""
    kept: list[Entry] = [e for e, goes in zip(entries, gone, strict=True) if not goes]
    if kept and gone[-1]:
        ends = ("comma", "whitespace_after_arg")
        end = {name: getattr(entries[-1], name) for name in ends if hasattr(entries[-1], name)}
        kept[-1] = kept[-1].with_changes(**end)
    return kept
