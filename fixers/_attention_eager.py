"""The eager function, the scale that the interface is given, and what reads the output."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fixers._attention_eval import Factor, Facts, NotUnderstood
from fixers._attention_parts import Region, parameters
from fixers.toolkit import Change, Document, find, free_name
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

WIDTHS = ("head_dim", "head_size", "attention_head_size", "d_head")
WINDOW = "sliding_window"
TRANSPOSE = ".transpose(1, 2).contiguous()"


@dataclass
class Eager:
    """What the rewrite of one attention class needs.

    ``scaling`` and ``dropout`` are the expressions for the call ("" for none), ``groups`` is the
    number of query heads for each key head, ``settings`` are lines for ``__init__``.
    """

    definition: cst.FunctionDef | None
    scaling: str
    dropout: str
    groups: str = ""
    settings: list[str] = field(default_factory=list)
    softcap: str = ""
    window: bool = False  # does it have a sliding window, self.sliding_window?


# The scale


def scaling_of(
    doc: Document, info: ClassInfo, facts: Facts, locals_: Mapping[str, ast.expr]
) -> tuple[str, list[str]]:
    """The scale for the call as an expression of ``self``, and lines for ``__init__``.

    ``locals_`` are the values of the locals that a factor may name. Raises `NotUnderstood`.
    """
    factors = list(facts.factors)
    known = _Known(info, locals_)
    plain = [known.factor(f) for f in factors if not f.tests]
    if facts.kernel:
        given = facts.keyword_scale
        if given is None or (isinstance(given, ast.Constant) and given.value is None):
            plain.append(f"{known.width()}**-0.5")
        else:
            plain.append(known.resolved(given))
    tested = [f for f in factors if f.tests]
    if not tested:
        return _product(plain), []
    terms = [f"({_product(plain)})"] if plain else []
    for factor in tested:
        test = " and ".join(f"({known.resolved(t)})" for t in factor.tests)
        test = test[1:-1] if len(factor.tests) == 1 else test
        terms.append(f"({known.factor(factor)} if {test} else 1.0)")
    name = free_name(("scaling", "attention_scaling"), doc.taken_names(info.name))
    line = f"self.{name} = {' * '.join(terms)}"
    if len(line) > 90:
        indent = doc.module.default_indent
        line = f"self.{name} = (\n{indent}" + f"\n{indent}* ".join(terms) + "\n)"
    return f"self.{name}", [line]


def _product(terms: Sequence[str]) -> str:
    if not terms:
        return "1.0"
    if len(terms) == 1:
        return terms[0]
    return " * ".join(
        t if t.replace(".", "").replace("_", "").isalnum() else f"({t})" for t in terms
    )


class _Known:
    """Expressions of the attention as expressions of ``self``."""

    def __init__(self, info: ClassInfo, locals_: Mapping[str, ast.expr]) -> None:
        self.info = info
        self.locals = locals_

    def width(self) -> str:
        """The attribute that holds the width of a head."""
        for name in WIDTHS:
            if name in self.info.self_assignments:
                return f"self.{name}"
        found = _widths_of_views(self.info)
        if len(found) == 1:
            return f"self.{found.pop()}"
        raise NotUnderstood("no attribute holds the width of a head", self.info.node)

    def factor(self, factor: Factor) -> str:
        """The factor as a multiplier."""
        match factor.value:
            case ast.BinOp(left=one, op=ast.Div(), right=root) if not factor.divides:
                left = self._number(one)
                if left is not one and isinstance(left, ast.Constant) and left.value == 1:
                    return self.factor(Factor(True, root, factor.tests))
        value = self._number(factor.value)
        if not factor.divides:
            return self.resolved(value)
        if isinstance(value, ast.Call) and self._name(value.func) in ("math.sqrt", "numpy.sqrt"):
            return f"{self._atom(value.args[0])}**-0.5"
        match value:
            case ast.BinOp(base, ast.Pow(), ast.Constant(0.5)):
                return f"{self._atom(base)}**-0.5"
        return f"1.0 / {self._atom(value)}"

    def _atom(self, node: ast.expr) -> str:
        text = self.resolved(node)
        tree = ast.parse(text, mode="eval").body
        return (
            text
            if isinstance(tree, ast.Name | ast.Attribute | ast.Constant | ast.Call)
            else f"({text})"
        )

    def _name(self, func: ast.expr) -> str:
        return self.info.file.qualify(dotted_name(func))

    def _number(self, node: ast.expr) -> ast.expr:
        """A one-element tensor as its number: ``torch.full([], x)``, ``torch.sqrt(tensor(x))``."""
        if isinstance(node, ast.Name) and node.id in self.locals:
            return self._number(self.locals[node.id])
        if isinstance(node, ast.Attribute) and dotted_name(node).startswith("self."):
            stored = self.info.self_assignments.get(node.attr)
            if stored is not None and stored[1] is not None:
                inner = self._number(stored[1])
                if inner is not stored[1]:
                    return inner
            return node
        if not isinstance(node, ast.Call):
            return node
        name = self._name(node.func)
        if name == "torch.full" and len(node.args) == 2:
            return self._number(node.args[1])
        if name == "torch.tensor" and node.args:
            return self._number(node.args[0])
        if name == "torch.sqrt" and len(node.args) == 1:
            inner = self._number(node.args[0])
            return ast.BinOp(inner, ast.Pow(), ast.Constant(0.5))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            inner = self._number(node.func.value)
            return inner if inner is not node.func.value else node
        return node

    def resolved(self, node: ast.expr) -> str:
        """The expression's text with locals and sizes replaced. Raises `NotUnderstood`."""
        text = ast.unparse(_Resolver(self).visit(ast.parse(ast.unparse(node), mode="eval")).body)
        for name in ast.walk(ast.parse(text, mode="eval")):
            if isinstance(name, ast.Name) and name.id not in ("self", "math", "float", "int"):
                raise NotUnderstood(f"the scale depends on {name.id}", node)
        return text


def _widths_of_views(info: ClassInfo) -> set[str]:
    """The attributes at the end of the shapes into which the class views its heads."""
    found = set()
    for function in info.methods.values():
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            shape = [dotted_name(a) for a in node.args]
            if node.func.attr in ("view", "reshape") and len(shape) == 4:
                heads, width = shape[2:]
                if heads.startswith("self.") and width.startswith("self."):
                    found.add(width.removeprefix("self."))
    return found


class _Resolver(ast.NodeTransformer):
    def __init__(self, known: _Known) -> None:
        self.known = known
        self.seen: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.known.locals.get(node.id)
        if value is None or node.id in self.seen:
            return node
        if _is_width(value):
            return ast.parse(self.known.width(), mode="eval").body
        self.seen.add(node.id)
        new = self.visit(ast.parse(ast.unparse(value), mode="eval").body)
        self.seen.discard(node.id)
        assert isinstance(new, ast.expr)
        return new

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return self._sized(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self._sized(node)

    def _sized(self, node: ast.expr) -> ast.expr:
        if _is_width(node):
            return ast.parse(self.known.width(), mode="eval").body
        self.generic_visit(node)
        return node


def _is_width(node: ast.expr) -> bool:
    """``x.size(-1)`` or ``x.shape[-1]``."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="size"), args=[last]):
            pass
        case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape"), slice=last):
            pass
        case _:
            return False
    return ast.unparse(last) == "-1"


def assigned(statements: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """Locals that are assigned exactly once, and the last part of an unpacked size."""
    found: dict[str, ast.expr] = {}
    count: dict[str, int] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target = node.targets[0]
            if isinstance(target, ast.Name):
                found[target.id] = node.value
                count[target.id] = count.get(target.id, 0) + 1
            elif isinstance(target, ast.Tuple) and isinstance(target.elts[-1], ast.Name):
                owner = _size_owner(node.value)
                if owner and len(target.elts) == 4:
                    found[target.elts[-1].id] = ast.parse(f"{owner}.size(-1)", mode="eval").body
                    count[target.elts[-1].id] = count.get(target.elts[-1].id, 0) + 1
    return {name: value for name, value in found.items() if count[name] == 1}


def _size_owner(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[]):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr="shape"):
            return name
    return ""


def dropout_of(facts: Facts) -> str:
    """The probability for the call, "" where there is none."""
    if facts.dropout is None:
        return ""
    text = ast.unparse(facts.dropout)
    return text if isinstance(facts.dropout, ast.IfExp) else f"{text} if self.training else 0.0"


# The function


def eager_for_region(
    doc: Document,
    info: ClassInfo,
    function: FunctionNode,
    region: Region,
    twins: Mapping[ast.stmt, cst.CSTNode],
    name: str,
) -> Eager:
    """The eager function of the moved statements. Raises `NotUnderstood`."""
    moved = region.moved
    if len(region.masks) > 1:
        raise NotUnderstood(f"{' and '.join(region.masks)} are both used", moved[0])
    sizes = _sizes(function, region)
    values = assigned(function.body)
    scaling, settings = scaling_of(doc, info, region.facts, values)
    dropout = dropout_of(region.facts)
    names = region.names
    mask = region.masks[0] if region.masks else "attention_mask"
    given = [names.query, names.key, names.value, mask]
    if len({*given, "module", "scaling", "dropout"}) != 7:
        raise NotUnderstood("query, keys and values are not three locals", moved[0])
    taken = {n.id for s in moved for n in ast.walk(s) if isinstance(n, ast.Name)}
    if taken & {"module", "scaling", "dropout", "kwargs"}:
        raise NotUnderstood("a local is called module, scaling or dropout", moved[0])
    body: list[cst.BaseStatement] = []
    if sizes:
        body.append(doc.statement(sizes))
    for statement in moved:
        node = twins[statement]
        assert isinstance(node, cst.BaseStatement)
        body.append(node)
    body = as_module(body, region.facts)
    if not region.transposed:
        body.append(doc.statement(f"{region.out} = {region.out}{TRANSPOSE}"))
    body.append(doc.statement(f"return {region.out}, {region.returned}"))
    definition = define(doc, name, given, region.head_masks, body)
    groups = groups_of(region.facts, values)
    cap = softcap_of(region.facts)
    return with_window(
        doc, info, region.facts, Eager(definition, scaling, dropout, groups, settings, cap)
    )


def with_window(doc: Document, info: ClassInfo, facts: Facts, eager: Eager) -> Eager:
    """The same, with the window of its causal buffer as an attribute. Raises `NotUnderstood`."""
    if facts.window is None:
        return eager
    if WINDOW in doc.taken_names(info.name):
        raise NotUnderstood(f"self.{WINDOW} is something else", info.node)
    size, test = (_written(doc, node) for node in (facts.window.size, facts.window.test))
    eager.settings.append(f"self.{WINDOW} = {size} if {test} else None")
    eager.window = True
    return eager


def _written(doc: Document, node: ast.expr) -> str:
    """An expression on one line, as it is written if it is on one."""
    text = ast.get_source_segment(doc.text, node) or ""
    return text if text and "\n" not in text else ast.unparse(node)


def softcap_of(facts: Facts) -> str:
    """The cap for the call, "" where there is none."""
    return "" if facts.softcap is None else ast.unparse(facts.softcap)


def groups_of(facts: Facts, values: Mapping[str, ast.expr]) -> str:
    node = facts.groups
    if isinstance(node, ast.Name) and node.id in values:
        node = values[node.id]
    if node is None:
        return ""
    for name in ast.walk(node):
        if isinstance(name, ast.Name) and name.id not in ("self", "config"):
            raise NotUnderstood(f"the number of groups depends on {name.id}", node)
    return ast.unparse(node)


def _sizes(function: FunctionNode, region: Region) -> str:
    """A statement that unpacks the query's sizes, for batch and length; "" if none is needed."""
    if not region.free:
        return ""
    first = parameters(function)[1] if len(parameters(function)) > 1 else ""
    for statement in function.body:
        match statement:
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(batch), ast.Name(length), *rest])], value=value
            ):
                if _size_owner(value) != first or len(rest) != 1:
                    continue
                if set(region.free) <= {batch, length}:
                    one = batch if batch in region.free else "_"
                    two = length if length in region.free else "_"
                    return f"{one}, _, {two}, _ = {region.names.query}.shape"
    raise NotUnderstood(f"attention reads {region.free[0]}", region.moved[0])


def as_module(body: Sequence[cst.BaseStatement], facts: Facts) -> list[cst.BaseStatement]:
    """Statements in which ``self`` is ``module``; scale and dropout are arguments where equal."""
    renamed: dict[str, str] = {}
    plain = list(facts.factors)
    if len(plain) == 1 and not plain[0].divides and not plain[0].tests and not facts.kernel:
        scale = dotted_name(plain[0].value)
        if scale.startswith("self.") and scale.count(".") == 1:
            renamed[scale] = "scaling"
    if facts.dropout is not None and not facts.kernel:
        rate = dotted_name(facts.dropout)
        if rate.startswith("self.") and rate.count(".") == 1:
            renamed[rate] = "dropout"
    result = []
    for statement in body:
        new = statement.visit(Renamed(renamed))
        assert isinstance(new, cst.BaseStatement)
        result.append(new)
    first = result[0]
    if isinstance(first, cst.SimpleStatementLine | cst.BaseCompoundStatement):
        lines = [line for line in first.leading_lines if line.comment is not None]
        result[0] = first.with_changes(leading_lines=lines)
    return result


class Renamed(cst.CSTTransformer):
    """``self`` becomes ``module``; given attributes become the function's parameters."""

    def __init__(self, attributes: Mapping[str, str], self_name: str = "self") -> None:
        super().__init__()
        self.attributes = attributes
        self.self_name = self_name

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        owner, attr = original_node.value, original_node.attr.value
        if isinstance(owner, cst.Name) and owner.value == self.self_name:
            new = self.attributes.get(f"self.{attr}")
            if new is not None:
                return cst.Name(new)
            return updated_node.with_changes(value=cst.Name("module"))
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if original_node.value == self.self_name:
            return updated_node.with_changes(value="module")
        return updated_node


def define(
    doc: Document,
    name: str,
    given: Sequence[str],
    extra: Sequence[str],
    body: Sequence[cst.BaseStatement],
) -> cst.FunctionDef:
    """The eager function with this body."""
    parts = ["module", *given, "scaling", "dropout=0.0", *(f"{e}=None" for e in extra), "**kwargs"]
    head = f"def {name}({', '.join(parts)}):"
    indent = doc.module.default_indent
    if len(head) > 100:
        inner = f"{indent}{', '.join(parts)}"
        lines = inner if len(inner) <= 100 else "".join(f"{indent}{p},\n" for p in parts).rstrip()
        head = f"def {name}(\n{lines.rstrip(',') if lines == inner else lines}\n):"
        if parts[-1] == "**kwargs":
            pass
    parsed = cst.parse_statement(f"{head}\n{indent}pass\n", config=doc.module.config_for_parsing)
    assert isinstance(parsed, cst.FunctionDef)
    block = parsed.body
    assert isinstance(block, cst.IndentedBlock)
    return parsed.with_changes(
        body=block.with_changes(body=list(body)),
        leading_lines=[cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)],
    )


# What comes after


def output_changes(
    doc: Document,
    function: FunctionNode,
    info: ClassInfo,
    out: str,
    later: Sequence[ast.stmt],
    twins: Mapping[ast.stmt, cst.CSTNode],
    *,
    transposed: bool,
) -> dict[cst.CSTNode, Change]:
    """Changes for [batch, length, heads, width] where [batch, heads, length, width] was."""
    shapes: dict[cst.CSTNode, Change] = {}
    for place, statement in enumerate(later):
        node = twins[statement]
        uses = [n for n in find(node, m.Name(out)) if not _is_target(node, n)]
        if not uses:
            continue
        if transposed and _is_joined_shape(statement, out):
            shapes |= _of_input(doc, function, node)
            continue
        moved = None if transposed else _only_transposed(statement, out)
        if moved is not None:
            target, call = moved
            calls = find(node, m.Call())
            swap = next((c for c in calls if _same_call(doc.code(c), call)), None)
            if swap is not None:
                rest = later[place + 1 :]
                more = output_changes(doc, function, info, target, rest, twins, transposed=True)
                return {swap: _receiver} | more
        return shapes | _first_use(doc, function, info, node, uses, out, transposed=transposed)
    raise NotUnderstood(f"{out} is never used", function)


def _only_transposed(statement: ast.stmt, out: str) -> tuple[str, ast.Call] | None:
    """Target and call of ``y = out.permute(0, 2, 1, 3)``, ``.contiguous()`` or not."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=target)],
            value=(ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) as call)
            | ast.Call(
                func=ast.Attribute(
                    value=ast.Call(
                        func=ast.Attribute(value=ast.Name(id=name), attr=method)
                    ) as call,
                    attr="contiguous",
                ),
                args=[],
            ),
        ) if name == out:
            axes = [ast.unparse(a) for a in call.args]
            if (method, axes) in (
                ("permute", ["0", "2", "1", "3"]),
                ("permute", ["[0, 2, 1, 3]"]),
                ("transpose", ["1", "2"]),
            ):
                return target, call
    return None


def _is_joined_shape(statement: ast.stmt, out: str) -> bool:
    """Is it ``shape = out.size()[:-2] + (width,)``, which joins the heads?"""
    match statement:
        case ast.Assign(
            targets=[ast.Name()],
            value=ast.BinOp(
                left=ast.Subscript(
                    value=ast.Call(
                        func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[]
                    )
                    | ast.Attribute(value=ast.Name(id=name), attr="shape"),
                    slice=ast.Slice(lower=None, upper=ast.UnaryOp(ast.USub(), ast.Constant(2))),
                ),
                op=ast.Add(),
                right=ast.Tuple(elts=[_]),
            ),
        ):
            return name == out
    return False


def _of_input(
    doc: Document, function: FunctionNode, node: cst.CSTNode
) -> dict[cst.CSTNode, Change]:
    """A joined shape from that of the input: what vLLM returns has no heads, and no batch."""
    (assignment,) = find(node, m.Assign())
    assert isinstance(assignment, cst.Assign)
    return {assignment.value: _replaced(doc.expression(f"({_shape(function)}, -1)"))}


def _same_call(code: str, call: ast.Call) -> bool:
    return ast.dump(ast.parse(code, mode="eval").body) == ast.dump(call)


def _is_target(statement: cst.CSTNode, name: cst.CSTNode) -> bool:
    targets = find(statement, m.AssignTarget(target=m.Name()))
    return any(isinstance(t, cst.AssignTarget) and t.target is name for t in targets)


def _first_use(
    doc: Document,
    function: FunctionNode,
    info: ClassInfo,
    node: cst.CSTNode,
    uses: Sequence[cst.CSTNode],
    out: str,
    *,
    transposed: bool,
) -> dict[cst.CSTNode, Change]:
    calls = [c for c in find(node, m.Call()) if isinstance(c, cst.Call)]
    method = {c.func.value: c for c in calls if isinstance(c.func, cst.Attribute)}
    for call in calls:  # a helper that merges the heads
        if (
            call.args
            and call.args[0].value is uses[0]
            and dotted_name(doc.as_ast(call.func)).startswith("self.")
        ):
            helper = info.find_method(dotted_name(doc.as_ast(call.func))[5:])
            if helper is not None and not transposed and merges_heads(helper[1]):
                new = doc.expression(f"{out}.reshape({_shape(function)}, -1)")
                return {call: _replaced(new)}
    current: cst.BaseExpression = uses[0]  # type: ignore[assignment]
    changes: dict[cst.CSTNode, Change] = {}
    while current in method:
        call = method[current]
        assert isinstance(call.func, cst.Attribute)
        name = call.func.attr.value
        axes = [doc.code(a.value).replace(" ", "") for a in call.args]
        swap = (name == "transpose" and set(axes) in ({"1", "2"}, {"1", "-2"}, {"-3", "-2"})) or (
            name == "permute" and axes in (["0", "2", "1", "3"],)
        )
        if swap and not transposed:
            transposed = True
            changes[call] = _receiver
        elif name == "contiguous":
            pass
        elif name in ("reshape", "view", "flatten") and transposed:
            return changes | _flat(doc, call, name, axes)
        else:
            break
        current = call
    raise NotUnderstood(f"{out} is not flattened to [batch, length, width]", _at(doc, node))


def _replaced(new: cst.CSTNode) -> Change:
    return lambda _: new


def _at(doc: Document, node: cst.CSTNode) -> ast.AST:
    return ast.Pass(lineno=doc.line(node), col_offset=0)


def _receiver(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return node.func.value


def _flat(
    doc: Document, call: cst.Call, name: str, axes: Sequence[str]
) -> dict[cst.CSTNode, Change]:
    """The width of the output becomes -1: a rank of tensor parallelism has a part of it."""
    if name == "flatten" or "-1" in axes or len(axes) not in (2, 3):
        return {}
    minus = call.args[-1].with_changes(value=doc.expression("-1"))
    return {call.args[-1]: lambda _: minus}


def _shape(function: FunctionNode) -> str:
    """Batch and length of the input, as the front of a shape."""
    first = parameters(function)[1]
    stores = [
        n
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and n.id == first and isinstance(n.ctx, ast.Store)
    ]
    if stores:
        raise NotUnderstood(f"{first} is assigned again", stores[0])
    return f"*{first}.shape[:-1]"


def merges_heads(function: FunctionNode) -> bool:
    """Does a helper move the heads behind the length and join them with the width?"""
    swaps = joins = False
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            axes = [ast.unparse(a) for a in node.args]
            name = node.func.attr
            swaps |= (name, axes) in (
                ("permute", ["0", "2", "1", "3"]),
                ("transpose", ["1", "2"]),
            )
            joins |= name in ("view", "reshape")
    return swaps and joins
