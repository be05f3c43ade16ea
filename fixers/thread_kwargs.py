"""Thread ``**kwargs`` on: into a forward's signature, or into one of its calls.

vLLM up to 0.29 and other engines hand their state down through ``**kwargs``; a forward that
drops them breaks the chain from the model to the attention interface. The finding's data says
which end is missing: ``gap`` is "signature" or "call".
"""

from __future__ import annotations

import ast

import libcst as cst
import libcst.matchers as m

from fixers import FixRefused
from fixers.toolkit import Change, Document, document, dotted, find, local_names
from modelcheck.findings import Finding
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

NAME = "kwargs"
CONTAINERS = ("torch.nn.ModuleList", "torch.nn.ModuleDict")


def fix(text: str, finding: Finding) -> str:
    """``text`` with the gap closed. Raises `FixRefused`."""
    doc = document(text, finding)
    gap = finding.fix.data.get("gap", "") if finding.fix else ""
    owner = doc.class_def(finding.class_name)
    function = doc.method_at(owner, finding.span)
    if gap == "signature":
        return doc.rewrite(_widen(doc, function))
    if gap == "call":
        return doc.rewrite(_pass_on(doc, finding, function))
    raise FixRefused(f"the finding does not say which end is missing ({gap!r})")


def _widen(doc: Document, function: cst.FunctionDef) -> dict[cst.CSTNode, Change]:
    """Add ``**kwargs`` to a signature."""
    if function.params.star_kwarg is not None:
        raise doc.refuse(f"{function.name.value} takes **kwargs already", function)
    if NAME in local_names(function):
        raise doc.refuse(f"{function.name.value} uses the name {NAME} already", function)

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Parameters)
        return with_star_kwarg(node)

    return {function.params: change}


def with_star_kwarg(node: cst.Parameters) -> cst.Parameters:
    """Parameters with ``**kwargs`` at their end."""
    star = cst.Param(star="**", name=cst.Name(NAME))
    if node.kwonly_params:
        group, last = "kwonly_params", node.kwonly_params[-1]
    elif isinstance(node.star_arg, cst.Param):
        group, last = "star_arg", node.star_arg
    elif node.params:
        group, last = "params", node.params[-1]
    elif node.posonly_params:
        raise FixRefused("the signature has positional-only parameters")
    else:
        return node.with_changes(star_kwarg=star)
    before, after, space = _split(last.comma, last.whitespace_after_param, _gap_before_last(node))
    star = star.with_changes(comma=after, whitespace_after_param=space)
    last = last.with_changes(comma=before, whitespace_after_param=cst.SimpleWhitespace(""))
    new = last if group == "star_arg" else [*getattr(node, group)[:-1], last]
    return node.with_changes(**{group: new, "star_kwarg": star})


def _gap_before_last(node: cst.Parameters) -> cst.BaseParenthesizableWhitespace | None:
    """The white space after the last comma between two parameters."""
    parameters: list[cst.Param] = [*node.params]
    if isinstance(node.star_arg, cst.Param):
        parameters.append(node.star_arg)
    parameters += node.kwonly_params
    for parameter in reversed(parameters[:-1]):
        if isinstance(parameter.comma, cst.Comma):
            return parameter.comma.whitespace_after
    return None


CommaOrNone = cst.Comma | cst.MaybeSentinel


def _split(
    comma: CommaOrNone,
    space: cst.BaseParenthesizableWhitespace,
    between: cst.BaseParenthesizableWhitespace | None,
) -> tuple[cst.Comma, CommaOrNone, cst.BaseParenthesizableWhitespace]:
    """Lay out one more item after the last one.

    ``comma`` and ``space`` follow the last item now, ``between`` stands between two earlier
    ones. Gives the last item's new comma, the new item's comma, and the new item's space. A
    comment behind the last item stays behind it.
    """
    closing = comma.whitespace_after if isinstance(comma, cst.Comma) else space
    separator: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if isinstance(between, cst.ParenthesizedWhitespace):  # one item a line
        first = bare = cst.TrailingWhitespace(newline=between.first_line.newline)
        if isinstance(closing, cst.ParenthesizedWhitespace):
            first = closing.first_line
            closing = closing.with_changes(first_line=bare)
        separator = between.with_changes(first_line=first, empty_lines=[])
    last_comma = cst.Comma(whitespace_after=separator)
    if isinstance(comma, cst.Comma):
        last_comma = last_comma.with_changes(whitespace_before=comma.whitespace_before)
        return last_comma, cst.Comma(whitespace_after=closing), cst.SimpleWhitespace("")
    return last_comma, cst.MaybeSentinel.DEFAULT, closing


def _pass_on(
    doc: Document, finding: Finding, function: cst.FunctionDef
) -> dict[cst.CSTNode, Change]:
    """Add ``**kwargs`` to the call of the finding."""
    star = function.params.star_kwarg
    name = function.name.value
    if star is None:
        raise doc.refuse(f"{name} takes no **kwargs that could be passed on", function)
    keyword = star.name.value
    call = _call(doc, finding, function)
    if any(call in find(scope, m.Call()) for scope in _inner_scopes(function)):
        raise doc.refuse("the call is in a function of its own", call)
    for node in find(function, m.AssignTarget(target=m.Name(keyword)) | m.Del(m.Name(keyword))):
        raise doc.refuse(f"{keyword} is assigned in {name}", node)
    if any(arg.star == "**" for arg in call.args):
        raise doc.refuse("the call passes a ** already", call)
    if len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp):
        raise doc.refuse("the call's argument is a generator", call)
    changes = _accepting(doc, finding, function, call)

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Call)
        return _with_star_argument(node, keyword)

    return {**changes, call: change}


def _call(doc: Document, finding: Finding, function: cst.FunctionDef) -> cst.Call:
    """The call that the finding is about."""
    callee = finding.fix.data.get("callee", "") if finding.fix else ""
    every = [call for call in find(function, m.Call()) if isinstance(call, cst.Call)]
    named = doc.chosen([call for call in every if dotted(call.func) == callee], finding.span)
    if len(named) == 1:
        return named[0]
    starting = [call for call in named or every if doc.starts_at(call, finding.span)]
    if len(starting) != 1:
        reason = f"it is not clear which call of {callee or function.name.value} is meant"
        raise doc.refuse(reason, function)
    return starting[0]


def _inner_scopes(function: cst.FunctionDef) -> list[cst.CSTNode]:
    inner = find(function.body, m.FunctionDef() | m.Lambda() | m.ClassDef())
    return list(inner)


def _with_star_argument(call: cst.Call, keyword: str) -> cst.Call:
    star = cst.Arg(star="**", value=cst.Name(keyword))
    if not call.args:
        return call.with_changes(args=[star])
    *rest, last = call.args
    between: cst.BaseParenthesizableWhitespace | None = None
    for arg in reversed(rest):
        if isinstance(arg.comma, cst.Comma):
            between = arg.comma.whitespace_after
            break
    else:
        between = call.whitespace_before_args
    before, after, own_space = _split(last.comma, last.whitespace_after_arg, between)
    last = last.with_changes(comma=before, whitespace_after_arg=cst.SimpleWhitespace(""))
    star = star.with_changes(comma=after, whitespace_after_arg=own_space)
    return call.with_changes(args=[*rest, last, star])


def _accepting(
    doc: Document, finding: Finding, function: cst.FunctionDef, call: cst.Call
) -> dict[cst.CSTNode, Change]:
    """Changes that make the callee accept ``**kwargs``, where this file shows that it does not.

    A function of this file (the eager default of an interface lookup) is widened with the call;
    a module's forward is refused here, since it has a finding of its own.
    """
    target = dotted(call.func)
    info = doc.class_info(finding.class_name)
    own = info.find_method(target.removeprefix("self.")) if target.startswith("self.") else None
    if own and own[1].args.kwarg is None:
        raise doc.refuse(f"{target} takes no **kwargs yet", call)
    for owner in _modules_behind(info, target):
        if isinstance(owner, str):
            raise doc.refuse(f"{owner} takes no **kwargs", call)
        found = owner.find_method("forward")
        if found and found[1].args.kwarg is None:
            raise doc.refuse(f"{owner.name}.forward takes no **kwargs yet", call)
    method = info.methods.get(function.name.value)
    names = {target} | (_bound_to(method, target) if method is not None else set())
    changes: dict[cst.CSTNode, Change] = {}
    for node in doc.module.body:
        if not isinstance(node, cst.FunctionDef) or node.name.value not in names:
            continue
        if node.params.star_kwarg is None:
            changes |= _widen(doc, node)
    return changes


def _bound_to(function: FunctionNode, target: str) -> set[str]:
    """Names in what is assigned to a local."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        else:
            continue
        if any(isinstance(t, ast.Name) and t.id == target for t in targets):
            assert node.value is not None
            found |= {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
    return found


def _modules_behind(info: ClassInfo, target: str) -> list[ClassInfo | str]:
    """What ``self.x`` or a loop over ``self.layers`` may be: known classes, layers of torch."""
    forward = info.find_method("forward")
    attribute = target.removeprefix("self.") if target.startswith("self.") else ""
    if not attribute and forward is not None:
        for node in ast.walk(forward[1]):
            if isinstance(node, ast.For):
                names = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
                if target in names:
                    lists = [dotted_name(n) for n in ast.walk(node.iter)]
                    attribute = next((n[5:] for n in lists if n.startswith("self.")), "")
    assigned = info.self_assignments.get(attribute)
    if assigned is None or assigned[1] is None:
        return []
    found: list[ClassInfo | str] = []
    for node in ast.walk(assigned[1]):
        if isinstance(node, ast.Call):
            resolved = info.file.resolve(dotted_name(node.func))
            of_torch = isinstance(resolved, str) and resolved.startswith("torch.nn.")
            if isinstance(resolved, ClassInfo) or (of_torch and resolved not in CONTAINERS):
                found.append(resolved)
    return found
