"""When vLLM refuses to rewrite a forward's source (contract sections 2.4 and 2.5).

A structural match is only worth something if the source can be rewritten; these conditions
are syntactic and the same for predicted and traced evidence.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.facts import Facts, ForwardSource
from modelcheck.fusers.match import NoMatch
from modelcheck.source.bodies import body_of, nodes_of
from modelcheck.source.memory import remembered

METADATA = frozenset({"shape", "dtype", "device", "ndim", "size", "dim", "numel", "item"})


def rewritable(facts: Facts) -> tuple[ast.FunctionDef, ForwardSource]:
    """The forward, when its source may be compiled anew in its module. Raises `NoMatch`."""
    source = facts.source
    if source is None:
        raise NoMatch("the source of forward is not available", near=True)
    if source.is_closure:
        raise NoMatch(
            "forward is a closure (it uses super() or a variable of an enclosing function)",
            source.first_line,
            near=True,
        )
    function = source.function
    if not isinstance(function, ast.FunctionDef):
        raise NoMatch("forward is not a plain function", source.first_line, near=True)
    mangled = _mangled(function)
    if mangled is not None:
        name = mangled.attr if isinstance(mangled, ast.Attribute) else mangled.id
        raise NoMatch(f"{name} is a mangled private name", source.line(mangled), near=True)
    return function, source


def _mangled(function: ast.FunctionDef) -> ast.Name | ast.Attribute | None:
    """The first name that Python spells otherwise within a class."""
    nodes = body_of(function)
    names = {n for n in nodes.identifiers if n.startswith("__") and not n.endswith("__")}
    if not names:
        return None
    for node in nodes_of(function):
        if isinstance(node, ast.Attribute) and node.attr in names:
            return node
        if isinstance(node, ast.Name) and node.id in names:
            return node
    return None


def one_call(
    function: ast.FunctionDef, source: ForwardSource, name: str, contract: Contract
) -> tuple[ast.Call, list[ast.Attribute]]:
    """The one ``self.name(argument)``, and all other mentions of ``self.name``.

    Where the release counts every mention, ``anything.name`` is one too. Raises `NoMatch`
    unless there is exactly one such call.
    """
    nodes = body_of(function)
    named = [n for n in nodes.some(ast.Attribute) if n.attr == name]
    own = [n for n in named if isinstance(n.value, ast.Name) and n.value.id == "self"]
    mentions = named if contract.counts_every_mention else own
    calls = [
        node
        for node in nodes.some(ast.Call)
        if any(node.func is mention for mention in own)
        and len(node.args) == 1
        and not isinstance(node.args[0], ast.Starred)
        and not node.keywords
    ]
    if len(calls) != 1:
        blamed = calls[1] if len(calls) > 1 else (mentions[0] if mentions else function)
        raise NoMatch(
            f"{name} is not called exactly once as self.{name}(argument)",
            source.line(blamed),
            near=True,
        )
    return calls[0], [m for m in mentions if m is not calls[0].func]


def single_call(
    function: ast.FunctionDef, source: ForwardSource, name: str, contract: Contract
) -> ast.Call:
    """The one ``self.name(argument)`` when nothing else mentions ``self.name``."""
    call, others = one_call(function, source, name, contract)
    if others:
        raise NoMatch(
            f"self.{name} is used {len(others) + 1} times", source.line(others[0]), near=True
        )
    return call


def guarded_calls(
    function: ast.FunctionDef,
    source: ForwardSource,
    names: tuple[str, ...],
    contract: Contract,
) -> list[ast.Call]:
    """One call per projection; other mentions must be guards on its existence."""
    calls = []
    for name in names:
        call, others = one_call(function, source, name, contract)
        for mention in others:
            if not contract.existence_guards or not _is_guard(function, mention):
                raise NoMatch(
                    f"self.{name} is used other than by its one call"
                    + (" or an existence guard" if contract.existence_guards else ""),
                    source.line(mention),
                    near=True,
                )
        calls.append(call)
    return calls


def _is_guard(function: ast.FunctionDef, mention: ast.expr) -> bool:
    """``self.p is (not) None``, or ``self.p`` as a bare truth value."""
    for node in nodes_of(function):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            if not isinstance(node.ops[0], ast.Is | ast.IsNot):
                continue
            sides = (node.left, node.comparators[0])
            if any(side is mention for side in sides) and any(_is_none(side) for side in sides):
                return True
        elif isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            if node.test is mention:
                return True
        elif isinstance(node, ast.UnaryOp) and node.operand is mention:
            return isinstance(node.op, ast.Not)
    return False


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def same_argument(calls: list[ast.Call], source: ForwardSource) -> None:
    """All calls take a textually identical argument. Raises `NoMatch`."""
    first = ast.dump(calls[0].args[0])
    for call in calls[1:]:
        if ast.dump(call.args[0]) != first:
            raise NoMatch(
                "the projections' inputs are written differently "
                f"({ast.unparse(calls[0].args[0])} and {ast.unparse(call.args[0])})",
                source.line(call),
                near=True,
            )


Block = list[ast.stmt]


def block_path(block: Block, node: ast.AST) -> list[tuple[Block, int]]:
    """The nested (block, index) pairs that lead to a node, outermost first."""
    for index, statement in enumerate(block):
        if not any(child is node for child in nodes_of(statement)):
            continue
        for inner in _blocks_of(statement):
            deeper = block_path(inner, node)
            if deeper:
                return [(block, index), *deeper]
        return [(block, index)]
    return []


def _blocks_of(statement: ast.stmt) -> Iterator[Block]:
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(statement, name, None)
        if isinstance(inner, list) and inner:
            yield inner
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        if part.body:
            yield part.body


def check_input_stable(
    function: ast.FunctionDef,
    source: ForwardSource,
    facts: Facts,
    calls: list[ast.Call],
    block: Block,
    indices: list[int],
) -> None:
    """Nothing between the first and the last projection may change their input.

    Since vLLM 0.30 all merged projections run at the first one's statement. Raises `NoMatch`.
    """
    read = {n.id for n in ast.walk(calls[0].args[0]) if isinstance(n, ast.Name)}
    merged = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)}
    tracked = _may_alias(function, read, facts, merged)
    for statement in block[min(indices) : max(indices) + 1]:
        written = tracked & _written(statement)
        if written:
            raise NoMatch(
                f"the projections' input may be changed before all of them ran: "
                f"{', '.join(sorted(written))} is written between the first and the last "
                "projection, from or into something that shares its memory",
                source.line(statement),
                near=True,
            )


def _may_alias(
    function: ast.FunctionDef, seed: set[str], facts: Facts, merged: set[str]
) -> set[str]:
    names = set(seed)
    nodes = body_of(function)
    written: list[ast.Assign | ast.AnnAssign] = [
        *nodes.some(ast.Assign),
        *nodes.some(ast.AnnAssign),
    ]
    assignments = [
        (node, node.value)
        for node in written
        if node.value is not None and not _is_fresh(node.value, facts, merged)
    ]
    while True:
        grown = set(names)
        for node, value in assignments:
            if _reads(value) & grown:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    grown |= {
                        n.id
                        for n in ast.walk(target)
                        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                    }
        if grown == names:
            return names
        names = grown


@remembered(maxsize=1024)
def _reads(expression: ast.expr) -> frozenset[str]:
    """Names read in a way that could give a view of them; shapes and dtypes do not."""
    names: set[str] = set()
    pending: list[ast.AST] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute) and node.attr in METADATA:
            continue
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in METADATA
        ):
            pending += [*node.args, *(k.value for k in node.keywords)]
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        pending += ast.iter_child_nodes(node)
    return frozenset(names)


def _is_fresh(expression: ast.expr, facts: Facts, merged: set[str]) -> bool:
    """Does evaluating it give new memory (and not a view of what it reads)?"""
    if isinstance(expression, ast.Constant):
        return True
    if isinstance(expression, ast.IfExp):
        taken = _folded(expression.test, merged)
        if taken is not None:
            return _is_fresh(expression.body if taken else expression.orelse, facts, merged)
        branches = (expression.body, expression.orelse)
        return all(_is_fresh(branch, facts, merged) for branch in branches)
    if isinstance(expression, ast.Tuple | ast.List):
        return all(_is_fresh(item, facts, merged) for item in expression.elts)
    node = expression
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        receiver = node.func.value
        if isinstance(receiver, ast.Name) and receiver.id == "self":
            name = node.func.attr
            if name in facts.child_names:
                if facts.child(name).is_linear:
                    return True
            elif facts.method(name) is None and facts.attribute(name) is None:
                return True
            return bool(node.args) and all(_is_fresh(a, facts, merged) for a in node.args)
        node = receiver
    return False


def _folded(test: ast.expr, merged: set[str]) -> bool | None:
    """The value of a guard on a merged projection, which vLLM has folded by then."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if _mentions(test, merged):
        return True
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        sides = (test.left, test.comparators[0])
        if any(_is_none(s) for s in sides) and any(_mentions(s, merged) for s in sides):
            return isinstance(test.ops[0], ast.IsNot)
    return None


def _mentions(node: ast.expr, names: set[str]) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and node.attr in names
    )


def _written(statement: ast.stmt) -> set[str]:
    """Names a statement may rebind or write through."""
    written: set[str] = set()
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        written |= _argument_names(statement.value)  # only there for its side effect
    for node in nodes_of(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            written.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(
            node.ctx, ast.Store | ast.Del
        ):
            written |= _root_name(node)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and _in_place_name(node.func.attr):
                written |= _root_name(node.func.value)
            if _writes_arguments(node):
                written |= _argument_names(node)
    return written


def _in_place_name(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _root_name(node: ast.expr) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _argument_names(call: ast.Call) -> set[str]:
    return {
        node.id
        for argument in (*call.args, *(k.value for k in call.keywords))
        for node in ast.walk(argument)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _writes_arguments(call: ast.Call) -> bool:
    for keyword in call.keywords:
        if keyword.arg == "out":
            return True
        if keyword.arg == "inplace" and not (
            isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        ):
            return True
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return _in_place_name(name)
