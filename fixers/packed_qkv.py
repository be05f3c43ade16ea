"""Cut a packed projection in one expression: ``self.qkv(x).split((q, kv, kv), dim=-1)``.

vLLM's fuser reads only that form. Slices, ``chunk``, ``torch.split``, ``unbind`` and what unpacks
a view with three parts become it, if the rows of the weight are query, key and value one after
the other; where the heads are interleaved it would cut elsewhere, and is refused. The weight and
its name stay. The sizes must add up to the width of the projection, or torch raises.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from fixers import FixRefused
from fixers.splice import Splice, parameters
from fixers.toolkit import document, free_name
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

PARTS = 3
NAMES = ("query", "key", "value")
ELEMENTWISE = ("clamp", "clip", "to", "float", "contiguous")
WIDTH = 100
LEAD = 2  # batch and sequence
INTERLEAVED = "the rows of the projection are interleaved by head, not query, key, value in a row"


@dataclass(frozen=True)
class _Packed:
    """The packed tensor on its way to the cut.

    ``code`` makes it, still [batch, sequence, width]. ``axes`` are the sizes' texts once it was
    viewed: "b" and "s" for the leading ones, "3" for the parts. ``lead`` is how a view begins.
    """

    code: str
    axes: tuple[str, ...] = ("b", "s", "w")
    lead: str = ""

    @property
    def is_flat(self) -> bool:
        return self.axes == ("b", "s", "w")

    def piece(self) -> tuple[str, str]:
        """Size of one of three equal parts, and what is to be done with each after the cut."""
        rest = [a for a in self.axes if a not in ("b", "s", "3")]
        after = ""
        if self.lead and len(rest) == 2:
            after = f".view({self.lead}, -1, {rest[1]})"  # heads: a rank of vLLM has fewer
        order = [a for a in self.axes if a != "3"]
        plain = ["b", "s", *rest]
        moved = [i for i, axis in enumerate(order) if axis != plain[i]]
        if len(moved) == 2:
            after += f".transpose({moved[0]}, {moved[1]})"
        elif moved:
            after += f".permute({', '.join(str(plain.index(a)) for a in order)})"
        return " * ".join(_factor(r) for r in rest), after


@dataclass
class _Cut:
    """What the new expression is, and where: ``first`` is replaced, ``gone`` removed.

    ``after`` are texts that follow each part; ``places`` are the expressions that read a part.
    """

    packed: str
    sizes: tuple[str, str, str]
    after: tuple[str, str, str] = ("", "", "")
    places: list[ast.expr] = field(default_factory=list)
    target: ast.Assign | None = None


class _Other(Exception):
    """The projection is not cut in a form that is known."""


def fix(text: str, finding: Finding) -> str:
    """``text`` with the projection cut in the one expression. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    info, forward = splice.doc.own_forward(finding)
    refusal: FixRefused | None = None
    for call in _projections(info, forward):
        try:
            return _Reader(splice, info, forward, call).rewritten()
        except _Other:
            continue
        except FixRefused as error:
            refusal = refusal or error
    raise refusal or FixRefused("no projection is cut into three here", finding.span.line)


def _projections(info: ClassInfo, forward: FunctionNode) -> Iterator[ast.Call]:
    """The calls of Linears, those called once."""
    calls: dict[str, list[ast.Call]] = {}
    for node in nodes_of(forward):
        if isinstance(node, ast.Call) and is_self_attribute(node.func, "self"):
            calls.setdefault(node.func.attr, []).append(node)  # type: ignore[attr-defined]
    for name, found in calls.items():
        value = (info.self_assignments.get(name) or (None, None))[1]
        linear = isinstance(value, ast.Call) and dotted_name(value.func).endswith("Linear")
        if linear and len(found) == 1 and len(found[0].args) == 1 and not found[0].keywords:
            yield found[0]


class _Reader:
    """One projection, followed from its call to the cut."""

    def __init__(
        self, splice: Splice, info: ClassInfo, forward: FunctionNode, call: ast.Call
    ) -> None:
        self.splice = splice
        self.info = info
        self.forward = forward
        self.call = call
        self.removed: list[ast.stmt] = []
        self.block = splice.block_of(splice.statement_of(call))

    def rewritten(self) -> str:
        """The new text. Raises `_Other` and `FixRefused`."""
        cut = self._followed(self.call, _Packed(self.splice.code(self.call)))
        self._check_between(cut)
        splice = self.splice
        statement = cut.target or splice.statement_of(cut.places[0])
        names, texts = self._names(cut)
        sizes = ", ".join(cut.sizes)
        head, indent = f"{', '.join(names)} = {cut.packed}.split(", splice.indent(statement)
        line = f"{head}({sizes}), dim=-1)"
        if len(indent + line) > WIDTH:
            line = f"{head}\n    ({sizes}), dim=-1\n)"
        if len(f"{indent}    ({sizes}), dim=-1") > WIDTH:
            sizes = ",\n        ".join(cut.sizes)
            line = f"{head}\n    (\n        {sizes},\n    ),\n    dim=-1,\n)"
        if cut.target is not None:
            extra = [f"{n} = {n}{a}" for n, a in zip(names, cut.after, strict=True) if a]
            splice.replace_from(cut.target, cut.target, "\n".join([line, *extra]))
        else:
            self._split_before(cut, texts, line)
        for gone in self.removed:
            splice.remove(gone)
        return splice.text()

    # From the call to the cut

    def _followed(self, node: ast.expr, packed: _Packed) -> _Cut:
        """What is done with a value, outward from its expression."""
        parent = self.splice.parent(node)
        if isinstance(parent, ast.Attribute):
            outer = self.splice.parent(parent)
            if isinstance(outer, ast.Call) and outer.func is parent:
                return self._method(outer, parent.attr, list(outer.args), packed)
            raise _Other
        if isinstance(parent, ast.Call) and node in parent.args:
            name = self.info.file.qualify(dotted_name(parent.func))
            if name in ("torch.split", "torch.chunk", "torch.unbind") and parent.args[0] is node:
                return self._method(parent, name[6:], list(parent.args[1:]), packed)
            raise _Other
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return self._subscripts([parent], packed)
        if isinstance(parent, ast.Assign) and parent.value is node and len(parent.targets) == 1:
            return self._assigned(parent, packed)
        raise _Other

    def _assigned(self, statement: ast.Assign, packed: _Packed) -> _Cut:
        target = statement.targets[0]
        if isinstance(target, ast.Tuple) and len(target.elts) == PARTS and packed.axes[0] == "3":
            return self._equal(packed, statement)
        if not isinstance(target, ast.Name):
            raise _Other
        if statement not in self.block:
            raise self.splice.refuse("the projection is cut in another block", statement)
        uses = self._uses(statement, target.id)
        self.removed.append(statement)
        if len(uses) == 1:
            return self._followed(uses[0], packed)
        subscripts = [self.splice.parent(use) for use in uses]
        if len(uses) != PARTS or not all(
            isinstance(s, ast.Subscript) and s.value is u
            for s, u in zip(subscripts, uses, strict=True)
        ):
            raise _Other
        return self._subscripts([s for s in subscripts if isinstance(s, ast.Subscript)], packed)

    def _uses(self, statement: ast.stmt, name: str) -> list[ast.Name]:
        """The reads of a name until it is written again. Raises `_Other`."""
        found: list[ast.Name] = []
        later = self.block[self.block.index(statement) + 1 :]
        for other in later:
            nodes = [n for n in nodes_of(other) if isinstance(n, ast.Name) and n.id == name]
            reads = [n for n in nodes if isinstance(n.ctx, ast.Load)]
            if reads and not isinstance(other, ast.Assign):
                raise _Other  # under a condition, in place, or consumed at once
            found += reads
            if len(reads) < len(nodes):
                break
        return found

    def _method(
        self, call: ast.Call, name: str, arguments: list[ast.expr], packed: _Packed
    ) -> _Cut:
        """One method of the chain; the cut itself when it makes three parts."""
        by_name = {k.arg: k.value for k in call.keywords if k.arg}
        if name in ("split", "chunk", "unbind"):
            axis = by_name.get("dim") or by_name.get("axis")
            if axis is None:
                at = 0 if name == "unbind" else 1
                axis = arguments[at] if len(arguments) > at else ast.Constant(0)
            if name == "unbind":
                self._is_part(packed, axis, call)
                return self._equal(packed, self._target(call))
            return self._divided(call, name, arguments, axis, packed)
        if by_name and name != "clamp":
            raise _Other
        if name in ELEMENTWISE:
            if not packed.is_flat:
                return self._followed(call, packed)
            code = f"{packed.code}{self._suffix(call)}"
            return self._followed(call, replace(packed, code=code))
        values = [_integer(a) for a in arguments]
        axes = list(packed.axes)
        if name in ("view", "reshape") and packed.is_flat:
            return self._followed(call, self._viewed(call, arguments, packed))
        if name == "unflatten" and packed.is_flat and values[0] in (-1, LEAD):
            parts = arguments[1].elts if isinstance(arguments[1], ast.Tuple) else []
            axes[LEAD:] = [self.splice.code(p) for p in parts]
            if axes[LEAD] != str(PARTS):
                raise self.splice.refuse(INTERLEAVED, call)
        elif name == "unsqueeze" and values[0] is not None:
            axes.insert(values[0] % (len(axes) + 1), "1")
        elif name == "squeeze" and values[0] is not None and axes[values[0]] == "1":
            axes.pop(values[0])
        elif name == "transpose" and None not in values and len(values) == 2:
            one, other = values[0] or 0, values[1] or 0
            axes[one], axes[other] = axes[other], axes[one]
        elif name == "permute" and None not in values and len(values) == len(axes):
            axes = [axes[v or 0] for v in values]
        else:
            raise _Other
        return self._followed(call, replace(packed, axes=tuple(axes)))

    def _suffix(self, call: ast.Call) -> str:
        """``.clamp(…)`` as it is written."""
        assert isinstance(call.func, ast.Attribute)
        start = self.splice.span(call.func.value)[1]
        return self.splice.doc.text[start : self.splice.span(call)[1]].strip()

    def _viewed(self, call: ast.Call, arguments: list[ast.expr], packed: _Packed) -> _Packed:
        """``view(batch, length, 3, heads, size)`` or ``view(batch, length, heads, size)``."""
        sizes = arguments
        if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple):
            sizes = sizes[0].elts
        texts = [self.splice.code(a) for a in sizes]
        leading = 1 if sizes and isinstance(sizes[0], ast.Starred) else LEAD
        if str(PARTS) in texts[leading + 1 :]:
            raise self.splice.refuse(INTERLEAVED, call)
        if len(texts) - leading not in (2, 3):
            raise _Other
        lead = ", ".join(texts[:leading])
        return replace(packed, axes=("b", "s", *texts[leading:]), lead=lead)

    def _is_part(self, packed: _Packed, axis: ast.expr, node: ast.AST) -> None:
        number = _integer(axis)
        known = number is not None and -len(packed.axes) <= number < len(packed.axes)
        if not known or packed.axes[number or 0] != str(PARTS):
            raise self.splice.refuse(INTERLEAVED, node)

    def _target(self, value: ast.expr) -> ast.Assign:
        statement = self.splice.parent(value)
        if (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Tuple)
            and len(statement.targets[0].elts) == PARTS
            and all(isinstance(e, ast.Name) for e in statement.targets[0].elts)
        ):
            return statement
        raise _Other

    # The cut

    def _divided(
        self,
        call: ast.Call,
        name: str,
        arguments: list[ast.expr],
        axis: ast.expr,
        packed: _Packed,
    ) -> _Cut:
        """``split`` and ``chunk``, of the width or of the heads."""
        target = self._target(call)
        number, first = _integer(axis), arguments[0]
        if packed.is_flat:
            if number not in (-1, LEAD):
                raise _Other
            if name == "chunk":
                if _integer(first) != PARTS:
                    raise _Other
                third = self._third()
                return _Cut(packed.code, (third, third, third), target=target)
            if isinstance(first, ast.Tuple | ast.List) and len(first.elts) == PARTS:
                q, k, v = map(self.splice.code, first.elts)
                return _Cut(packed.code, (q, k, v), target=target)
            if isinstance(first, ast.Tuple | ast.List):
                raise _Other
            size = self.splice.code(first)
            return _Cut(packed.code, (size, size, size), target=target)
        if len(packed.axes) != LEAD + 2 or number not in (-2, LEAD) or name != "split":
            raise self.splice.refuse(INTERLEAVED, call)
        if not isinstance(first, ast.Tuple | ast.List) or len(first.elts) != PARTS:
            raise _Other
        heads = [self.splice.code(e) for e in first.elts]
        size = packed.axes[-1]
        q, k, v = (f"{_factor(h)} * {_factor(size)}" for h in heads)
        after = f".view({packed.lead}, -1, {size})"
        return _Cut(packed.code, (q, k, v), (after, after, after), target=target)

    def _equal(self, packed: _Packed, target: ast.Assign) -> _Cut:
        size, after = packed.piece()
        return _Cut(packed.code, (size, size, size), (after, after, after), target=target)

    def _third(self) -> str:
        """A third of the projection's width, as forward can say it. Raises `FixRefused`."""
        assert isinstance(self.call.func, ast.Attribute)
        value = self.info.self_assignments[self.call.func.attr][1]
        assert isinstance(value, ast.Call)
        width = value.args[1] if len(value.args) > 1 else None
        for keyword in value.keywords:
            width = keyword.value if keyword.arg == "out_features" else width
        if isinstance(width, ast.BinOp) and isinstance(width.op, ast.Mult):
            for one, other in ((width.left, width.right), (width.right, width.left)):
                if _integer(one) == PARTS:
                    return self._in_forward(other)
        raise self.splice.refuse("the width of the projection is not written as 3 * size", value)

    def _in_forward(self, size: ast.expr) -> str:
        """An expression of the constructor as forward can write it."""
        text = ast.unparse(size)
        for name, (_, value) in self.info.self_assignments.items():
            if value is not None and ast.unparse(value) == text and not text.isdigit():
                return f"self.{name}"
        own = [n for n in ast.walk(size) if isinstance(n, ast.Name) and n.id != "self"]
        if not own:
            return text
        config = self.info.self_assignments.get("config")
        if config and isinstance(config[1], ast.Name) and {n.id for n in own} == {config[1].id}:
            return text.replace(f"{config[1].id}.", f"self.{config[1].id}.")
        raise self.splice.refuse("the size of a third is not kept in the module", size)

    def _subscripts(self, parts: Sequence[ast.Subscript], packed: _Packed) -> _Cut:
        """``qkv[..., :n]`` and so on, or ``qkv[0]`` of a tensor with three parts."""
        if len(parts) != PARTS:
            raise _Other
        places: list[ast.expr] = list(parts)
        if packed.is_flat:
            return _Cut(packed.code, self._widths(parts), places=places)
        indices = [_part_index(p.slice) for p in parts]
        if len({depth for depth, _ in indices}) != 1 or [i for _, i in indices] != [0, 1, 2]:
            raise self.splice.refuse(INTERLEAVED, parts[0])
        if packed.axes[indices[0][0]] != str(PARTS):
            raise self.splice.refuse(INTERLEAVED, parts[0])
        size, after = packed.piece()
        target = self._tuple_of(places)
        if target is not None:
            places = []
        return _Cut(packed.code, (size, size, size), (after, after, after), places, target)

    def _tuple_of(self, places: Sequence[ast.expr]) -> ast.Assign | None:
        """``q, k, v = qkv[0], qkv[1], qkv[2]``, whose names are those of the parts."""
        values = self.splice.parent(places[0])
        if not isinstance(values, ast.Tuple) or values.elts != list(places):
            return None
        try:
            return self._target(values)
        except _Other:
            return None

    def _widths(self, parts: Sequence[ast.Subscript]) -> tuple[str, str, str]:
        """The sizes of three slices that follow one another. Raises `FixRefused`."""
        slices = [_last_slice(p.slice) for p in parts]
        first, second, third = slices
        if first is None or second is None or third is None:
            raise _Other
        ends = [s.upper for s in slices if s is not None][:2]
        begins = [second.lower, third.lower]
        starts_at_0 = first.lower is None or _integer(first.lower) == 0
        same = all(
            a is not None and b is not None and ast.dump(a) == ast.dump(b)
            for a, b in zip(ends, begins, strict=True)
        )
        if not starts_at_0 or not same or ends[0] is None or ends[1] is None:
            raise self.splice.refuse("the slices do not follow one another", parts[1])
        kv = _difference(ends[1], ends[0])
        if kv is None:
            raise self.splice.refuse("the width of the key's slice is not known", parts[1])
        return self.splice.code(ends[0]), kv, kv

    # Writing

    def _names(self, cut: _Cut) -> tuple[list[str], list[str]]:
        """The names that the parts get, and what each place then reads."""
        if cut.target is not None:
            assert isinstance(cut.target.targets[0], ast.Tuple)
            return [self.splice.code(e) for e in cut.target.targets[0].elts], []
        taken = {n.id for n in nodes_of(self.forward) if isinstance(n, ast.Name)}
        taken |= {a.arg for a in parameters(self.forward)}
        names = []
        for place, standard in zip(cut.places, NAMES, strict=True):
            name = self._whole_name(place)
            names.append(name or free_name([standard, f"{standard}_part"], taken))
            taken.add(names[-1])
        return names, [n + a for n, a in zip(names, cut.after, strict=True)]

    def _whole_name(self, place: ast.expr) -> str:
        """ "q" where a part is all of ``q = qkv[…]``."""
        statement = self.splice.parent(place)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return ""
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else ""

    def _split_before(self, cut: _Cut, texts: list[str], line: str) -> None:
        """Write the cut in front of the first part, and the parts' names in their places."""
        splice = self.splice
        first = splice.statement_of(cut.places[0])
        for place, text in zip(cut.places, texts, strict=True):
            statement = splice.statement_of(place)
            if self._whole_name(place) == text and statement is not first:
                self.removed.append(statement)
            elif self._whole_name(place) != text:
                splice.replace(place, text)
        if self._whole_name(cut.places[0]) == texts[0]:
            splice.replace_from(first, first, line)
        else:
            splice.before(first, line)

    def _check_between(self, cut: _Cut) -> None:
        """Raise `FixRefused` where moving the projection to the cut would change it."""
        places = [cut.target] if cut.target else [self.splice.statement_of(p) for p in cut.places]
        if any(place not in self.block for place in places):
            raise self.splice.refuse("the projection is cut in another block", self.call)
        until = self.block.index(places[0])
        end = self.block.index(places[-1])
        gone = {*self.removed, *places}
        for moved in (self.splice.statement_of(self.call), *self.removed):
            read = _read(moved)
            at = self.block.index(moved)
            self._check(self.block[at + 1 : until], gone, read, set())
        parts = {n for p in cut.places if (n := self._whole_name(p))}
        sizes = {n for t in cut.sizes for n in _read(ast.parse(t))}
        self._check(self.block[until:end], gone, sizes | parts, parts)

    def _check(
        self, statements: Sequence[ast.stmt], gone: set[ast.stmt], kept: set[str], unread: set[str]
    ) -> None:
        for statement in statements:
            if statement in gone:
                continue
            if kept & _written(statement) or unread & _read(statement):
                raise self.splice.refuse("a statement in between changes what is cut", statement)


def _read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _written(statement: ast.stmt) -> set[str]:
    """Names that a statement may change: bound, or handed to something that works in place."""
    found = set()
    for node in nodes_of(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr.endswith("_") and isinstance(node.func.value, ast.Name):
            found.add(node.func.value.id)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Subscript):
        found |= {n.id for n in ast.walk(statement.target) if isinstance(n, ast.Name)}
    return found


def _integer(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _factor(text: str) -> str:
    """An expression's text as a factor of a product."""
    node = ast.parse(text, mode="eval").body
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript)
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
    return text if simple or product else f"({text})"


def _part_index(index: ast.expr) -> tuple[int, int | None]:
    """Axis and number of ``[0]`` and ``[:, :, 0]``."""
    if isinstance(index, ast.Tuple):
        whole = [i for i in index.elts if isinstance(i, ast.Slice) and ast.unparse(i) == ":"]
        if len(whole) == len(index.elts) - 1 and index.elts[: len(whole)] == whole:
            return len(whole), _integer(index.elts[-1])
        return 0, None
    return 0, _integer(index)


def _last_slice(index: ast.expr) -> ast.Slice | None:
    """The slice of the last dimension in ``[..., a:b]`` or ``[:, :, a:b]``."""
    if not isinstance(index, ast.Tuple) or not isinstance(index.elts[-1], ast.Slice):
        return None
    before = index.elts[:-1]
    dots = len(before) == 1 and isinstance(before[0], ast.Constant) and before[0].value is ...
    whole = [isinstance(i, ast.Slice) and ast.unparse(i) == ":" for i in before]
    return index.elts[-1] if dots or (len(whole) == LEAD and all(whole)) else None


def _difference(end: ast.expr, begin: ast.expr) -> str | None:
    """``n`` for an end that is ``begin + n``, or twice the begin."""
    if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add):
        for one, other in ((end.left, end.right), (end.right, end.left)):
            if ast.dump(one) == ast.dump(begin):
                return ast.unparse(other)
    if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Mult):
        for one, other in ((end.left, end.right), (end.right, end.left)):
            if _integer(one) == 2 and ast.dump(other) == ast.dump(begin):
                return ast.unparse(begin)
    return None
