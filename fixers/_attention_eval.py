"""What attention code computes, statement by statement: query times key, softmax, times value.

An abstract interpreter that knows only attention. Each local is a `Value`: the query, the keys,
the scores and so on; anything else must be a plain number, shape, type or setting. Whatever it
cannot name raises `NotUnderstood`, so that no computation is taken for attention that is more.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fixers._attention_causal import (
    Window,
    is_buffer,
    is_causal_buffer,
    makes_triangle,
    window_of,
)
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

KERNEL = "torch.nn.functional.scaled_dot_product_attention"
_SOFTMAX = ("torch.nn.functional.softmax", "torch.softmax")
_SOFTMAX_LAYER = "torch.nn.Softmax"
_PRODUCTS = ("torch.matmul", "torch.bmm")
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "torch.matmul": frozenset(),
    "torch.bmm": frozenset(),
    "torch.baddbmm": frozenset(("beta", "alpha")),
    "torch.softmax": frozenset(("dim", "dtype")),
    "torch.nn.functional.softmax": frozenset(("dim", "dtype")),
    "torch.nn.functional.dropout": frozenset(("p", "training")),
    KERNEL: frozenset(("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")),
}
_SAME = ("to", "type", "type_as", "float", "half", "bfloat16", "contiguous", "clone", "double")
_NUMBERS = frozenset(("dtype", "device", "shape", "ndim", "itemsize"))


class NotUnderstood(Exception):
    """The code does something else; ``node`` is what stopped the reading."""

    def __init__(self, reason: str, node: ast.AST | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line: int | None = getattr(node, "lineno", None)


class Kind(enum.Enum):
    """What a value is."""

    QUERY = "the query"
    KEY = "the key"
    KEY_T = "the transposed key"
    VALUE = "the value"
    SCORES = "the score matrix"
    WEIGHTS = "the weight matrix"
    OUTPUT = "the output"  # [batch, heads, length, width]
    OUTPUT_T = "the transposed output"  # [batch, length, heads, width]
    MASK = "the mask"
    HEAD_MASK = "the head mask"
    CAUSAL = "the module's causal mask"
    NOT_CAUSAL = "the inverted causal mask"
    LOWEST = "the lowest number"
    PLAIN = "a number"


_HEADS = (Kind.QUERY, Kind.KEY, Kind.VALUE)
_TENSORS = frozenset(Kind) - {Kind.PLAIN, Kind.LOWEST}


@dataclass(frozen=True)
class Value:
    """A kind and the number of dimensions (3: batch and heads in one)."""

    kind: Kind
    rank: int = 4


PLAIN = Value(Kind.PLAIN)


@dataclass(frozen=True)
class Factor:
    """A scale of the scores: ``* value`` or ``/ value``, under the tests around it."""

    divides: bool
    value: ast.expr
    tests: tuple[ast.expr, ...] = ()


@dataclass
class Facts:
    """What the computation uses. Expressions are those of the source."""

    factors: list[Factor] = field(default_factory=list)
    dropout: ast.expr | None = None  # the probability
    groups: ast.expr | None = None  # query heads for each key head
    repeated: set[Kind] = field(default_factory=set)
    softcap: ast.expr | None = None
    causal: bool = False  # masked by a buffer of its own
    window: Window | None = None  # that the buffer leaves of it
    kernel: bool = False
    keyword_scale: ast.expr | None = None  # scale= of the kernel


class Evaluator:
    """Runs statements over an environment of values.

    ``is_local`` tells which names belong to the function around the statements, ``tuples`` what
    those of its locals hold that are tuples.
    """

    def __init__(
        self,
        info: ClassInfo,
        env: Mapping[str, Value],
        is_local: Callable[[str], bool],
        self_name: str = "self",
        tuples: Mapping[str, ast.Tuple] | None = None,
    ) -> None:
        self.self_name = self_name
        self.info = info
        self.file = info.file
        self.env = dict(env)
        self.is_local = is_local
        self.facts = Facts()
        self.free: set[str] = set()  # locals of the function that these statements read
        self.returned: tuple[ast.expr, ...] | None = None
        self._tests: list[ast.expr] = []
        self._tuples: dict[str, ast.Tuple] = dict(tuples or {})
        self._zeros: set[str] = set()

    # Statements

    def run(self, statements: Sequence[ast.stmt]) -> None:
        """Execute statements. Raises `NotUnderstood`."""
        for statement in statements:
            self.step(statement)

    def step(self, statement: ast.stmt) -> None:
        """Execute one statement. Raises `NotUnderstood`."""
        match statement:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                left = ast.copy_location(ast.Name(name, ast.Load()), statement)
                self.env[name] = self._binary(left, op, value, statement)
            case ast.If():
                self._if(statement)
            case ast.Expr(value=value):
                self._plain(value)
            case ast.Raise() | ast.Pass():
                pass
            case ast.Return(value=ast.Tuple(elts=[one, two])):
                self._expect(one, Kind.OUTPUT, Kind.OUTPUT_T)
                self.returned = (one, two)
            case ast.With(items=[ast.withitem(optional_vars=None)], body=body):
                self.run(body)
            case _:
                raise NotUnderstood("this statement is no part of plain attention", statement)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.env[target.id] = self.eval(value)
            if isinstance(value, ast.Tuple):
                self._tuples[target.id] = value
            if isinstance(value, ast.Call) and self._name(value.func) == "torch.zeros":
                self._zeros.add(target.id)
            return
        if not isinstance(target, ast.Tuple) or not all(
            isinstance(e, ast.Name) for e in target.elts
        ):
            raise NotUnderstood("this assignment is no part of plain attention", target)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            values = [self.eval(v) for v in value.elts]
        else:
            self._plain(value)
            values = [PLAIN] * len(target.elts)
        for element, item in zip(target.elts, values, strict=True):
            assert isinstance(element, ast.Name)
            self.env[element.id] = item

    def _if(self, statement: ast.If) -> None:
        if is_check(statement):
            self._test(statement.test)
            return
        cap = self._softcap(statement)
        if cap is not None:
            self.facts.softcap = cap
            return
        masked = self._test(statement.test)
        before = dict(self.env)
        if not masked:
            self._tests.append(statement.test)
        self.run(statement.body)
        after, self.env = self.env, dict(before)
        if not masked:
            negated = ast.UnaryOp(ast.Not(), statement.test)
            self._tests[-1] = ast.copy_location(negated, statement.test)
        self.run(statement.orelse)
        if not masked:
            self._tests.pop()
        for name in set(after) & set(self.env):
            if after[name] != self.env[name]:
                raise NotUnderstood(f"{name} depends on a condition", statement)
        self.env = after | self.env

    def _test(self, test: ast.expr) -> bool:
        """Is it ``mask is not None``? Raises `NotUnderstood` for a test of tensors."""
        match test:
            case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(None)]):
                if self.eval(left).kind in (Kind.MASK, Kind.HEAD_MASK):
                    return True
        self._plain(test)
        return False

    def _softcap(self, statement: ast.If) -> ast.expr | None:
        """The cap ``c`` of ``if c is not None``: scores / c, tanh, scores * c."""
        match statement:
            case ast.If(
                test=ast.Compare(left=cap, ops=[ast.IsNot()], comparators=[ast.Constant(None)]),
                body=[
                    ast.Assign(targets=[one], value=ast.BinOp(a, ast.Div(), c1)),
                    ast.Assign(targets=[two], value=ast.Call(func=func, args=[b], keywords=[])),
                    ast.Assign(targets=[three], value=ast.BinOp(c, ast.Mult(), c2)),
                ],
                orelse=[],
            ):
                scores = {ast.unparse(n) for n in (one, two, three, a, b, c)}
                caps = {ast.unparse(n) for n in (cap, c1, c2)}
                same = len(scores) == len(caps) == 1
                if same and self._name(func) == "torch.tanh":
                    self._expect(a, Kind.SCORES)
                    if dotted_name(cap) != "self.config.attn_logit_softcapping":
                        raise NotUnderstood(f"the scores are capped by {caps.pop()}", statement)
                    return cap
        return None

    # Expressions

    def eval(self, node: ast.expr) -> Value:
        """The value of an expression. Raises `NotUnderstood`."""
        match node:
            case ast.Name(id=name):
                return self._load(name)
            case ast.Constant() | ast.JoinedStr():
                return PLAIN
            case ast.Attribute(value=owner, attr=attr):
                return self._attribute(node, owner, attr)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(left, op, right, node)
            case ast.Call():
                return self._call(node)
            case ast.Subscript(value=owner, slice=index):
                return self._subscript(node, owner, index)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                self._expect(operand, Kind.CAUSAL)
                return Value(Kind.NOT_CAUSAL)
        return self._all_plain(node)

    def _load(self, name: str) -> Value:
        if name in self.env:
            if self.env[name].kind in (Kind.MASK, Kind.HEAD_MASK):
                self.free.add(name)
            return self.env[name]
        if name != self.self_name and self.is_local(name):
            self.free.add(name)
        return PLAIN

    def _all_plain(self, node: ast.AST) -> Value:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._plain(child)
            elif isinstance(child, ast.keyword):
                self._plain(child.value)
        return PLAIN

    def _plain(self, node: ast.expr) -> None:
        match node:
            case ast.Compare(left=left, comparators=[ast.Constant(None)]):
                self.eval(left)
                return
        kind = self.eval(node).kind
        if kind in _TENSORS:
            raise NotUnderstood(f"{kind.value} is used in another way", node)

    def _expect(self, node: ast.expr, *kinds: Kind) -> Value:
        value = self.eval(node)
        if value.kind not in kinds:
            wanted = " or ".join(k.value for k in kinds)
            raise NotUnderstood(f"{ast.unparse(node)} is not shown to be {wanted}", node)
        return value

    def _attribute(self, node: ast.Attribute, owner: ast.expr, attr: str) -> Value:
        if self._is_self(owner):
            return PLAIN
        value = self.eval(owner)
        if value.kind in (Kind.PLAIN, Kind.LOWEST) or attr in _NUMBERS:
            is_finfo = isinstance(owner, ast.Call) and self._name(owner.func) == "torch.finfo"
            return Value(Kind.LOWEST) if is_finfo and attr == "min" else PLAIN
        if attr == "mT" and value.kind is Kind.KEY:
            return Value(Kind.KEY_T, value.rank)
        raise NotUnderstood(f".{attr} of {value.kind.value} is read", node)

    def _subscript(self, node: ast.Subscript, owner: ast.expr, index: ast.expr) -> Value:
        self._slices(index)
        name = dotted_name(owner)
        if name.startswith(f"{self.self_name}.") and name.count(".") == 1:
            if is_causal_buffer(self.info, name.partition(".")[2]):
                self.facts.window = window_of(self.info, name.partition(".")[2])
                return Value(Kind.CAUSAL)
            if is_buffer(self.info, name.partition(".")[2]):
                raise NotUnderstood(f"{name} is not shown to be a plain causal mask", node)
            return PLAIN
        value = self.eval(owner)
        if value.kind in (Kind.PLAIN, Kind.MASK, Kind.CAUSAL):
            return value
        raise NotUnderstood(f"a part of {value.kind.value} is taken", node)

    def _slices(self, index: ast.expr) -> None:
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            if isinstance(part, ast.Slice):
                for bound in (part.lower, part.upper, part.step):
                    if bound is not None:
                        self._plain(bound)
            else:
                self._plain(part)

    def _binary(self, left: ast.expr, op: ast.operator, right: ast.expr, node: ast.AST) -> Value:
        one, two = self.eval(left), self.eval(right)
        kinds = (one.kind, two.kind)
        if isinstance(op, ast.MatMult):
            return self._product(one, two, node)
        if not set(kinds) & _TENSORS:
            return PLAIN
        if isinstance(op, ast.Mult | ast.Div):
            if two.kind is Kind.PLAIN and one.kind in (Kind.SCORES, Kind.QUERY):
                return self._scaled(one, right, isinstance(op, ast.Div))
            if kinds == (Kind.PLAIN, Kind.SCORES) and isinstance(op, ast.Mult):
                return self._scaled(two, left, False)
            if kinds == (Kind.WEIGHTS, Kind.HEAD_MASK) and isinstance(op, ast.Mult):
                return one
            if kinds == (Kind.HEAD_MASK, Kind.WEIGHTS) and isinstance(op, ast.Mult):
                return two
        if kinds == (Kind.MASK, Kind.PLAIN) and isinstance(op, ast.Mult):
            return one
        if isinstance(op, ast.Add):
            if kinds == (Kind.SCORES, Kind.MASK):
                return one
            if kinds == (Kind.MASK, Kind.SCORES):
                return two
            if Kind.SCORES in kinds:
                other = left if two.kind is Kind.SCORES else right
                raise NotUnderstood(f"{ast.unparse(other)} is added to the scores", node)
        raise NotUnderstood(f"{kinds[0].value} and {kinds[1].value} are combined", node)

    def _scaled(self, value: Value, factor: ast.expr, divides: bool) -> Value:
        self.facts.factors.append(Factor(divides, factor, tuple(self._tests)))
        return value

    def _product(self, one: Value, two: Value, node: ast.AST) -> Value:
        if (one.kind, two.kind) == (Kind.QUERY, Kind.KEY_T) and one.rank == two.rank:
            return Value(Kind.SCORES, one.rank)
        if (one.kind, two.kind) == (Kind.WEIGHTS, Kind.VALUE) and one.rank == two.rank:
            return Value(Kind.OUTPUT, one.rank)
        reason = f"{one.kind.value} ({one.rank}-d) times {two.kind.value} ({two.rank}-d)"
        raise NotUnderstood(f"{reason} is no product of attention", node)

    # Calls

    def _is_self(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.self_name

    def _name(self, func: ast.expr) -> str:
        return self.file.qualify(dotted_name(func))

    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute):
            receiver = node.func.value
            value = PLAIN if self._is_self(receiver) else self.eval(receiver)
            if value.kind in _TENSORS:
                return self._method(node, value, node.func.attr)
            if value.kind is Kind.LOWEST and node.func.attr in _SAME:
                return value
        if isinstance(node.func, ast.Call) and self._name(node.func.func) == _SOFTMAX_LAYER:
            return self._layer_softmax(node, node.func)
        name = self._name(node.func)
        arguments = {k.arg: k.value for k in node.keywords if k.arg}
        if name in _KEYWORDS and not {k.arg for k in node.keywords} <= _KEYWORDS[name]:
            raise NotUnderstood(f"{name} is given other arguments", node)
        if name in _PRODUCTS and len(node.args) == 2:
            return self._product(self.eval(node.args[0]), self.eval(node.args[1]), node)
        if name == "torch.einsum":
            return self._einsum(node)
        if name == "torch.baddbmm":
            return self._baddbmm(node, arguments)
        if name in _SOFTMAX:
            return self._softmax(node, node.args[0], node.args[1:2], arguments)
        if name == KERNEL:
            return self._kernel(node, arguments)
        if name == "torch.nn.functional.dropout":
            return self._dropout(node, arguments)
        if name in ("torch.where", "torch.max", "torch.maximum", "torch.clamp"):
            return self._bounded(node, name, arguments)
        if name in ("torch.tensor", "torch.full"):
            kinds = [self.eval(a).kind for a in node.args]
            if Kind.LOWEST in kinds:
                return Value(Kind.LOWEST)
        if isinstance(node.func, ast.Attribute) and self._is_self(node.func.value):
            return self._module(node, node.func.attr)
        repeat = self._repeat(node, name, arguments)
        return repeat or self._all_plain(node)

    def _method(self, node: ast.Call, value: Value, name: str) -> Value:
        kind = value.kind
        if name in ("size", "dim"):
            return PLAIN
        if name in _SAME:
            self._all_plain_arguments(node)
            return value
        if name == "transpose":
            return self._transposed(node, value)
        if name == "permute":
            axes = [_integer(a) for a in node.args]
            if axes == [0, 2, 1, 3] and kind is Kind.OUTPUT and value.rank == 4:
                return Value(Kind.OUTPUT_T)
            if axes == [0, 1, 3, 2] and kind is Kind.KEY:
                return Value(Kind.KEY_T)
        if name in ("view", "reshape"):
            return self._viewed(node, value)
        if name == "softmax" and kind is Kind.SCORES:
            assert isinstance(node.func, ast.Attribute)
            keywords = {k.arg: k.value for k in node.keywords if k.arg}
            return self._softmax(node, node.func.value, node.args[:1], keywords)
        if name == "matmul" and len(node.args) == 1:
            return self._product(value, self.eval(node.args[0]), node)
        if name == "masked_fill" and kind is Kind.SCORES and len(node.args) == 2:
            self._expect(node.args[0], Kind.NOT_CAUSAL)
            self._expect(node.args[1], Kind.LOWEST)
            self.facts.causal = True
            return value
        if name == "repeat_interleave":
            keywords = {k.arg: k.value for k in node.keywords if k.arg}
            return self._repeated(node, value, node.args, keywords)
        raise NotUnderstood(f"{kind.value} is changed by .{name}()", node)

    def _all_plain_arguments(self, node: ast.Call) -> None:
        for argument in node.args:
            if self.eval(argument).kind not in (*_TENSORS, Kind.PLAIN):
                raise NotUnderstood("this argument is not known", argument)
        for keyword in node.keywords:
            self._plain(keyword.value)

    def _transposed(self, node: ast.Call, value: Value) -> Value:
        axes = [_integer(a) for a in node.args]
        if None not in axes:
            found = {a % value.rank for a in axes if a is not None}
            last = {value.rank - 2, value.rank - 1}
            if value.kind is Kind.KEY and found == last:
                return Value(Kind.KEY_T, value.rank)
            if value.kind is Kind.OUTPUT and found == {1, 2} and value.rank == 4:
                return Value(Kind.OUTPUT_T)
        raise NotUnderstood(f"{value.kind.value} is transposed in another way", node)

    def _viewed(self, node: ast.Call, value: Value) -> Value:
        """Batch and heads joined (3 sizes) or taken apart again (4)."""
        sizes: list[ast.expr] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Name):
                sizes += self._tuples.get(argument.value.id, ast.Tuple([argument])).elts
            else:
                sizes.append(argument)
        for size in sizes:
            self._plain(size.value if isinstance(size, ast.Starred) else size)
        kinds = (*_HEADS, Kind.SCORES, Kind.WEIGHTS, Kind.OUTPUT)
        if value.kind is Kind.HEAD_MASK and len(sizes) == 4:
            return value
        if value.kind in kinds and not any(isinstance(s, ast.Starred) for s in sizes):
            joined = isinstance(sizes[0], ast.BinOp) or _integer(sizes[0]) == -1
            if len(sizes) == 3 and value.rank == 4 and joined:
                return Value(value.kind, 3)
            if len(sizes) == 4 and value.kind not in _HEADS:
                return Value(value.kind, 4)
        raise NotUnderstood(f"{value.kind.value} is given another shape", node)

    def _softmax(
        self,
        node: ast.Call,
        scores: ast.expr,
        positional: Sequence[ast.expr],
        keywords: Mapping[str, ast.expr],
    ) -> Value:
        value = self._expect(scores, Kind.SCORES)
        dim = positional[0] if positional else keywords.get("dim")
        axis = _integer(dim) if dim is not None else None
        if axis not in (-1, value.rank - 1):
            raise NotUnderstood("softmax is not over the last dimension", node)
        return Value(Kind.WEIGHTS, value.rank)

    def _dropout(self, node: ast.Call, keywords: Mapping[str, ast.expr]) -> Value:
        value = self._expect(node.args[0], Kind.WEIGHTS)
        rest = [*node.args[1:], None, None]
        rate = rest[0] or keywords.get("p")
        training = rest[1] or keywords.get("training")
        if (
            rate is None
            or training is None
            or dotted_name(training) != f"{self.self_name}.training"
        ):
            raise NotUnderstood("dropout does not follow self.training", node)
        self._plain(rate)
        self.facts.dropout = rate
        return value

    def _module(self, node: ast.Call, name: str) -> Value:
        """A call of ``self.name``: dropout or softmax, else all plain."""
        assigned = self.info.self_assignments.get(name)
        made = assigned[1] if assigned else None
        layer = self._name(made.func) if isinstance(made, ast.Call) else ""
        if layer == "torch.nn.Dropout" and len(node.args) == 1:
            value = self._expect(node.args[0], Kind.WEIGHTS)
            self.facts.dropout = ast.Attribute(node.func, "p", ast.Load())
            return value
        if layer == _SOFTMAX_LAYER and isinstance(made, ast.Call):
            return self._layer_softmax(node, made)
        for argument in [*node.args, *(k.value for k in node.keywords)]:
            kind = self.eval(argument).kind
            if kind in _TENSORS:
                raise NotUnderstood(f"self.{name}() is given {kind.value}", node)
        method = self.info.find_method(name)
        if method is not None and makes_triangle(method[0], method[1]):
            self.facts.causal = True
            return Value(Kind.CAUSAL)
        return PLAIN

    def _layer_softmax(self, node: ast.Call, made: ast.Call) -> Value:
        """The call of a layer that ``made`` builds."""
        if len(node.args) != 1 or node.keywords:
            raise NotUnderstood("the softmax layer is given other arguments", node)
        keywords = {k.arg: k.value for k in made.keywords if k.arg}
        return self._softmax(node, node.args[0], made.args[:1], keywords)

    def _bounded(self, node: ast.Call, name: str, keywords: Mapping[str, ast.expr]) -> Value:
        """``where(causal, scores, lowest)``, ``max(scores, lowest)``."""
        if name == "torch.where" and len(node.args) == 3:
            self._expect(node.args[0], Kind.CAUSAL)
            value = self._expect(node.args[1], Kind.SCORES)
            self._expect(node.args[2], Kind.LOWEST)
            self.facts.causal = True
            return value
        bound = keywords.get("min") or (node.args[1] if len(node.args) == 2 else None)
        if bound is None or not node.args or not set(keywords) <= {"min"}:
            raise NotUnderstood("the scores are bounded in another way", node)
        self._expect(bound, Kind.LOWEST)
        return self._expect(node.args[0], Kind.SCORES)

    def _einsum(self, node: ast.Call) -> Value:
        equation = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        if not isinstance(equation, str) or len(node.args) != 3:
            raise NotUnderstood("this einsum is not understood", node)
        one, two = self.eval(node.args[1]), self.eval(node.args[2])
        inputs, _, output = equation.replace(" ", "").partition("->")
        left, _, right = inputs.partition(",")
        shared = left[:2]
        if len({*left, *right}) == 5 and len(left) == len(right) == 4 and right[:2] == shared:
            kinds = (one.kind, two.kind)
            scores = left[3] == right[3] and output == shared + left[2] + right[2]
            if kinds == (Kind.QUERY, Kind.KEY) and scores:
                return Value(Kind.SCORES)
            summed = left[3] == right[2] and output == shared + left[2] + right[3]
            if kinds == (Kind.WEIGHTS, Kind.VALUE) and summed:
                return Value(Kind.OUTPUT)
        raise NotUnderstood("this einsum is not understood", node)

    def _baddbmm(self, node: ast.Call, keywords: Mapping[str, ast.expr]) -> Value:
        if len(node.args) != 3:
            raise NotUnderstood("this baddbmm is not understood", node)
        first, beta = node.args[0], keywords.get("beta")
        zero = isinstance(first, ast.Name) and first.id in self._zeros
        if not zero and not (isinstance(beta, ast.Constant) and beta.value == 0):
            raise NotUnderstood(f"{ast.unparse(first)} is added to the scores", node)
        self._plain(first)
        value = self._product(self.eval(node.args[1]), self.eval(node.args[2]), node)
        alpha = keywords.get("alpha")
        if alpha is not None:
            self._plain(alpha)
            self._scaled(value, alpha, False)
        return value

    def _kernel(self, node: ast.Call, keywords: Mapping[str, ast.expr]) -> Value:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = dict(zip(names, node.args, strict=False)) | dict(keywords)
        kinds = (Kind.QUERY, Kind.KEY, Kind.VALUE)
        for name, kind in zip(names[:3], kinds, strict=True):
            if name not in given:
                raise NotUnderstood(f"the kernel is not given {kind.value}", node)
            if self._expect(given.pop(name), kind).rank != 4:
                raise NotUnderstood("batch and heads are one dimension here", node)
        mask = given.pop("attn_mask", None)
        if mask is not None:
            self._mask(mask)
        rate = given.pop("dropout_p", None)
        if rate is not None:
            self._plain(rate)
            self.facts.dropout = None if isinstance(rate, ast.Constant) else rate
        self.facts.keyword_scale = given.pop("scale", None)
        for other in given.values():
            self._plain(other)
        self.facts.kernel = True
        return Value(Kind.OUTPUT)

    def _mask(self, mask: ast.expr) -> None:
        if not (isinstance(mask, ast.Constant) and mask.value is None):
            self._expect(mask, Kind.MASK)

    def _repeat(self, node: ast.Call, name: str, keywords: Mapping[str, ast.expr]) -> Value | None:
        if name == "torch.repeat_interleave" and node.args:
            value = self.eval(node.args[0])
            return self._repeated(node, value, node.args[1:], keywords)
        if not node.args or self.eval(node.args[0]).kind not in (Kind.KEY, Kind.VALUE):
            return None
        helper = self.file.functions.get(dotted_name(node.func))
        known = name.startswith("transformers.") and name.endswith(".repeat_kv")
        if known or (helper is not None and _repeats_heads(helper)):
            value = self.eval(node.args[0])
            count = keywords.get("n_rep") or (node.args[1] if len(node.args) == 2 else None)
            if count is not None and value.rank == 4:
                self._plain(count)
                self._grouped(count, value.kind, node)
                return value
        raise NotUnderstood(f"{dotted_name(node.func)}() is given the keys or values", node)

    def _repeated(
        self,
        node: ast.Call,
        value: Value,
        positional: Sequence[ast.expr],
        keywords: Mapping[str, ast.expr],
    ) -> Value:
        rest = [*positional, None, None]
        count, dim = rest[0] or keywords.get("repeats"), rest[1] or keywords.get("dim")
        heads = dim is not None and _integer(dim) in (1, -3)
        if value.kind not in (Kind.KEY, Kind.VALUE) or count is None or not heads:
            raise NotUnderstood(f"{value.kind.value} is repeated in another way", node)
        self._plain(count)
        self._grouped(count, value.kind, node)
        return value

    def _grouped(self, count: ast.expr, kind: Kind, node: ast.AST) -> None:
        known = self.facts.groups
        if known is not None and ast.unparse(known) != ast.unparse(count):
            raise NotUnderstood("keys and values are repeated differently", node)
        self.facts.groups = count
        self.facts.repeated.add(kind)


def is_check(statement: ast.stmt) -> bool:
    """Does it only raise, warn or assert?"""
    if isinstance(statement, ast.Assert):
        return True
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    return all(isinstance(s, ast.Raise) for s in statement.body)


def _integer(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return value if isinstance(value, int) else None


def _repeats_heads(function: FunctionNode) -> bool:
    """Is it expand-and-reshape of ``[:, :, None, :, :]``: each head n times in a row?"""
    axis = any(
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Tuple)
        and len(node.slice.elts) == 5
        and [isinstance(e, ast.Slice) for e in node.slice.elts] == [True, True, False, True, True]
        for node in ast.walk(function)
    )
    methods = {n.attr for n in ast.walk(function) if isinstance(n, ast.Attribute)}
    allowed = {"shape", "size", "expand", "reshape", "Tensor"}
    return axis and {"expand", "reshape"} <= methods and methods <= allowed
