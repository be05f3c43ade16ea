"""What the code of a mixture-of-experts block computes, in terms of its experts.

A small evaluator reads straight-line code with one loop over the experts. A value is a nested
tuple; what it does not know becomes ``("opaque", line, column)``, which equals only itself. The
aim is to recognise ``moe(tokens, ids, weights)``: for every token the sum over its top-k slots of
``weights[token, slot] * expert[ids[token, slot]](token)``, in the spellings that published models
use (one-hot masks, comparison of the ids, tokens sorted by expert). Casts are looked through.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from fixers import FixRefused
from fixers._moe_ops import (
    EXPERT,
    NUMBER,
    Term,
    dim,
    equal,
    holds,
    is_before,
    is_expert_parallel,
    is_sum,
    item,
    made,
    opaque,
    positive,
    reshaped,
    routing,
    times,
)
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

PASSED_ON = frozenset(
    ("to", "type", "type_as", "contiguous", "clone", "tolist", "cpu", "numpy", "long", "detach")
) | {"float", "half", "bfloat16"}
KEPT = (("input",), ("item",), ("flat",), ("opaque",), ("either",))


@dataclass
class Terms:
    """The values of local names while code of one block is read in order."""

    info: ClassInfo
    experts: str  # the attribute that holds them
    local: dict[str, Term] = field(default_factory=dict)
    helpers: list[tuple[ast.Call, FunctionNode, Term]] = field(default_factory=list)
    inside: bool = False  # is this the body of the loop over the experts?

    def refuse(self, reason: str, node: ast.AST) -> FixRefused:
        """The refusal to raise at a node."""
        return FixRefused(reason, getattr(node, "lineno", None))

    # Statements

    def run(self, statements: list[ast.stmt]) -> None:
        """Read statements in order."""
        for statement in statements:
            self.step(statement)

    def step(self, statement: ast.stmt) -> Term | None:
        """Read one statement; the value of a ``return``."""
        if isinstance(statement, ast.Return):
            return self.value(statement.value) if statement.value is not None else None
        if isinstance(statement, ast.Assign):
            value = self.value(statement.value)
            for target in statement.targets:
                self.assign(target, value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self.assign(statement.target, self.value(statement.value))
        elif isinstance(statement, ast.AugAssign):
            self._augment(statement)
        elif isinstance(statement, ast.For) and self.is_over_experts(statement):
            self._loop(statement)
        elif isinstance(statement, ast.If) and is_expert_parallel(statement.test):
            self.run(statement.orelse)
        elif isinstance(statement, ast.If) and not self.inside:
            self._branch(statement)
        elif isinstance(statement, ast.If):
            self._skip_empty(statement)
        elif isinstance(statement, ast.Expr):
            self.value(statement.value)
        elif not isinstance(statement, ast.Pass | ast.Continue):
            self._forget(statement)
        return None

    def assign(self, target: ast.expr, value: Term) -> None:
        """Bind a target."""
        if isinstance(target, ast.Name):
            self.local[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            count = len(target.elts)
            for index, each in enumerate(target.elts):
                self.assign(each, item(value, index, count))
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            name = target.value.id
            old = self.local.get(name, ())
            new = self._stored(old, target, value)
            if new[0] == "opaque":
                self._lost(old, target)
            self.local[name] = new

    def _stored(self, old: Term, target: ast.Subscript, value: Term) -> Term:
        """A tensor after ``x[index] = value``."""
        index = self.value(target.slice)
        match (old, index, value):
            case (("empty", ("repeat", t)), ("match", i, ("flat",)), ("out", got)) if got == (
                "repeated",
                t,
                i,
            ):
                return ("filling", t, i)
            case (("empty", ("sorted out", t, i)), ("order", j), ("sorted out", _, _)) if i == j:
                return ("routed", t, i)
        return opaque(target)

    def _augment(self, statement: ast.AugAssign) -> None:
        target = statement.target
        if isinstance(target, ast.Name):
            old = self.local.get(target.id, ())
            if not self.inside and old[:1] in KEPT and not self._is_read(target.id, old):
                return  # in place: still the same tensor, in the same shape
            binary = ast.BinOp(ast.Name(target.id, ast.Load()), statement.op, statement.value)
            self.local[target.id] = self.value(ast.copy_location(binary, statement))
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            name = target.value.id
            rows, share = self.value(target.slice), self.value(statement.value)
            added = isinstance(statement.op, ast.Add)
            done = self._added(self.local.get(name, ()), rows, share) if added else None
            self.local[name] = done or opaque(statement)

    def _is_read(self, name: str, term: Term) -> bool:
        """Was another local made from it, but for its sizes?"""
        return any(n != name and holds(t, term) for n, t in self.local.items())

    def _lost(self, term: Term, node: ast.AST) -> None:
        """Something unknown was done in place: what shares its memory is unknown too."""
        for name, other in self.local.items():
            if term and other and (holds(other, term) or holds(term, other)):
                self.local[name] = opaque(node)

    def _branch(self, statement: ast.If) -> None:
        """Both sides of an ``if`` outside the loop; names on which they differ are unknown."""
        before = dict(self.local)
        self.run(statement.body)
        one = self.local
        self.local = before
        self.run(statement.orelse)
        for name in {*one, *self.local}:
            if one.get(name) != self.local.get(name):
                self.local[name] = ("either", statement.lineno, name)

    def _forget(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.local[node.id] = opaque(node)

    # The loop

    def is_over_experts(self, loop: ast.For) -> bool:
        """Does it call one expert after the other?"""
        return any(self._is_experts(node) for node in ast.walk(loop))

    def _is_experts(self, node: ast.AST) -> bool:
        return is_self_attribute(node, "self") and getattr(node, "attr", "") == self.experts

    def _loop(self, loop: ast.For) -> None:
        if loop.orelse:
            raise self.refuse("the loop over the experts has an else", loop)
        outer = dict(self.local)
        self._bind_loop(loop)
        for name in _stored_names(loop.body):
            if self.local.get(name) == ("int", 0):
                self.local[name] = ("start",)
        started = dict(self.local)
        self.inside = True
        for statement in loop.body:
            if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.If):
                raise self.refuse("the loop over the experts does something unknown", statement)
            self.step(statement)
        self.inside = False
        after, self.local = self.local, outer
        for name, value in after.items():
            if started.get(name) == ("start",) and value not in (("start",), ("end",)):
                raise self.refuse(f"the loop over the experts does not move {name} on", loop)
            if value == started.get(name) and name in outer:
                continue
            if value and value[0] in ("summing", "wide summing"):
                self.local[name] = (value[0].replace("summing", "moe"), *value[1:])
            elif value and value[0] == "filling":
                self.local[name] = ("routed", *value[1:])
            elif value and value[0] == "appended":
                self.local[name] = ("outs", *value[1:])
            elif name in outer and started.get(name) != ("start",):
                line = value[1] if value and value[0] == "opaque" else loop.lineno
                raise FixRefused(f"what the loop does to {name} is not understood", line)
            else:
                self.local[name] = ("loop", loop.lineno, name)

    def _bind_loop(self, loop: ast.For) -> None:
        over = loop.iter
        names = [loop.target]
        numbered = isinstance(over, ast.Call) and getattr(over.func, "id", "") == "enumerate"
        if numbered:
            assert isinstance(over, ast.Call)
            if len(over.args) != 1 or over.keywords or not isinstance(loop.target, ast.Tuple):
                raise self.refuse("the loop is not one over all experts", loop)
            over = over.args[0]
            names = list(loop.target.elts)
        if self._is_experts(over) and numbered:
            self.assign(names[0], NUMBER)
            self.assign(names[1], EXPERT)
            return
        value = self.value(over)
        if numbered and value[0] in ("ends", "counts"):
            self.assign(names[0], NUMBER)
            self.assign(names[1], ("end",) if value[0] == "ends" else ("count",))
        elif not numbered and value[0] in ("hit", "every"):
            self.assign(names[0], NUMBER)
        else:
            raise self.refuse("the loop is not one over all experts", loop)

    def _skip_empty(self, statement: ast.If) -> None:
        """``if there are no tokens: continue`` and nothing else."""
        nothing = len(statement.body) == 1 and isinstance(statement.body[0], ast.Continue)
        if not statement.orelse and self._is_empty_test(statement.test, ast.Eq) and nothing:
            return
        if not statement.orelse and self._is_empty_test(statement.test, ast.Gt):
            self.run(statement.body)
            return
        raise self.refuse("a condition in the loop over the experts", statement)

    def _is_empty_test(self, test: ast.expr, operator: type[ast.cmpop]) -> bool:
        """Does it compare the number of an expert's tokens with 0?"""
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if isinstance(test, ast.UnaryOp) and negated and operator is ast.Eq:
            value = self.value(test.operand)
            return bool(value[0] == "any" and value[1][0] == "match")
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return False
        one, other = self.value(test.left), self.value(test.comparators[0])
        if not isinstance(test.ops[0], operator):
            return False
        if operator is ast.Eq and {one, other} == {("start",), ("end",)}:
            return True
        sized = one[0] in ("length", "dim") and one[1][0] in ("rows", "slots", "picked", "match")
        return other == ("int", 0) and (sized or one == ("count",))

    # Expressions

    def value(self, node: ast.expr) -> Term:
        """What an expression is."""
        match node:
            case ast.Name():
                return self.local.get(node.id, ("global", node.id))
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                return ("int", number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return ("int", -number)
            case ast.Constant(value=None):
                return ("none",)
            case ast.Tuple() | ast.List():
                return ("tuple", *(self.value(e) for e in node.elts))
            case ast.Starred():
                return ("star", self.value(node.value))
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript():
                return self._subscript(node, self.value(node.value))
            case ast.Slice():
                bounds = [self.value(b) if b is not None else () for b in (node.lower, node.upper)]
                return ("slice", *bounds)
            case ast.BinOp():
                return self._binary(node, self.value(node.left), self.value(node.right))
            case ast.Compare(ops=[ast.Eq()], comparators=[other]):
                return equal(self.value(node.left), self.value(other)) or opaque(node)
            case ast.Compare(ops=[ast.Gt()], comparators=[other]):
                return positive(self.value(node.left), self.value(other)) or opaque(node)
            case ast.IfExp():
                return self._choice(node)
            case ast.Call():
                return self._call(node)
        return opaque(node)

    def _attribute(self, node: ast.Attribute) -> Term:
        if self._is_experts(node):
            return ("experts",)
        if is_self_attribute(node, "self"):
            assigned = self.info.self_assignments.get(node.attr)
            value = dotted_name(assigned[1]) if assigned and assigned[1] is not None else ""
            return ("config", value) if "." in value else ("self", node.attr)
        name = dotted_name(node)
        if name.startswith("self."):
            return ("config", name.removeprefix("self."))
        if node.attr == "shape":
            return ("shape", self.value(node.value))
        if node.attr == "dtype":
            return ("dtype", self.value(node.value))
        return opaque(node)

    def _subscript(self, node: ast.Subscript, base: Term) -> Term:
        index = self.value(node.slice)
        match (base, index):
            case (("experts",), ("number",)):
                return EXPERT
            case (("shape", _), ("int", number)):
                return dim(base[1], number)
            case (("onehot", i, ("e", *rest)), ("number",)):
                return ("match", i, tuple(rest))
            case (_, ("tuple", ("none",), rows)):
                return self._picked(base, rows) or opaque(node)
            case (("ends", _), _) if is_before(node.slice):
                return ("start",)
            case (("order", i), ("slice", ("start",), ("end",))):
                return ("segment", i)
            case (("owner", i), ("slice", ("start",), ("end",))):
                return ("rows", i)
            case (("sorted", t, i), ("slice", ("start",), ("end",))):
                return ("picked", t, i)
            case (("column", w), ("segment", i)):
                return ("scale", w, i)
            case (("repeat", t), ("match", i, ("flat",))):
                return ("repeated", t, i)
            case (_, ("owner", i)):
                return ("sorted", base, i)
            case (_, ("rows", _)):
                return self._picked(base, index) or opaque(node)
            case (_, ("tuple", ("rows", _), ("slice", (), ()))):
                return self._picked(base, index[1]) or opaque(node)
            case (_, ("tuple", ("rows", i), ("slots", j), ("none",))) if i == j:
                return ("scale", base, i)
            case (_, ("tuple", ("rows", i), ("slots", j))) if i == j:
                return ("scale row", base, i)
            case (("tuple", *parts), ("int", number)) if -len(parts) <= number < len(parts):
                return tuple(parts[number])
            case (_, ("int", number)):
                return ("item", base, number)
        return opaque(node)

    def _picked(self, base: Term, rows: Term) -> Term | None:
        return ("picked", base, rows[1]) if rows[0] == "rows" else None

    def _binary(self, node: ast.BinOp, one: Term, other: Term) -> Term:
        match (node.op, one, other):
            case (ast.Mult(), _, _):
                return times(one, other) or opaque(node)
            case (ast.FloorDiv(), ("order", i), _) if self._is_top_k(other, i):
                return ("owner", i)
            case (ast.Add(), ("start",), ("count",)) | (ast.Add(), ("count",), ("start",)):
                return ("end",)
            case (ast.Add(), ("number",), _) if "ep_rank" in ast.unparse(node.right):
                return NUMBER
        return opaque(node)

    def _is_top_k(self, value: Term, ids: Term) -> bool:
        """Is it the number of experts a token goes to?"""
        if value in (dim(ids, 1), dim(ids, -1)):
            return True
        last = value[1].rpartition(".")[2] if value[0] == "config" else ""
        return last in ("num_experts_per_tok", "num_experts_per_token", "top_k", "moe_top_k")

    def _choice(self, node: ast.IfExp) -> Term:
        """``0 if i == 0 else ends[i - 1]``, and ``cat(x) if len(x) else ...``."""
        one, other = self.value(node.body), self.value(node.orelse)
        if one == ("int", 0) and other == ("start",):
            return other
        if one[0] == "sorted out" and self.value(node.test)[0] == "length":
            return one
        return opaque(node)

    def _call(self, node: ast.Call) -> Term:
        if any(isinstance(a, ast.Starred) for a in node.args) and not isinstance(
            node.func, ast.Attribute
        ):
            return opaque(node)
        if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            return ("length", self.value(node.args[0]))
        if isinstance(node.func, ast.Name) and node.func.id == "range" and len(node.args) == 1:
            return ("every",) if self._is_count(node.args[0]) else opaque(node)
        function = self._function(node.func)
        if function:
            return self._op(node, function, [self.value(a) for a in node.args])
        if is_self_attribute(node.func, "self"):
            return self._own_call(node)
        if isinstance(node.func, ast.Subscript | ast.Name):
            if self.value(node.func) != EXPERT:
                return opaque(node)
            value = self.value(node.args[0]) if len(node.args) == 1 else ()
            if value and not node.keywords and value[0] in ("picked", "repeated"):
                return ("out", value)
            raise self.refuse("an expert is called with something else than its tokens", node)
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value)
            values = [base, *(self.value(a) for a in node.args)]
            result = self._op(node, node.func.attr, values)
            self._in_place(node, result)
            return result
        return opaque(node)

    def _function(self, node: ast.expr) -> str:
        """ "where" for ``torch.where`` and "one_hot" for ``F.one_hot``, "" for a method."""
        head, _, last = self.info.file.qualify(dotted_name(node)).rpartition(".")
        return last if head in ("torch", "torch.nn.functional") else ""

    def _is_count(self, node: ast.expr) -> bool:
        """Is it how many experts there are?"""
        value = self.value(node)
        return value == ("length", ("experts",)) or value == self._built_count()

    def _built_count(self) -> Term | None:
        assigned = self.info.self_assignments.get(self.experts)
        for node in ast.walk(assigned[0]) if assigned else ():
            if not isinstance(node, ast.comprehension) or not isinstance(node.iter, ast.Call):
                continue
            if getattr(node.iter.func, "id", "") == "range" and len(node.iter.args) == 1:
                name = dotted_name(node.iter.args[0])
                value = self.value(node.iter.args[0])
                return ("config", name) if value[0] in ("opaque", "global") else value
        return None

    def _own_call(self, node: ast.Call) -> Term:
        """``self.helper(…)``: a method is read as if it stood here."""
        assert isinstance(node.func, ast.Attribute)
        method = self.info.methods.get(node.func.attr)
        if method is None:
            return ("opaque", node.lineno, node.col_offset)
        names = [a.arg for a in method.args.args][1:]
        if node.keywords or len(names) != len(node.args) or method.args.vararg:
            return opaque(node)
        given = dict(zip(names, map(self.value, node.args), strict=True))
        inner = Terms(self.info, self.experts, given)
        result: Term | None = None
        for statement in method.body:
            if isinstance(statement, ast.Return):
                result = inner.step(statement)
            else:
                inner.step(statement)
        if result is None or result[0] != "moe":
            return opaque(node)
        self.helpers.append((node, method, result))
        return result

    def _op(self, node: ast.Call, name: str, values: list[Term]) -> Term:
        if not values:
            return opaque(node)
        first, rest = values[0], values[1:]
        keywords = {k.arg: self.value(k.value) for k in node.keywords if k.arg}
        fresh = made(name, first, rest, keywords)
        if fresh is not None:
            return fresh
        if first[0] == "wide moe" and name in ("to", "type"):
            tokens = first[1]
            like = (tokens, tokens[1]) if tokens[0] == "flat" else (tokens,)
            same = len(rest) == 1 and rest[0][0] == "dtype" and rest[0][1] in like
            return ("moe", *first[1:]) if same else opaque(node)
        if name in PASSED_ON:
            return first
        simple = reshaped(name, first, rest, keywords) or routing(name, first, rest, keywords)
        if simple is not None:
            return simple
        if name in ("index_add_", "index_add") and len(rest) == 3 and rest[0] == ("int", 0):
            return self._added(first, rest[1], rest[2]) or opaque(node)
        if name in ("scatter_reduce_", "scatter_add_") and len(rest) >= 3:
            summed = name == "scatter_add_" or is_sum(node)
            if summed and rest[0] == ("int", 0) and rest[1][0] == "spread rows":
                return self._added(first, rest[1][1], rest[2]) or opaque(node)
        if name in ("mul", "mul_") and len(rest) == 1:
            return times(first, rest[0]) or opaque(node)
        if name == "append" and len(rest) == 1 and rest[0][0] == "out":
            got = rest[0][1]
            if first in (("tuple",), ("appended", *got[1:])):
                return ("appended", *got[1:])
        return opaque(node)

    def _added(self, total: Term, rows: Term, share: Term) -> Term | None:
        """A sum after one expert's share was added to its rows."""
        match (rows, share):
            case (("rows", i), ("share", t, j, w)) if i == j:
                if total in (("zeros", t), ("summing", t, i, w)):
                    return ("summing", t, i, w)
                if total in (("wide zeros", t), ("wide summing", t, i, w)):
                    return ("wide summing", t, i, w)
        return None

    def _in_place(self, node: ast.Call, result: Term) -> None:
        """``x.index_add_(…)`` changes ``x``."""
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        changes = (name.endswith("_") and not name.endswith("__")) or name == "append"
        if changes and isinstance(node.func.value, ast.Name):
            name = node.func.value.id
            if result[0] == "opaque":
                self._lost(self.local.get(name, ()), node)
            self.local[name] = result


def _stored_names(body: list[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
