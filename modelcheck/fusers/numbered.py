"""Constructor parameters that only number a module, as ``layer_idx`` does.

Two modules that differ in such a number take the same fusers: nothing is decided by it, it is
kept, handed on, compared with None, and given to the cache. One of them is looked at for all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from modelcheck.source.bodies import Body, body, callee_name, self_name
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute
from modelcheck.source.memory import remembered

INIT = "__init__"


def only_numbers(info: ClassInfo, position: int | str) -> bool:
    """Does the constructor's argument, by position or by name, only number the module?"""
    found = info.find_method(INIT)
    if found is None:
        return False
    name = position if isinstance(position, str) else _name_at(found[1], position)
    return bool(name) and _only_numbers(info, found[0], name)


def _name_at(init: FunctionNode, position: int) -> str:
    names = [a.arg for a in (*init.args.posonlyargs, *init.args.args)][1:]
    return names[position] if position < len(names) else ""


@remembered(maxsize=1024)
def _verdicts(info: ClassInfo) -> dict[tuple[ClassInfo, str], bool]:
    return {}


def _only_numbers(info: ClassInfo, owner: ClassInfo, name: str) -> bool:
    """The same for a parameter of the constructor that one of the ancestors defines."""
    known = _verdicts(info)
    if (owner, name) not in known:
        known[owner, name] = True  # what it comes back to adds nothing
        known[owner, name] = all(_uses(info, owner, name))
    return known[owner, name]


def _uses(info: ClassInfo, owner: ClassInfo, name: str) -> Iterator[bool]:
    """For every use of the parameter, and of the attributes that keep it: is it harmless?"""
    init = owner.methods[INIT]
    nodes = body(owner.file, init)
    first = self_name(init)
    harmless: set[ast.AST] = set()
    kept: set[str] = set()
    for assignment in nodes.all(ast.Assign):
        targets = assignment.targets
        if all(is_self_attribute(target, first) for target in targets):
            harmless.add(assignment.value)
            if isinstance(assignment.value, ast.Name) and assignment.value.id == name:
                kept |= {t.attr for t in targets if isinstance(t, ast.Attribute)}
    harmless |= _asked_for_none(nodes)
    for call in nodes.all(ast.Call):
        given = [*enumerate(call.args), *((k.arg, k.value) for k in call.keywords)]
        for where, value in given:
            if isinstance(value, ast.Name) and value.id == name and where is not None:
                yield _handed_on(info, owner, call, where)
                harmless.add(value)
    yield all(node in harmless for node in nodes.some(ast.Name) if node.id == name)
    for attribute in kept:
        yield from _attribute_uses(info, attribute)


def _handed_on(info: ClassInfo, owner: ClassInfo, call: ast.Call, where: int | str) -> bool:
    """Does what is called use its argument as a number only?"""
    if callee_name(call) == INIT:
        later = info.mro[info.mro.index(owner) + 1 :]
        parent = next((c for c in later if INIT in c.methods), None)
        if parent is None:
            return False
        name = where if isinstance(where, str) else _name_at(parent.methods[INIT], where)
        return bool(name) and _only_numbers(info, parent, name)
    target = owner.file.resolve(dotted_name(call.func))
    return isinstance(target, ClassInfo) and target.is_module and only_numbers(target, where)


def _asked_for_none(nodes: Body) -> set[ast.AST]:
    """What is compared with None: a number never is it."""
    return {
        test.left
        for test in nodes.all(ast.Compare)
        if len(test.ops) == 1 and isinstance(test.ops[0], ast.Is | ast.IsNot)
        if isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
    }


def _root(node: ast.expr) -> str:
    """The name that an expression such as ``cache.layers[0].update`` begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _attribute_uses(info: ClassInfo, attribute: str) -> Iterator[bool]:
    for owner in info.mro:
        for function in owner.methods.values():
            nodes = body(owner.file, function)
            if attribute not in nodes.identifiers:
                continue
            own = ("", self_name(function))
            given: set[ast.AST] = _asked_for_none(nodes)
            for call in nodes.all(ast.Call):
                if isinstance(call.func, ast.Attribute) and _root(call.func) not in own:
                    given |= {*call.args, *(k.value for k in call.keywords)}
            for part in nodes.all(ast.Subscript):
                if _root(part) not in own:
                    given.add(part.slice)
            for node in nodes.all(ast.Attribute):
                if node.attr == attribute:
                    yield isinstance(node.ctx, ast.Store) or node in given
