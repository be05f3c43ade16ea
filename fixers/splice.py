"""Edits by position: what is not edited stays as it is, byte for byte.

For fixers that touch several places of a file at once. Nodes are those of ``ast``, offsets count
characters of the text.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
from collections.abc import Iterable, Iterator

from fixers import FixRefused
from fixers.toolkit import Document, comments, parsed
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import FunctionNode

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


class Splice:
    """Edits of one text, collected and then applied in one go."""

    def __init__(self, doc: Document) -> None:
        self.doc = doc
        self.source = doc.index.source
        self.tree = self.source.tree
        self._lines = list(io.StringIO(doc.text, newline=""))
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._edits: list[tuple[int, int, str]] = []
        self._may_go = ""  # the text of what is removed, whose comments go with it
        self._parents: dict[ast.AST, ast.AST] = {}

    @property
    def newline(self) -> str:
        """The file's line end."""
        return self.doc.module.default_newline

    def offset(self, line: int, column: int) -> int:
        """The place of an ``ast`` position, whose column counts UTF-8 bytes."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        if not text.isascii():
            column = len(text.encode()[:column].decode(errors="ignore"))
        return self._starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.arg | ast.alias) -> tuple[int, int]:
        """Where a node begins and ends; decorators are not part of it."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def code(self, node: ast.expr | ast.stmt | ast.arg | ast.alias) -> str:
        """A node's source text."""
        start, end = self.span(node)
        return self.doc.text[start:end]

    def parent(self, node: ast.AST) -> ast.AST:
        """The node that holds a node."""
        if not self._parents:
            for outer in nodes_of(self.tree):
                for inner in ast.iter_child_nodes(outer):
                    self._parents[inner] = outer
        return self._parents[node]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first, the module not among them."""
        current = self.parent(node)
        while not isinstance(current, ast.Module):
            yield current
            current = self.parent(current)

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around a node."""
        return next(n for n in (node, *self.ancestors(node)) if isinstance(n, ast.stmt))

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        """The function around a node."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return next((n for n in self.ancestors(node) if isinstance(n, kinds)), None)

    def block_of(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that holds a statement."""
        parent = self.parent(statement)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        raise self.refuse("it is in a block of an unknown kind", statement)

    def indent(self, statement: ast.stmt) -> str:
        """The white space in front of a statement."""
        line = self._lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def refuse(self, reason: str, node: ast.AST | None = None) -> FixRefused:
        """The refusal to raise, at a node."""
        return FixRefused(reason, getattr(node, "lineno", None))

    def replace(self, node: ast.expr | ast.stmt | ast.arg | ast.alias, text: str) -> None:
        """Write other text for a node."""
        start, end = self.span(node)
        self._add(start, end, text)

    def replace_from(self, first: ast.stmt, last: ast.stmt, text: str) -> None:
        """Write other text for neighbouring statements, their comments in between too."""
        start, end = self.span(first)[0], self.span(last)[1]
        self._may_go += self.doc.text[start:end]
        self._add(start, end, self._indented(text, self.indent(first)).lstrip())

    def insert(self, offset: int, text: str) -> None:
        """Insert text."""
        self._add(offset, offset, text)

    def before(self, statement: ast.stmt, text: str) -> None:
        """Insert whole statements in front of one, at its indentation, below its comments."""
        self.insert(self._starts[_first_line(statement) - 1], self._block(text, statement))

    def above(self, definition: ast.stmt, text: str) -> None:
        """Insert a definition above another one of the module, and its comments."""
        line = _first_line(definition)
        while line > 1 and self._lines[line - 2].startswith("#"):
            line -= 1
        gap = self.newline * 3
        self.insert(self._starts[line - 1], self._indented(text, "") + gap)

    def after(self, statement: ast.stmt, text: str, *, blank: bool = False) -> None:
        """Insert whole statements behind one, at its indentation; below a blank line or not."""
        assert statement.end_lineno is not None
        place = self._starts[statement.end_lineno]
        last = self._lines[statement.end_lineno - 1]
        lead = "" if last.endswith(("\n", "\r")) else self.newline
        lead += self.newline if blank else ""
        self.insert(place, lead + self._block(text, statement))

    def _block(self, text: str, statement: ast.stmt) -> str:
        return self._indented(text, self.indent(statement)) + self.newline

    def _indented(self, text: str, indent: str) -> str:
        lines = textwrap.indent(textwrap.dedent(text).strip("\n"), indent).split("\n")
        return self.newline.join(lines)

    def remove(self, statement: ast.stmt, *, with_comments: bool = True) -> None:
        """Take out the lines of a statement, with the comments and blank lines above it.

        The only statement of a block becomes ``pass``. Raises `FixRefused` for one that shares
        its line.
        """
        assert statement.end_lineno is not None
        first, last = _first_line(statement), statement.end_lineno
        if self._shares_a_line(statement, first, last):
            raise self.refuse("it shares its line with other code", statement)
        block = self.block_of(statement)
        if len(block) == 1 and not isinstance(self.parent(statement), ast.Module):
            self._may_go += self.doc.text[self._starts[first - 1] : self._starts[last]]
            indent = self.indent(statement)
            self._add(self._starts[first - 1], self._starts[last], f"{indent}pass{self.newline}")
            return
        top = first
        while with_comments and top > 1 and self._lines[top - 2].lstrip().startswith("#"):
            top -= 1
        below = self._lines[last : last + 1]
        spaced = isinstance(statement, Scope | ast.If) or statement is block[-1]
        spaced = spaced or bool(below and not below[0].strip())
        while spaced and top > 1 and not self._lines[top - 2].strip():
            top -= 1
        self._may_go += self.doc.text[self._starts[top - 1] : self._starts[last]]
        self._add(self._starts[top - 1], self._starts[last], "")

    def _shares_a_line(self, statement: ast.stmt, first: int, last: int) -> bool:
        start, end = self.span(statement)
        before = self.doc.text[self._starts[statement.lineno - 1] : start]
        after = self.doc.text[end : self._starts[last]].strip()
        return bool(before.strip()) or bool(after and not after.startswith("#"))

    def cut(self, start: int, end: int) -> None:
        """Take out text, and the comments in it."""
        self._may_go += self.doc.text[start:end]
        self._add(start, end, "")

    def _add(self, start: int, end: int, text: str) -> None:
        if (start, end, text) not in self._edits:
            self._edits.append((start, end, text))

    def text(self) -> str:
        """The text with all edits.

        Raises `FixRefused` when two edits meet, or a comment of what stays would be lost.
        """
        pieces: list[str] = []
        position = 0
        for start, end, new in sorted(self._edits, key=lambda e: e[:2]):
            if start < position:
                raise FixRefused("two of its edits meet")
            pieces += [self.doc.text[position:start], new]
            position = end
        result = "".join([*pieces, self.doc.text[position:]])
        lost = comments(self.doc.text) - comments(result) - comments(self._may_go)
        if lost:
            raise FixRefused(f"the comment {next(iter(lost))!r} would be lost")
        return result


def _first_line(statement: ast.stmt) -> int:
    """The first line of a statement, its decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def names(tree: ast.AST, name: str) -> list[ast.Name]:
    """Every bare use of a name below a node."""
    return [n for n in nodes_of(tree) if isinstance(n, ast.Name) and n.id == name]


def used_names(tree: ast.AST) -> set[str]:
    """Bare names below a node, and texts (annotations, ``__all__``) that could be names."""
    found = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = re.sub(r"[\[\].,|\"']", " ", node.value).split()
            found |= set(words) if len(words) < 8 else set()  # a sentence is no annotation
    return found


def parameters(function: FunctionNode) -> list[ast.arg]:
    """All named parameters of a function, ``self`` included."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def import_aliases(
    body: Iterable[ast.stmt],
) -> Iterator[tuple[ast.Import | ast.ImportFrom, ast.alias]]:
    """The imports among some statements, those below ``if`` and ``try`` included."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node, alias) for alias in node.names)
        elif isinstance(node, ast.If):
            yield from import_aliases([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            handlers = [s for handler in node.handlers for s in handler.body]
            yield from import_aliases([*node.body, *handlers, *node.orelse])


def remove_alias(splice: Splice, node: ast.Import | ast.ImportFrom, *gone: ast.alias) -> None:
    """Take names out of an import; the whole statement with its last ones."""
    if len(gone) == len(node.names):
        splice.remove(node, with_comments=False)
        return
    kept = [alias for alias in node.names if alias not in gone]
    for alias in gone:
        place = node.names.index(alias)
        start, end = splice.span(alias)
        following = [a for a in node.names[place + 1 :] if a in kept]
        if following:
            splice.cut(start, splice.span(node.names[place + 1])[0])
        else:
            before = node.names[place - 1]
            splice.cut(splice.span(before)[1], end)


def without_idle_imports(doc: Document, new: str) -> str:
    """``new`` without the imports of ``doc`` that it no longer uses, and ``doc`` did."""
    after = parsed(doc.path, new)
    splice = Splice(after)
    was, now = used_names(doc.index.source.tree), used_names(splice.tree)
    idle: dict[ast.Import | ast.ImportFrom, list[ast.alias]] = {}
    for node, alias in import_aliases(splice.tree.body):
        local = alias.asname or alias.name.partition(".")[0]
        if local in was and local not in now and alias.name != "*":
            idle.setdefault(node, []).append(alias)
    if not idle:
        return new
    for node, gone in idle.items():
        remove_alias(splice, node, *gone)
    return splice.text()
