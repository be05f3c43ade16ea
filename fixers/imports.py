"""Adding an import beside its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import libcst as cst

from fixers.toolkit import Change, Document, dotted

PACKAGE = "transformers"


def with_import(
    doc: Document,
    changes: Mapping[cst.CSTNode, Change],
    module: str,
    name: str,
    gone: Iterable[cst.CSTNode] = (),
) -> str:
    """The text after ``changes``, with ``from module import name`` at the top if it is missing.

    The comments of the nodes in ``gone`` may go.
    Inside transformers the import is relative, as those around it. Raises `FixRefused` when the
    name means something else in this file.
    """
    known = doc.index.imports.get(name)
    if known is not None:
        if known.rpartition(".")[2] != name:
            raise doc.refuse(f"{name} is the name of {known} in this file")
        return doc.rewrite(changes, gone)
    if name in {*doc.index.assignments, *doc.index.classes, *doc.index.functions}:
        raise doc.refuse(f"{name} is bound in this file, not by an import at its top")
    body = list(doc.module.body)
    dots = _relative_dots(body)
    source = f"{dots}{module.removeprefix(PACKAGE + '.')}" if dots else module
    place, before = _place(body, source)
    new = doc.statement(f"from {source} import {name}")

    def change(node: cst.CSTNode) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode]:
        if not before:
            return cst.FlattenSentinel([node, new])
        lines = getattr(node, "leading_lines", ())
        rest = node.with_changes(leading_lines=[])
        return cst.FlattenSentinel([new.with_changes(leading_lines=lines), rest])

    if place is None:
        raise doc.refuse(f"this file has no import beside which {name} could be imported")
    return doc.rewrite({**changes, place: change}, gone)


def _import_of(statement: cst.CSTNode) -> tuple[str, set[str]] | None:
    """Dotted module (with leading dots) and imported names of one ``from`` line."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    item = statement.body[0]
    if not isinstance(item, cst.ImportFrom):
        return None
    module = "." * len(item.relative) + (dotted(item.module) if item.module else "")
    if isinstance(item.names, cst.ImportStar):
        return module, {"*"}
    return module, {alias.evaluated_name for alias in item.names}


def _relative_dots(body: Sequence[cst.CSTNode]) -> str:
    """ "..." in a file of transformers itself, "" in a file of its own."""
    for statement in body:
        found = _import_of(statement)
        if found and found[0].startswith("...") and "PreTrainedModel" in found[1]:
            return found[0][: len(found[0]) - len(found[0].lstrip("."))]
    return ""


def _place(body: Sequence[cst.CSTNode], source: str) -> tuple[cst.CSTNode | None, bool]:
    """The statement to stand beside, and whether in front of it.

    In order among the imports of the same package; else behind the last import.
    """
    package = source.partition(".")[0] if not source.startswith(".") else "..."
    last: cst.CSTNode | None = None
    kin: list[tuple[str, cst.SimpleStatementLine]] = []
    for statement in body:
        found = _import_of(statement)
        if found and isinstance(statement, cst.SimpleStatementLine):
            module = found[0]
            own = (
                module.startswith("...")
                if package == "..."
                else (module.partition(".")[0] == package)
            )
            if own:
                kin.append((module, statement))
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(
            statement.body[0], cst.Import | cst.ImportFrom
        ):
            last = statement
    for index, (module, statement) in enumerate(kin):
        commented = any(line.comment is not None for line in statement.leading_lines)
        if module > source and not commented:
            return statement, True
        if module > source:
            return (kin[index - 1][1] if index else kin[-1][1]), False
    return (kin[-1][1] if kin else last), False
