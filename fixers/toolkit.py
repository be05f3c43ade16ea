"""What the libcst fixers share: finding nodes, rewriting them, and asking about names.

`Document` holds one text in both views: libcst's (every byte, for writing) and modelcheck's
class index (for questions about classes and imports).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from fixers import FixRefused
from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Span
from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode, ProjectIndex
from modelcheck.source.text import parse_text

Node = TypeVar("Node", bound=cst.CSTNode)
Change = Callable[[cst.CSTNode], "cst.CSTNode | cst.RemovalSentinel | Flat"]
Flat = cst.FlattenSentinel[cst.CSTNode]
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


@dataclass(frozen=True, eq=False)
class Document:
    """One text, parsed by libcst."""

    path: str
    text: str
    module: cst.Module

    @cached_property
    def _positions(self) -> Mapping[cst.CSTNode, CodeRange]:
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        return wrapper.resolve(PositionProvider)

    @cached_property
    def index(self) -> FileIndex:
        """modelcheck's view of the same text. Raises `FixRefused` if it does not parse."""
        try:
            return ProjectIndex().add(parse_text(self.path, self.text))
        except UnreadableFile as error:
            raise FixRefused(error.cause, error.line) from None

    def line(self, node: cst.CSTNode) -> int:
        """The 1-based line on which a node begins."""
        return self._positions[node].start.line

    def column(self, node: cst.CSTNode) -> int:
        """The 0-based column at which a node begins."""
        return self._positions[node].start.column

    def starts_at(self, node: cst.CSTNode, span: Span) -> bool:
        """Does a node begin where the span does?"""
        return (self.line(node), self.column(node) + 1) == (span.line, span.column)

    def code(self, node: cst.CSTNode) -> str:
        """A node's source text."""
        return self.module.code_for_node(node)

    def statement_value(self, node: cst.BaseExpression) -> str:
        """An expression's text as the value of a statement: in parentheses if it has lines."""
        code = self.code(node)
        return f"({code})" if "\n" in code and not node.lpar else code

    def refuse(self, reason: str, node: cst.CSTNode | None = None) -> FixRefused:
        """The refusal to raise, at a node of this text."""
        return FixRefused(reason, self.line(node) if node is not None else None)

    def class_def(self, name: str) -> cst.ClassDef:
        """The class that a finding names, at module level. Raises `FixRefused`."""
        found = [
            node
            for node in _statements(self.module.body)
            if isinstance(node, cst.ClassDef) and node.name.value == name
        ]
        if not found:
            raise FixRefused(f"there is no class {name} at the top of this file")
        if len(found) > 1:
            raise self.refuse(f"{name} is defined more than once", found[1])
        return found[0]

    def class_info(self, name: str) -> ClassInfo:
        """modelcheck's view of a class at module level. Raises `FixRefused`."""
        info = self.index.classes.get(name)
        if info is None:
            raise FixRefused(f"{name} is not at module level")
        return info

    def own_forward(self, finding: Finding) -> tuple[ClassInfo, FunctionNode]:
        """The finding's class and the forward that is written in it. Raises `FixRefused`."""
        info = self.class_info(finding.class_name)
        forward = info.methods.get("forward")
        if forward is None:
            raise FixRefused(f"{info.name} has no forward of its own", finding.span.line)
        return info, forward

    def method(self, owner: cst.ClassDef, name: str) -> cst.FunctionDef:
        """A method written in the class itself, with an indented body. Raises `FixRefused`."""
        found = [f for f in methods(owner) if f.name.value == name]
        if not found:
            raise self.refuse(f"{owner.name.value} has no {name} of its own", owner)
        if len(found) > 1:
            raise self.refuse(f"{owner.name.value} has more than one {name}", found[1])
        if not isinstance(found[0].body, cst.IndentedBlock):
            raise self.refuse(f"{name} is written on one line", found[0])
        return found[0]

    def method_at(self, owner: cst.ClassDef, span: Span) -> cst.FunctionDef:
        """The method around a span, else the class's ``forward``. Raises `FixRefused`."""
        for function in methods(owner):
            place = self._positions[function]
            inside = place.start.line <= span.line <= place.end.line
            if inside and isinstance(function.body, cst.IndentedBlock):
                return self.method(owner, function.name.value)
        return self.method(owner, "forward")

    def chosen(self, nodes: Sequence[Node], span: Span) -> list[Node]:
        """Those of ``nodes`` that touch the span; all of them when none does."""
        touching = [node for node in nodes if self._touches(node, span)]
        return touching or list(nodes)

    def _touches(self, node: cst.CSTNode, span: Span) -> bool:
        place = self._positions[node]
        start = (place.start.line, place.start.column + 1)
        end = (place.end.line, place.end.column + 1)
        first = (span.line, span.column)
        last = max((span.end_line, span.end_column), (span.line, span.column + 1))
        return start < last and first < end

    def same(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Are two expressions the same but for layout?"""
        return ast.dump(self.as_ast(one)) == ast.dump(self.as_ast(other))

    def as_ast(self, node: cst.CSTNode) -> ast.expr:
        """A libcst expression for Python's ``ast``."""
        return ast.parse(f"({self.code(node)}\n)", mode="eval").body

    def expression(self, code: str) -> cst.BaseExpression:
        """Parse an expression."""
        return cst.parse_expression(code, config=self.module.config_for_parsing)

    def statement(self, code: str) -> cst.SimpleStatementLine:
        """Parse one simple statement."""
        parsed = cst.parse_statement(code, config=self.module.config_for_parsing)
        assert isinstance(parsed, cst.SimpleStatementLine)
        return parsed

    def qualified(self, node: cst.CSTNode) -> str:
        """The full dotted name of ``F.silu`` ("torch.nn.functional.silu"), "" for anything else."""
        name = dotted(node)
        head = name.partition(".")[0]
        if not name or (head != "self" and head not in self.index.imports):
            return ""
        return self.index.qualify(name)

    def taken_names(self, class_name: str) -> set[str]:
        """Names that an attribute of this class must not be given.

        Whatever it, its known bases, or its subclasses in this file mention as an attribute.
        """
        own = self.class_info(class_name)
        family = {info.name: info for info in own.mro}
        for info in self.index.classes.values():
            if own in info.mro:
                family[info.name] = info
        names: set[str] = set()
        for info in family.values():
            names |= set(info.methods) | set(info.attributes)
            for node in ast.walk(info.node):
                if isinstance(node, ast.Attribute):
                    names.add(node.attr)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    names.add(node.value)  # register_buffer("x", ...), setattr(self, "x", ...)
        return names

    def append_to_init(self, owner: cst.ClassDef, code: str) -> dict[cst.CSTNode, Change]:
        """The change that ends ``__init__`` with a statement. Raises `FixRefused`."""
        init = self.method(owner, "__init__")
        block = init.body
        assert isinstance(block, cst.IndentedBlock)
        if find(init, m.Return()):
            raise self.refuse("__init__ returns before its end", init)
        addition = self.statement(code)
        last = block.body[-1]
        before_last = self.code(last).strip() == "self.post_init()"

        def change(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.IndentedBlock)
            body = list(node.body)
            body.insert(len(body) - 1 if before_last else len(body), addition)
            return node.with_changes(body=body)

        return {block: change}

    def rewrite(
        self, changes: Mapping[cst.CSTNode, Change], gone: Iterable[cst.CSTNode] = ()
    ) -> str:
        """The text after the changes, each given its node as changes below have left it.

        Raises `FixRefused` when a comment would be lost, except those of the nodes in ``gone``.
        """
        lines = [self.line(node) for node in changes]
        untouched = {node for node in self.module.body if not self._spans_any(node, lines)}
        new = self.module.visit(_Rewriter(changes, untouched)).code
        lost = comments(self.text) - comments(new)
        for node in gone:
            lost -= comments(self.code(node))
        if lost:
            raise FixRefused(f"the comment {next(iter(lost))!r} would be lost")
        return new

    def _spans_any(self, node: cst.CSTNode, lines: Iterable[int]) -> bool:
        place = self._positions[node]
        return any(place.start.line <= line <= place.end.line for line in lines)


class _Rewriter(cst.CSTTransformer):
    def __init__(
        self, changes: Mapping[cst.CSTNode, Change], untouched: Collection[cst.CSTNode]
    ) -> None:
        super().__init__()
        self._changes = changes
        self._untouched = untouched  # statements that need no visit: most of a file

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self._untouched

    def on_leave(  # type: ignore[override]  # libcst types it per node
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | Flat:
        change = self._changes.get(original_node)
        return updated_node if change is None else change(updated_node)


def comments(text: str) -> Counter[str]:
    """The comments of a text; what looks like one in a string is the same before and after."""
    return Counter(re.findall(r"#[^\r\n]*", text))


def _statements(body: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The statements of a body, those in ``if`` and ``try`` included."""
    for node in body:
        yield node
        if isinstance(node, cst.If | cst.Try | cst.Else | cst.ExceptHandler | cst.Finally):
            yield from _statements(node.body.body)
        if isinstance(node, cst.If) and node.orelse is not None:
            yield from _statements([node.orelse])
        if isinstance(node, cst.Try):
            rest = (*node.handlers, node.orelse, node.finalbody)
            yield from _statements(part for part in rest if part is not None)


@lru_cache(maxsize=4)
def parsed(path: str, text: str) -> Document:
    """A text, parsed once. Raises `FixRefused`."""
    try:
        return Document(path, text, cst.parse_module(text))
    except (cst.ParserSyntaxError, RecursionError) as error:
        line = getattr(error, "raw_line", None)
        raise FixRefused("libcst cannot parse this file", line) from None


def document(text: str, finding: Finding) -> Document:
    """The text a finding is about, parsed once. Raises `FixRefused`."""
    return parsed(finding.path, text)


def find(node: cst.CSTNode, matcher: m.BaseMatcherNode) -> list[cst.CSTNode]:
    """All nodes below that match, in source order."""
    return list(m.findall(node, matcher))


def methods(owner: cst.ClassDef) -> list[cst.FunctionDef]:
    """The functions directly in a class body."""
    return [item for item in owner.body.body if isinstance(item, cst.FunctionDef)]


def dotted(node: cst.CSTNode) -> str:
    """ "a.b.c" for a chain of names, else ""."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr.value}" if head else ""
    return ""


def self_attribute(node: cst.CSTNode) -> str:
    """ "x" for ``self.x``, else ""."""
    head, _, name = dotted(node).partition(".")
    return name if head == "self" and "." not in name else ""


def simple_assignment(statement: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """Name and value of a line that is ``name = value`` (annotated or not) and no more."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    item = statement.body[0]
    if isinstance(item, cst.Assign) and len(item.targets) == 1:
        target: cst.BaseExpression = item.targets[0].target
    elif isinstance(item, cst.AnnAssign):
        target = item.target
    else:
        return None
    name = dotted(target)
    return (name, item.value) if name and item.value is not None else None


def local_names(function: cst.FunctionDef) -> set[str]:
    """Every bare name in a function, its parameters included."""
    return {n.value for n in find(function, m.Name()) if isinstance(n, cst.Name)}


def comments_of(statement: Statement) -> list[cst.EmptyLine]:
    """A statement's comments, those above it and the one at its end, as lines of their own."""
    lines = [line for line in statement.leading_lines if line.comment is not None]
    if isinstance(statement, cst.SimpleStatementLine):
        trailing = statement.trailing_whitespace.comment
        if trailing is not None:
            lines.append(cst.EmptyLine(comment=trailing))
    return lines


def loads(node: cst.CSTNode, name: str) -> int:
    """How often a bare name is read below a node; ``name *= 2`` reads it, ``name = 2`` not."""
    every = len(find(node, m.Name(name)))
    stores = len(find(node, m.AssignTarget(target=m.Name(name)) | m.AnnAssign(target=m.Name(name))))
    for target in find(node, m.AssignTarget(target=m.Tuple() | m.List())):
        assert isinstance(target, cst.AssignTarget)
        stores += len(find(target, m.Element(value=m.Name(name))))
    keywords = len(find(node, m.Arg(keyword=m.Name(name))))
    attributes = len(find(node, m.Attribute(attr=m.Name(name))))
    return every - stores - keywords - attributes


def free_name(candidates: Iterable[str], taken: Collection[str]) -> str:
    """The first candidate that is free, else the first with a number."""
    names = list(candidates)
    for name in names:
        if name not in taken:
            return name
    number = 2
    while f"{names[0]}_{number}" in taken:
        number += 1
    return f"{names[0]}_{number}"


def is_number(node: cst.CSTNode, value: float | None = None) -> bool:
    """Is it a number literal (of this value)?"""
    negative = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
    inner = node.expression if isinstance(node, cst.UnaryOperation) and negative else node
    if not isinstance(inner, cst.Integer | cst.Float):
        return False
    found = float(ast.literal_eval(inner.value)) * (-1 if negative else 1)
    return value is None or found == value


def parenthesized(node: cst.BaseExpression) -> cst.BaseExpression:
    """``(node)``, as it is if it has parentheses already."""
    if node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def is_inplace_name(name: str) -> bool:
    """Does torch call in-place methods so (``add_``)?"""
    return bool(re.fullmatch(r"[a-z]\w*[a-z0-9]_", name))
