"""Fill computed buffers again in ``_init_weights``.

transformers 5 builds a model on the meta device and makes its non-persistent buffers anew, as
empty memory; ``_init_weights`` is what it calls for every module afterwards. The statements of
the constructor that compute the buffers of the class are repeated in a method ``_fill_buffers``,
which ``_init_weights`` calls. Values that only a parameter of the constructor holds are kept as
attributes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from fixers import FixRefused
from fixers.splice import Splice, parameters
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.rules.version.buffer_not_restored import buffer_value
from modelcheck.source.bodies import callee_name, nodes_of, self_name
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

METHOD, FILL, REGISTER = "_fill_buffers", "_init_weights", "register_buffer"
DOC = '"""Compute the buffers again: transformers 5 makes them as empty memory."""'


@dataclass
class _Plan:
    """What ``_fill_buffers`` does."""

    buffers: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)  # locals of the constructor
    taken: set[ast.stmt] = field(default_factory=set)
    made: bool = False  # by a method that the constructor calls


def fix(text: str, finding: Finding) -> str:
    """``text`` with the buffers of the class filled. Raises `FixRefused`."""
    doc = document(text, finding)
    splice = Splice(doc)
    info = doc.class_info(finding.class_name)
    init = info.methods.get("__init__")
    if init is None:
        raise FixRefused(f"{info.name} has no __init__ of its own", finding.span.line)
    family = [*info.mro, *(c for c in doc.index.classes.values() if info in c.mro)]
    if any(METHOD in c.methods or METHOD in c.attributes for c in family):
        raise splice.refuse(f"{info.name} has a {METHOD} already", info.node)
    plan = _plan(splice, info, init)
    header = [f"def {METHOD}(self):", f"    {DOC}", *_locals(splice, info, init, plan)]
    body = "\n".join([*header, *plan.lines])
    splice.after(init, body, blank=True)
    for filler in _fillers(splice, info):
        _call(splice, info, filler)
    return splice.text()


def _plan(splice: Splice, info: ClassInfo, init: FunctionNode) -> _Plan:
    """Go through the constructor backwards: from the buffers to what they are computed from."""
    plan = _Plan()
    lines: list[list[str]] = []
    for statement in reversed(init.body):
        written = _written(statement)
        call = _registered(statement, self_name(init))
        if call is not None:
            name, value = call.args[0], buffer_value(call)
            assert isinstance(name, ast.Constant) and value is not None
            plan.buffers.append(str(name.value))
            plan.needed |= _read(splice, init, value)
            filled = f"self.{plan.buffers[-1]}.copy_({splice.code(value)})"
            lines.append(_dedented(splice, statement, filled))
            plan.taken.add(statement)
        elif _fills(info, statement):
            plan.made = True
            plan.needed |= _read(splice, init, statement)
            lines.append(_dedented(splice, statement))
        elif _is_alias(statement, init):
            lines.append(_dedented(splice, statement))
        elif written & plan.needed:
            if not _plain(statement, init):
                raise splice.refuse(
                    "a buffer is computed in a way that is not understood", statement
                )
            kept = {n for n in written if isinstance(statement, ast.Assign)}
            plan.needed -= kept
            plan.needed |= _read(splice, init, statement)
            lines.append(_dedented(splice, statement))
            plan.taken.add(statement)
        elif any(_registered(n, self_name(init)) for n in nodes_of(statement)):
            raise splice.refuse("a buffer is made below a condition", statement)
    plan.lines = [line for group in reversed(lines) for line in group]
    if not plan.buffers and not plan.made:
        raise splice.refuse("the constructor makes no such buffer", init)
    _refuse_what_changes(splice, info, init, plan)
    return plan


def _refuse_what_changes(splice: Splice, info: ClassInfo, init: FunctionNode, plan: _Plan) -> None:
    """Refuse when an attribute that the statements read is another one later."""
    read = {
        node.attr
        for statement in plan.taken
        for node in nodes_of(statement)
        if is_self_attribute(node) and isinstance(node, ast.Attribute)
        if isinstance(node.ctx, ast.Load)
    } - set(plan.buffers)
    last = max((init.body.index(statement) for statement in plan.taken), default=len(init.body))
    later: list[ast.AST] = [*init.body[last + 1 :]]
    later += [f for c in info.mro for n, f in c.methods.items() if n != "__init__"]
    for node in (n for part in later for n in nodes_of(part)):
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if stored and is_self_attribute(node) and getattr(node, "attr", "") in read:
            raise splice.refuse(
                f"self.{getattr(node, 'attr', '')} is changed after the buffers are made", node
            )


def _dedented(splice: Splice, statement: ast.stmt, code: str = "") -> list[str]:
    """The lines of a statement (or of the code that takes its place) for a method's body."""
    indent = splice.indent(statement)
    first, *rest = (code or splice.code(statement)).replace("\r\n", "\n").split("\n")
    return [f"    {first}", *(f"    {line.removeprefix(indent)}" for line in rest)]


def _registered(node: ast.AST, first: str) -> ast.Call | None:
    """The call that makes a non-persistent buffer with a computed value."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or callee_name(call) != REGISTER or not call.args:
        return None
    value = buffer_value(call)
    kept = [k.value for k in call.keywords if k.arg == "persistent"] + call.args[2:3]
    lost = any(isinstance(v, ast.Constant) and v.value is False for v in kept)
    named = isinstance(call.args[0], ast.Constant) and is_self_attribute(call.func, first)
    filled = value is not None and not isinstance(value, ast.Constant)
    return call if lost and named and filled else None


def _fills(info: ClassInfo, statement: ast.stmt) -> bool:
    """Does it call a method of the class that makes buffers?"""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not is_self_attribute(call.func):
        return False
    found = info.find_method(callee_name(call))
    return found is not None and any(
        isinstance(n, ast.Call) and callee_name(n) == REGISTER for n in nodes_of(found[1])
    )


def _is_alias(statement: ast.stmt, init: FunctionNode) -> bool:
    """Is it ``self.other = self.buffer``? (The buffer comes earlier: it is looked for there.)"""
    if not isinstance(statement, ast.Assign) or not is_self_attribute(statement.value):
        return False
    name = dotted_name(statement.value).partition(".")[2]
    return any(
        call is not None and isinstance(call.args[0], ast.Constant) and call.args[0].value == name
        for call in (_registered(s, self_name(init)) for s in init.body)
    )


def _written(statement: ast.stmt) -> set[str]:
    return {
        n.id
        for n in nodes_of(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _read(splice: Splice, init: FunctionNode, node: ast.AST) -> set[str]:
    """The locals of the constructor that a node reads."""
    bound = {a.arg for a in parameters(init)} - {self_name(init)}
    bound |= {name for s in init.body for name in _written(s)}
    loads = {
        n.id for n in nodes_of(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    return loads & bound


def _plain(statement: ast.stmt, init: FunctionNode) -> bool:
    """Does a statement only compute, so that it can be repeated?"""
    if isinstance(statement, ast.If):
        return all(_plain(s, init) for s in (*statement.body, *statement.orelse))
    return isinstance(statement, ast.Assign | ast.AugAssign)


def _is_the_model_s(info: ClassInfo, init: FunctionNode) -> bool:
    """Is the argument ``config`` the one that transformers keeps as ``self.config``?"""
    first = init.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        first = init.body[1]  # below the docstring
    inner = [c for c in info.mro if c is not info and "__init__" in c.methods]
    match first:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"),
                args=[ast.Name(id="config"), *_],
            )
        ):
            return info.kind == "pretrained" and not inner
    return False


def _locals(splice: Splice, info: ClassInfo, init: FunctionNode, plan: _Plan) -> list[str]:
    """The lines that give the parameters of the constructor their values again."""
    lines = []
    taken = splice.doc.taken_names(info.name)
    for parameter in parameters(init):
        name = parameter.arg
        if name not in plan.needed:
            continue
        kept = [
            attribute
            for attribute, (statement, value) in info.self_assignments.items()
            if isinstance(value, ast.Name) and value.id == name and statement in init.body
            if not any(name in _written(s) for s in init.body[: init.body.index(statement)])
        ]
        if name == "device" and plan.buffers:
            lines.append(f"    device = self.{plan.buffers[-1]}.device")
        elif kept:
            lines.append(f"    {name} = self.{kept[0]}")
        elif name == "config" and _is_the_model_s(info, init):
            lines.append("    config = self.config")
        elif name in taken or (name == "config" and info.kind == "pretrained"):
            raise splice.refuse(f"{name} has to be kept, but self.{name} is something else", init)
        else:
            splice.before(_first_after_super(init), f"self.{name} = {name}")
            lines.append(f"    {name} = self.{name}")
    return lines


def _first_after_super(init: FunctionNode) -> ast.stmt:
    """The statement behind ``super().__init__()``."""
    for place, statement in enumerate(init.body[:-1]):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and callee_name(call) == "__init__":
            return init.body[place + 1]
    raise FixRefused("the constructor does not call super().__init__() first", init.lineno)


def _fillers(splice: Splice, info: ClassInfo) -> list[ClassInfo]:
    """The classes whose ``_init_weights`` serves the models of the file."""
    models = [c for c in info.file.classes.values() if c.kind == "pretrained"]
    own = [c for c in models if FILL in c.methods]
    roots = [c for c in models if not any(parent in models for parent in c.mro[1:])]
    if not own and len(roots) != 1:
        raise splice.refuse("there is no one PreTrainedModel class at the root", info.node)
    return own or roots


def _call(splice: Splice, info: ClassInfo, filler: ClassInfo) -> None:
    function = filler.methods.get(FILL)
    if function is None:
        lines = [
            f"def {FILL}(self, module):",
            f"    super().{FILL}(module)",
            f"    if isinstance(module, {info.name}):",
            f"        module.{METHOD}()",
        ]
        last = filler.node.body[-1]
        splice.after(last, "\n".join(lines), blank=True)
        return
    names = parameters(function)
    if len(names) != 2:
        raise splice.refuse(f"{FILL} takes other arguments than a module", function)
    if any(isinstance(n, ast.Return) for n in nodes_of(function)):
        raise splice.refuse(f"{FILL} returns before its end", function)
    module = names[1].arg
    splice.after(
        function.body[-1],
        f"if isinstance({module}, {info.name}):\n    {module}.{METHOD}()",
    )
