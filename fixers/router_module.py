"""Move scoring and top-k out of a mixture-of-experts block into a router module.

The gate, an ``nn.Linear``, becomes a module of the same name that holds ``weight`` (so the
checkpoint's key stays), runs the block's own statements and returns logits, weights and indices:
what vLLM can take over together with the experts. A block that also returned the logits returns
its output only; a layer that hands them on asks the router for them.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from fixers import FixRefused
from fixers._router_checks import check_routing
from fixers._router_logits import drop_logits
from fixers.experts_module import BLOCK_WORDS, one_blank_line
from fixers.splice import Splice, parameters
from fixers.toolkit import document, free_name
from modelcheck.findings import Finding
from modelcheck.rules.moe._blocks import EXPERTS, moe_blocks
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

LINEAR = "torch.nn.Linear"
FUNCTIONAL = "torch.nn.functional"
BUILTINS = frozenset(("float", "int", "min", "max", "len", "range", "sum", "True", "False", "None"))


@dataclass(frozen=True)
class _Routing:
    """The statements of the block that route: ``moved`` of its forward, from the gate's call on."""

    gate: str
    made: ast.Assign  # self.gate = nn.Linear(…)
    call: ast.Call  # self.gate(tokens)
    tokens: str
    weights: str
    ids: str
    moved: tuple[ast.stmt, ...]
    logits: str  # the name of the scores, "" where they have none


def fix(text: str, finding: Finding) -> str:
    """``text`` with a router. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    info = splice.doc.class_info(finding.class_name)
    block = next((b for b in moe_blocks(info.file) if b.info is info), None)
    forward, init = info.methods.get("forward"), info.methods.get("__init__")
    if block is None or forward is None or init is None or not block.gate:
        raise FixRefused(f"{info.name} has no linear gate of its own", finding.span.line)
    if not block.experts.replaceable or block.accesses:
        raise FixRefused("the experts are no module yet", finding.span.line)
    routing = _routing(splice, info, forward, block.gate)
    name = _class_name(splice, info)
    code, arguments = _router(splice, info, init, routing, name)
    splice.above(info.node, code)
    assert isinstance(routing.made.value, ast.Call)
    splice.replace(routing.made.value, f"{name}({', '.join(arguments)})")
    first, last = routing.moved[0], routing.moved[-1]
    logits = routing.logits or "_"
    if not _reads_after(forward, last, logits):
        logits = "_"
    new = f"{logits}, {routing.weights}, {routing.ids} = self.{routing.gate}({routing.tokens})"
    splice.replace_from(first, last, new)
    drop_logits(splice, info, forward, routing.gate, logits, last)
    _plain_views(splice, forward, last)
    _initialised(splice, info, name)
    result = one_blank_line(splice, info.name, splice.text())
    check_routing(splice, finding.path, info.name, result)
    return result


def _plain_views(splice: Splice, forward: FunctionNode, last: ast.stmt) -> None:
    """``x.view_as(y)`` behind the routing becomes ``x.view(y.shape)``, which vLLM looks through."""
    for statement in forward.body[forward.body.index(last) + 1 :]:
        for node in nodes_of(statement):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in ("view_as", "reshape_as") and len(node.args) == 1:
                view = f"{splice.code(node.func.value)}.{node.func.attr.removesuffix('_as')}"
                splice.replace(node, f"{view}({splice.code(node.args[0])}.shape)")


def _class_name(splice: Splice, info: ClassInfo) -> str:
    stem = re.sub(BLOCK_WORDS, "", info.name) or info.name
    file = info.file
    taken = {*file.classes, *file.functions, *file.imports, *file.assignments}
    return free_name([f"{stem}Router", f"{stem}TopKRouter", f"{info.name}Router"], taken)


# Finding the statements


def _routing(splice: Splice, info: ClassInfo, forward: FunctionNode, gate: str) -> _Routing:
    body = forward.body
    calls = [n for n in nodes_of(forward) if _is_own(n, gate) and not isinstance(n, ast.Name)]
    uses = [n for n in nodes_of(info.node) if is_self_attribute(n, "self") and n.attr == gate]  # type: ignore[attr-defined]
    if len(calls) != 1 or len(uses) != 2:  # the call, and the assignment
        raise splice.refuse(f"{gate} is used more than once", uses[-1] if uses else info.node)
    call = calls[0]
    assert isinstance(call, ast.Call)
    if len(call.args) != 1 or call.keywords or not isinstance(call.args[0], ast.Name):
        raise splice.refuse(f"{gate} is not called with one name", call)
    tokens, ids, weights, at = _experts_call(splice, forward)
    if call.args[0].id != tokens:
        raise splice.refuse("the router and the experts do not get the same tokens", call)
    start = _index(body, call)
    if start is None or start >= at:
        raise splice.refuse(f"{gate} is not called in a statement of its own", call)
    end = max((i for i in range(start, at) if {weights, ids} & _stored(body[i])), default=start)
    moved = tuple(body[start : end + 1])
    logits = _logits(moved, call)
    inside = {n for s in moved for n in _stored(s)} - {weights, ids, logits}
    later = {n for s in body[end + 1 :] for n in _loaded(s)}
    if inside & later or tokens in inside:
        raise splice.refuse("the routing leaves more behind than weights and indices", moved[-1])
    return _Routing(gate, _made(splice, info, gate), call, tokens, weights, ids, moved, logits)


def _is_own(node: ast.AST, gate: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return is_self_attribute(node.func, "self") and getattr(node.func, "attr", "") == gate


def _experts_call(splice: Splice, forward: FunctionNode) -> tuple[str, str, str, int]:
    """Tokens, indices, weights, and where in the forward the experts are called."""
    for index, statement in enumerate(forward.body):
        for node in nodes_of(statement):
            if _is_own(node, EXPERTS):
                assert isinstance(node, ast.Call)
                names = [a.id for a in node.args if isinstance(a, ast.Name)]
                if len(names) != 3 or len(node.args) != 3 or node.keywords:
                    raise splice.refuse("the experts are not called with three names", node)
                return names[0], names[1], names[2], index
    raise splice.refuse("forward does not call the experts", forward)


def _index(body: Sequence[ast.stmt], node: ast.AST) -> int | None:
    for index, statement in enumerate(body):
        if any(inner is node for inner in nodes_of(statement)):
            return index if isinstance(statement, ast.Assign) else None
    return None


def _stored(statement: ast.stmt) -> set[str]:
    return {
        n.id
        for n in nodes_of(statement)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    }


def _loaded(node: ast.AST) -> set[str]:
    found = {
        n.id for n in nodes_of(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    for inner in nodes_of(node):
        if isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
            found.add(inner.target.id)
    return found


def _logits(moved: Sequence[ast.stmt], call: ast.Call) -> str:
    """The name that holds what the gate gives, to the end."""
    first = moved[0]
    if not isinstance(first, ast.Assign) or first.value is not call or len(first.targets) != 1:
        return ""
    target = first.targets[0]
    if not isinstance(target, ast.Name):
        return ""
    again = any(target.id in _stored(s) for s in moved[1:])
    return "" if again else target.id


def _reads_after(forward: FunctionNode, last: ast.stmt, name: str) -> bool:
    rest = forward.body[forward.body.index(last) + 1 :]
    return any(name in _loaded(s) for s in rest)


def _made(splice: Splice, info: ClassInfo, gate: str) -> ast.Assign:
    found = info.self_assignments.get(gate)
    statement = found[0] if found else None
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        raise splice.refuse(f"{gate} is not made in __init__", info.node)
    value = statement.value
    bias = [*value.args[2:3], *(k.value for k in value.keywords if k.arg == "bias")]
    plain = info.file.qualify(dotted_name(value.func)) == LINEAR and len(value.args) >= 2
    without = len(bias) == 1 and isinstance(bias[0], ast.Constant) and bias[0].value is False
    if not plain or not without:
        raise splice.refuse(f"{gate} is no nn.Linear without a bias", statement)
    return statement


# Writing the router


def _router(
    splice: Splice, info: ClassInfo, init: FunctionNode, routing: _Routing, name: str
) -> tuple[str, list[str]]:
    """The class's text, and the arguments that its constructor takes."""
    assert isinstance(routing.made.value, ast.Call)
    width, count = routing.made.value.args[:2]
    settings: dict[str, str] = {}
    needed: set[str] = set()
    for node in (width, count, *routing.moved):
        _check_names(splice, info, node, routing)
        for attr in _self_attributes(node, routing.gate):
            _setting(splice, info, attr, settings, needed)
    needed |= _loaded(width) | _loaded(count)
    own = [a.arg for a in parameters(init)][1:]
    unknown = needed - {"self", *own}
    if unknown:
        raise splice.refuse(f"the router needs {sorted(unknown)[0]} of __init__", routing.made)
    arguments = [a for a in own if a in needed]
    nn = dotted_name(routing.made.value.func).rpartition(".")[0]
    lines = [f"self.{attr} = {value}" for attr, value in settings.items()]
    shape = f"{splice.code(count)}, {splice.code(width)}"
    lines += [
        f"self.weight = {nn}.Parameter(torch.empty({shape}))",
        f"{nn}.init.kaiming_uniform_(self.weight, a=5**0.5)",
    ]
    text = f'''
class {name}({nn}.Module):
    """Scores the experts and picks the top-k: logits, weights and indices, one row a token."""

    def __init__({", ".join(["self", *arguments])}):
        super().__init__()
'''
    text += textwrap.indent("\n".join(lines), " " * 8)
    text += f"\n\n    def forward(self, {routing.tokens}):\n"
    text += textwrap.indent(_statements(splice, info, routing), " " * 8)
    return text, arguments


def _self_attributes(node: ast.AST, gate: str) -> list[str]:
    found = [n.attr for n in nodes_of(node) if is_self_attribute(n, "self")]  # type: ignore[attr-defined]
    return [attr for attr in dict.fromkeys(found) if attr != gate]


def _setting(
    splice: Splice, info: ClassInfo, attr: str, settings: dict[str, str], needed: set[str]
) -> None:
    """Copy ``self.attr = …`` of the block, and what its value needs."""
    if attr in settings:
        return
    found = info.self_assignments.get(attr)
    if found is None or found[1] is None or attr in info.methods:
        raise splice.refuse(f"the routing uses self.{attr}", info.node)
    value = found[1]
    if any(isinstance(n, ast.Call) for n in nodes_of(value)):
        raise splice.refuse(f"the routing uses self.{attr}", found[0])
    for other in _self_attributes(value, ""):
        _setting(splice, info, other, settings, needed)
    needed |= _loaded(value) - {"self"}
    settings[attr] = splice.code(value)


def _check_names(splice: Splice, info: ClassInfo, node: ast.AST, routing: _Routing) -> None:
    """Raise `FixRefused` where a statement reads what the router has not."""
    if isinstance(node, ast.expr):
        return
    known = {routing.tokens, "self", *BUILTINS, *info.file.imports}
    known |= {n for s in routing.moved for n in _stored(s)}
    for name in _loaded(node) - known:
        raise splice.refuse(f"the routing reads {name}", node)
    for inner in nodes_of(node):
        if isinstance(inner, ast.Return | ast.For | ast.While | ast.With | ast.Try | ast.Lambda):
            raise splice.refuse("the routing is not straight code", inner)
        if dotted_name(inner) == "self.training" if isinstance(inner, ast.Attribute) else False:
            raise splice.refuse("the routing differs in training", inner)


def _statements(splice: Splice, info: ClassInfo, routing: _Routing) -> str:
    """The moved statements as the router's body."""
    first, last = routing.moved[0], routing.moved[-1]
    start, end = splice.span(first)[0], splice.span(last)[1]
    text = splice.doc.text
    a, b = splice.span(routing.call)
    linear = f"{_functional(info)}.linear({routing.tokens}, self.weight)"
    name = routing.logits
    lines = ""
    if not name:
        taken = {n for s in routing.moved for n in _stored(s) | _loaded(s)}
        name = free_name(["router_logits", "gate_logits"], taken)
        lines, linear = f"{splice.indent(first)}{name} = {linear}\n", name
    code = splice.indent(first) + text[start:a] + linear + text[b:end]
    body = textwrap.dedent(lines + code.replace("\r\n", "\n"))
    return f"{body}\nreturn {name}, {routing.weights}, {routing.ids}"


def _functional(info: ClassInfo) -> str:
    for name, full in info.file.imports.items():
        if full == FUNCTIONAL and "." not in name:
            return name
    return "nn.functional" if info.file.imports.get("nn") == "torch.nn" else FUNCTIONAL


def _initialised(splice: Splice, info: ClassInfo, name: str) -> None:
    """The file's own ``_init_weights`` treats the router's weight as a Linear's."""
    for cls in info.file.classes.values():
        method = cls.methods.get("_init_weights")
        for branch in nodes_of(method) if method is not None else ():
            if isinstance(branch, ast.If) and _tests_linear(info, branch.test):
                _add_branch(splice, branch, name)
                break


def _tests_linear(info: ClassInfo, test: ast.expr) -> bool:
    if not isinstance(test, ast.Call) or getattr(test.func, "id", "") != "isinstance":
        return False
    kinds = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else test.args[1:]
    return LINEAR in {info.file.qualify(dotted_name(k)) for k in kinds}


def _add_branch(splice: Splice, branch: ast.If, name: str) -> None:
    assert isinstance(branch.test, ast.Call)
    module = splice.code(branch.test.args[0])
    wanted = [s for s in branch.body if _only_weight(s, module)]
    if not wanted:
        return
    lines = [f"elif isinstance({module}, {name}):"]
    lines += [f"    {splice.code(s)}" for s in wanted]
    last = branch.body[-1]
    text = textwrap.indent(textwrap.dedent("\n".join(lines)), splice.indent(branch))
    place = splice.offset((last.end_lineno or 0) + 1, 0)
    splice.insert(place, (text + "\n").replace("\n", splice.newline))


def _only_weight(statement: ast.stmt, module: str) -> bool:
    if isinstance(statement, ast.If) or (statement.end_lineno or 0) != statement.lineno:
        return False
    text = ast.unparse(statement)
    return f"{module}.weight" in text and f"{module}.bias" not in text
