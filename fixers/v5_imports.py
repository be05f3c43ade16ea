"""Replace an import that transformers 5 no longer has, or remove it with its dead use.

What can be done is decided by the rule's table: a name that moved is imported from its new home;
a check that is always true goes, with the condition around it; a helper of the head-pruning and
device-map methods, which nothing calls any more, goes with those methods; a base class of an export
that is gone goes with the classes derived from it, where nothing else names them; a name that the
file does not use goes alone. Any other use stops the fix.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice, import_aliases, names, remove_alias, without_idle_imports
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import FunctionNode, dotted_name
from modelcheck.versions.moves import (
    DEAD_HELPERS,
    DEAD_METHODS,
    STAND_INS,
    TRUE_CALLS,
    always_true,
    is_export,
)


def fix(text: str, finding: Finding) -> str:
    """``text`` without the import. Raises `FixRefused`."""
    data = finding.fix.data if finding.fix else {}
    doc = document(text, finding)
    splice = Splice(doc)
    node, alias = _import(splice, finding, data.get("module", ""), data.get("name", ""))
    local = alias.asname or alias.name
    uses = names(splice.tree, local)
    remove = True
    if alias.name in STAND_INS:
        _only_tested(splice, uses)
    if data.get("home"):
        _import_again(splice, node, alias, data["home"], data["new"])
        remove = len(node.names) > 1
    elif not uses and not _named_in_text(splice.tree, local):
        pass
    elif always_true(alias.name):
        for use in uses:
            _take_as_true(splice, use, called=alias.name in TRUE_CALLS)
    elif alias.name in DEAD_HELPERS:
        _remove_methods(splice, local, uses)
    elif is_export(data.get("module", "")):
        _remove_classes(splice, local, uses)
    else:
        where = uses[0] if uses else node
        raise splice.refuse(f"{local} is used, and nothing takes its place", where)
    if remove:
        remove_alias(splice, node, alias)
    return without_idle_imports(doc, splice.text())


def _import(
    splice: Splice, finding: Finding, module: str, name: str
) -> tuple[ast.ImportFrom, ast.alias]:
    for node, alias in import_aliases(splice.tree.body):
        if node.lineno != finding.span.line or not isinstance(node, ast.ImportFrom):
            continue
        if (node.module or "") == module and alias.name == name:
            return node, alias
    raise FixRefused(f"there is no `from {module} import {name}` here", finding.span.line)


def _named_in_text(tree: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Constant) and n.value == name for n in nodes_of(tree))


def _import_again(
    splice: Splice, node: ast.ImportFrom, alias: ast.alias, home: str, name: str
) -> None:
    """Import the successor, under the name that the file uses."""
    local = alias.asname or alias.name
    new = f"from {home} import {name}" + (f" as {local}" if local != name else "")
    if len(node.names) == 1:
        splice.replace(node, new)
    else:
        splice.after(node, new)


def _only_tested(splice: Splice, uses: list[ast.Name]) -> None:
    """Refuse where a class is built, derived from, or asked for an attribute."""
    for use in uses:
        holder = splice.parent(use)
        built = isinstance(holder, ast.Call) and holder.func is use
        if built or isinstance(holder, ast.ClassDef | ast.Attribute):
            raise splice.refuse(f"{use.id} is more than tested for here", use)


def _take_as_true(splice: Splice, use: ast.Name, *, called: bool) -> None:
    """Take the condition away where it is a whole test, else write True."""
    value: ast.expr = use
    if called:
        call = splice.parent(use)
        if not isinstance(call, ast.Call) or call.func is not use or call.args or call.keywords:
            raise splice.refuse(f"{use.id} is not simply called", use)
        value = call
    holder = splice.parent(value)
    negated = isinstance(holder, ast.UnaryOp) and isinstance(holder.op, ast.Not)
    test = holder if negated else value
    statement = splice.parent(test)
    if not isinstance(statement, ast.If) or statement.test is not test:
        splice.replace(value, "True")
        return
    if any(isinstance(a, ast.If) and _tests_true(a) for a in splice.ancestors(statement)):
        return  # the condition around it goes, and this one with it
    kept = statement.orelse if negated else statement.body
    outer = splice.block_of(statement)
    if statement.orelse or _is_elif(splice, statement):
        raise splice.refuse("the condition has other branches", statement)
    if negated or all(_only_for_tracing(s) for s in kept):
        splice.remove(statement)
        if len(outer) == 1:
            raise splice.refuse("the condition is all that its block holds", statement)
        return
    start = splice.span(kept[0])[0]
    end = splice.span(kept[-1])[1]
    splice.replace_from(statement, statement, splice.indent(kept[0]) + splice.doc.text[start:end])


def _tests_true(node: ast.If) -> bool:
    return isinstance(node.test, ast.Call) and dotted_name(node.test.func) in TRUE_CALLS


def _is_elif(splice: Splice, node: ast.If) -> bool:
    start = splice.span(node)[0]
    return splice.doc.text.startswith("elif", start)


def _only_for_tracing(node: ast.stmt) -> bool:
    """Does the statement only mark functions for torch.fx, which changes no number?"""
    if isinstance(node, ast.Import):
        return all(alias.name.startswith("torch") and not alias.asname for alias in node.names)
    if isinstance(node, ast.If):
        return all(_only_for_tracing(n) for n in (*node.body, *node.orelse))
    value = node.value if isinstance(node, ast.Assign | ast.Expr) else None
    return isinstance(value, ast.Call) and dotted_name(value.func) in ("torch.fx.wrap", "fx.wrap")


def _remove_methods(splice: Splice, local: str, uses: list[ast.Name]) -> None:
    """Remove the methods that the helper served, and those that call them."""
    gone: set[FunctionNode] = set()
    for use in uses:
        function = splice.function_of(use)
        if function is None or function.name not in DEAD_METHODS:
            raise splice.refuse(f"{local} is used outside the pruning methods", use)
        gone.add(function)
    wanted = {function.name for function in gone}
    while True:
        calling = {
            splice.function_of(node): node
            for node in nodes_of(splice.tree)
            if isinstance(node, ast.Attribute) and node.attr in wanted
        }
        new = {f: n for f, n in calling.items() if f not in gone}
        if not new:
            break
        for function, node in new.items():
            if function is None or function.name not in DEAD_METHODS:
                raise splice.refuse(f"{node.attr} is called here", node)
            gone.add(function)
        wanted |= {f.name for f in gone}
    for function in sorted(gone, key=lambda f: f.lineno):
        splice.remove(function)


def _remove_classes(splice: Splice, local: str, uses: list[ast.Name]) -> None:
    """Remove the classes derived from a name, which is used in them only and they nowhere."""
    gone = [
        node
        for node in splice.tree.body
        if isinstance(node, ast.ClassDef) and any(use in node.bases for use in uses)
    ]
    inside = {node for cls in gone for node in nodes_of(cls)}
    outside = [use for use in uses if use not in inside]
    for cls in gone:
        outside += [n for n in names(splice.tree, cls.name) if n not in inside]
    if outside:
        raise splice.refuse(f"{outside[0].id} is used", outside[0])
    named = [cls for cls in gone if _named_in_text(splice.tree, cls.name)]
    if named or not gone:
        what = named[0] if named else None
        raise splice.refuse(f"{what.name if what else local} is named in a string", what)
    for cls in gone:
        splice.remove(cls)
