"""Attention computed in place becomes one call of the attention interface.

The statements that compute it move, as they are, into a module-level eager function: the order
of operations, the float32 softmax, the dropout and the clamps stay this model's own. The forward
binds ``ALL_ATTENTION_FUNCTIONS.get_interface(name, eager)`` to a local and calls it once. Under
the implementation "eager" the numbers are the same; another one gives its own, and no weights.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import libcst as cst
import libcst.matchers as m

from fixers import FixRefused, hoist_scaling
from fixers._attention_eager import (
    TRANSPOSE,
    WINDOW,
    Eager,
    as_module,
    assigned,
    define,
    dropout_of,
    eager_for_region,
    groups_of,
    output_changes,
    scaling_of,
    softcap_of,
    with_window,
)
from fixers._attention_eval import Evaluator, Kind, NotUnderstood, Value
from fixers._attention_leftovers import without_idle_locals, without_leftovers
from fixers._attention_parts import (
    Block,
    Names,
    Region,
    blocks,
    check_groups,
    core_of,
    has_softmax,
    kernel_calls,
    kernel_of,
    later_statements,
    local_names,
    mask_values,
    pair,
    parameters,
    read_region,
)
from fixers._attention_simple import (
    OTHER_SEQUENCE,
    always_crosses,
    always_read,
    decided,
    simplified,
    unchecked,
    with_causality,
)
from fixers.imports import with_import
from fixers.layer_idx import with_config
from fixers.thread_kwargs import with_star_kwarg
from fixers.toolkit import Change, Document, document, find, free_name, self_attribute
from modelcheck.findings import Finding, Fix, Span
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

TABLE = "ALL_ATTENTION_FUNCTIONS"
MODULE = "transformers.modeling_utils"
KEY = "_attn_implementation"
LOCAL = "attention_interface"
WIDTH = 100


def fix(text: str, finding: Finding) -> str:
    """``text`` with the class of the finding calling the interface. Raises `FixRefused`."""
    new = convert(document(text, finding), finding, finding.class_name)
    return without_leftovers(text, new, finding)


def convert(doc: Document, finding: Finding, name: str) -> str:
    """The text with the class ``name`` calling the interface. Raises `FixRefused`."""
    try:
        new, computed = _converted(doc, name)
    except NotUnderstood as stop:
        new, computed = _simplified(doc, finding, name, stop)
    if not _knows_config(document(new, finding), name):
        new = with_config(new, finding, name)
    new = with_causality(document(new, finding), name)
    new = without_idle_locals(document(new, finding), name)
    return _hoisted(new, finding, name) if computed else new


def _simplified(
    doc: Document, finding: Finding, name: str, stop: NotUnderstood
) -> tuple[str, bool]:
    """The same of a text that says it in simpler statements. Raises `FixRefused`."""
    reason, line, text = stop.reason, stop.line, doc.text
    data = finding.fix.data if finding.fix is not None else {}
    settings = json.loads(data.get("settings", "{}"))
    for step in (simplified, unchecked, partial(decided, settings=settings)):
        simple = step(document(text, finding), name)
        if simple == text:
            continue
        text = simple
        try:
            return _converted(document(text, finding), name)
        except NotUnderstood as other:
            reason, line = other.reason, doc.line(doc.method(doc.class_def(name), "forward"))
    raise FixRefused(reason, line) from None


def _knows_config(doc: Document, name: str) -> bool:
    """Does a class keep a configuration that it is always given?"""
    info = doc.class_info(name)
    init = info.find_method("__init__")
    if init is None or "config" not in info.self_assignments:
        return False
    given = init[1].args
    optional = [a.arg for a in given.args[len(given.args) - len(given.defaults) :]]
    return "config" not in [*optional, *(a.arg for a in given.kwonlyargs)]


def _hoisted(text: str, finding: Finding, name: str) -> str:
    """The scale of the interface call as an attribute. Raises `FixRefused`."""
    doc = document(text, finding)
    line = doc.line(doc.method(doc.class_def(name), "forward"))
    placed = Finding(
        code=finding.code,
        severity=finding.severity,
        path=finding.path,
        span=Span(line),
        class_name=name,
        message=finding.message,
        advice=finding.advice,
        fix=Fix("hoist_scaling", "Hoist the scale", data={"keyword": "scaling"}),
    )
    try:
        return hoist_scaling.fix(text, placed)
    except FixRefused as refusal:
        raise FixRefused(f"the scale cannot be an attribute: {refusal.reason}") from None


@dataclass
class _Site:
    """The class, its forward in both views, and the changes so far."""

    doc: Document
    owner: cst.ClassDef
    info: ClassInfo
    method: cst.FunctionDef
    function: FunctionNode
    twins: dict[ast.stmt, cst.CSTNode]
    changes: dict[cst.CSTNode, Change] = field(default_factory=dict)
    gone: list[cst.CSTNode] = field(default_factory=list)  # their comments may go


def _converted(doc: Document, name: str) -> tuple[str, bool]:
    """The new text, and whether its scale is still computed in forward."""
    owner, info = doc.class_def(name), doc.class_info(name)
    method = doc.method(owner, "forward")
    function = info.methods["forward"]
    assert isinstance(method.body, cst.IndentedBlock)
    site = _Site(doc, owner, info, method, function, pair(method.body.body, function.body))
    _check_class(site)
    eager = _inline(site) or _helper(site)
    if eager is None:
        raise NotUnderstood("no computation of attention is found in forward", function)
    computed = not _is_settled(eager.scaling)
    _reshaped(site)
    _stored(site, eager)
    if eager.definition is not None:
        definition = eager.definition

        def with_eager(node: cst.CSTNode) -> cst.FlattenSentinel[cst.CSTNode]:
            return cst.FlattenSentinel([definition, node])

        site.changes[owner] = with_eager
    if method.params.star_kwarg is None:

        def widened(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.Parameters)
            return with_star_kwarg(node)

        site.changes[method.params] = widened
    return with_import(doc, site.changes, MODULE, TABLE, gone=site.gone), computed


def _is_settled(scaling: str) -> bool:
    tree = ast.parse(scaling, mode="eval").body
    return isinstance(tree, ast.Constant) or dotted_name(tree).startswith("self.")


def _check_class(site: _Site) -> None:
    """Refuse what no interface call can express."""
    if "crossattention" in site.info.name.lower():
        raise NotUnderstood("this is cross-attention", site.function)
    table = _table_of(site)
    if table:
        raise NotUnderstood(f"{site.info.name} goes when {table} goes", site.info.node)
    defaults = site.function.args
    required = parameters(site.function)[: len(defaults.args) - len(defaults.defaults)]
    for name in required:
        if name in (*OTHER_SEQUENCE, "alibi", "position_bias"):
            raise NotUnderstood(f"forward needs {name}", site.function)
    for name in set(parameters(site.function)) & set(OTHER_SEQUENCE):
        where = always_read(site.function, name) or always_crosses(site.doc.index, site.info, name)
        if where is not None:
            reason = f"{name} is used there: keys of another sequence (cross-attention)"
            raise NotUnderstood(reason, where)
    for node in ast.walk(site.function):
        if isinstance(node, ast.Name) and node.id == TABLE:
            raise NotUnderstood("forward reads the interface already", node)
        if isinstance(node, ast.Name) and "alibi" in node.id:
            raise NotUnderstood(f"{node.id} is a bias that the interface cannot express", node)


def _table_of(site: _Site) -> str:
    """The table of this file that has the class beside the eager one."""
    for table, value in site.doc.index.assignments.items():
        if not isinstance(value, ast.Dict):
            continue
        pairs = zip(value.keys, value.values, strict=True)
        entries = {k.value: dotted_name(v) for k, v in pairs if isinstance(k, ast.Constant)}
        name = site.info.name
        if name in entries.values() and entries.get("eager", name) != name:
            return table
    return ""


# Attention in the forward itself


def _inline(site: _Site) -> Eager | None:
    found = _block(site)
    if found is None:
        return None
    block, at, names = found
    region = read_region(site.info, site.function, block, at, names)
    _check_weights(site, region)
    taken = set(site.doc.index.functions) | set(site.doc.index.imports)
    name = free_name(["eager_attention_forward"], taken)
    eager = eager_for_region(site.doc, site.info, site.function, region, site.twins, name)
    eager, name = _shared(site, eager, name)
    if eager.definition is None:
        site.gone += [site.twins[s] for s in region.moved]
    statements = _call(site, region, eager, name)
    keep = [
        s
        for s in block.statements[: region.end]
        if s not in region.dropped and (s not in region.moved or s in region.copied)
    ]
    place = next(s for s in block.statements if s in region.moved)
    for statement in block.statements[: region.end]:
        node = site.twins[statement]
        if statement is (_last_of(block, region)):
            continue
        if statement not in keep:
            site.changes[node] = lambda _: cst.RemoveFromParent()
    for statement in region.dropped:
        site.gone.append(site.twins[statement])
    last = site.twins[_last_of(block, region)]
    kept_last = _last_of(block, region) in keep
    lines = _blank_before(site.twins[place])

    def calling(node: cst.CSTNode) -> cst.FlattenSentinel[cst.CSTNode]:
        first = statements[0].with_changes(leading_lines=lines)
        return cst.FlattenSentinel([*([node] if kept_last else []), first, *statements[1:]])

    site.changes[last] = calling
    site.changes |= output_changes(
        site.doc,
        site.function,
        site.info,
        region.out,
        later_statements(site.function, region),
        site.twins,
        transposed=region.transposed,
    )
    if block.branch_of is not None:
        _unbranch(site, block)
    return eager


def _shared(site: _Site, eager: Eager, name: str) -> tuple[Eager, str]:
    """The eager function of another class instead of a new one with the same text."""
    for node in site.doc.module.body:
        if isinstance(node, cst.FunctionDef) and eager.definition is not None:
            named = eager.definition.with_changes(name=node.name, leading_lines=node.leading_lines)
            if site.doc.code(named) == site.doc.code(node):
                return replace(eager, definition=None), node.name.value
    return eager, name


def _last_of(block: Block, region: Region) -> ast.stmt:
    """The last statement of the region: the calls take its place."""
    return block.statements[region.end - 1]


def _blank_before(node: cst.CSTNode) -> list[cst.EmptyLine]:
    """The blank line above a statement; its comments move with it."""
    lines = list(getattr(node, "leading_lines", ()))
    return [lines[0].with_changes(comment=None)] if lines and lines[0].comment is None else []


def _block(site: _Site) -> tuple[Block, int, Names] | None:
    """The one block that computes attention. Raises `NotUnderstood` for several."""
    every = list(blocks(site.function.body))
    eager = [(b, *found) for b in every if (found := core_of(b)) is not None]
    inner = [e for e in eager if e[0].branch_of is not None]
    kernels = [(b, *found) for b in every if (found := kernel_of(b, site.info)) is not None]
    if not eager and not kernels:
        if any(has_softmax(s) or _kernels(site, s) for s in site.function.body):
            raise NotUnderstood("the form of this attention is not known", site.function)
        return None
    chosen = inner or eager or kernels
    if len(chosen) > 1:
        where = chosen[1][0].statements[chosen[1][1]]
        raise NotUnderstood("attention is computed in more than one place", where)
    block, at, names = chosen[0]
    inside = [n for s in block.statements for n in kernel_calls(s)]
    if eager and inside:
        raise NotUnderstood("eager attention and a kernel are in one block", inside[0])
    outside = [
        n
        for s in site.function.body
        if s not in block.statements and s is not block.branch_of
        for n in [*kernel_calls(s), *([s] if has_softmax(s) else [])]
    ]
    if outside:
        raise NotUnderstood("attention is computed in more than one place", outside[0])
    if block.branch_of is not None:
        other = block.branch_of.body if block.in_else else block.branch_of.orelse
        if not any(kernel_calls(s) for s in other):
            raise NotUnderstood("attention is computed under a condition", block.branch_of)
    return block, at, names


def _kernels(site: _Site, statement: ast.stmt) -> list[ast.AST]:
    """The calls of kernels in a statement, without those of this file's own functions."""
    own = site.doc.index.functions
    return [n for n in kernel_calls(statement) if dotted_name(n.func) not in own]  # type: ignore[attr-defined]


def _unbranch(site: _Site, block: Block) -> None:
    """The branch takes the place of its ``if``; the kernel's branch goes."""
    assert block.branch_of is not None
    node = site.twins[block.branch_of]
    assert isinstance(node, cst.If)
    other: cst.CSTNode | None = node.body if block.in_else else node.orelse
    if other is not None:
        site.gone.append(other)

    def flat(new: cst.CSTNode) -> cst.FlattenSentinel[cst.CSTNode]:
        assert isinstance(new, cst.If)
        suite = new.orelse.body if block.in_else and new.orelse is not None else new.body
        assert isinstance(suite, cst.IndentedBlock)
        first, *rest = suite.body
        assert isinstance(first, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        lines = [*new.leading_lines, *(x for x in first.leading_lines if x.comment is not None)]
        return cst.FlattenSentinel([first.with_changes(leading_lines=lines), *rest])

    site.changes[node] = flat


def _check_weights(site: _Site, region: Region) -> None:
    """Refuse when the weights are more than returned."""
    if not region.weights:
        return
    for statement in later_statements(site.function, region):
        _only_returned(statement, region.weights)


def _only_returned(node: ast.AST, name: str) -> None:
    joins = isinstance(node, ast.BinOp) and isinstance(node.right, ast.Tuple)
    computes = isinstance(node, ast.Call | ast.Subscript | ast.BinOp | ast.Attribute) and not joins
    if computes and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node)):
        raise NotUnderstood(f"the weights {name} are used", node)
    for child in ast.iter_child_nodes(node):
        _only_returned(child, name)


# Attention in a method, or in an eager function that is called directly


@dataclass(frozen=True)
class _Called:
    """The one statement that calls a function which computes attention."""

    statement: ast.stmt
    targets: tuple[str, ...]
    call: ast.Call
    function: FunctionNode
    method: str = ""  # the method's name, "" for a module-level function
    plain: bool = False  # a function that is not given the module


def _helper(site: _Site) -> Eager | None:
    called = _called(site)
    if called is None:
        return None
    if called.method or called.plain:
        return _from_method(site, called)
    return _from_function(site, called)


def _called(site: _Site) -> _Called | None:
    found: list[tuple[Block, _Called]] = []
    for block in blocks(site.function.body):
        for statement in block.statements:
            if isinstance(statement, ast.If):
                continue
            for node in ast.walk(statement):
                helper = _target(site, node)
                if helper is None or not (has_softmax(helper[0]) or kernel_calls(helper[0])):
                    continue
                match statement:
                    case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(a), ast.Name(b)])], value=v):
                        if v is node and isinstance(node, ast.Call):
                            plain = not helper[1] and not _passes_self(node)
                            found.append((block, _Called(statement, (a, b), node, *helper, plain)))
                            continue
                raise NotUnderstood("the call that computes attention has another form", statement)
    if not found:
        return None
    if len(found) == 1 and found[0][0].branch_of is None:
        return found[0][1]
    return _either(site, found)


def _either(site: _Site, found: Sequence[tuple[Block, _Called]]) -> _Called:
    """Of two helpers under a setting, the one without it; the other stays for "eager" only."""
    match found:
        case [
            (Block(branch_of=ast.If() as one, in_else=False) as block, first),
            (second_block, second),
        ]:
            alone = len(block.statements) == len(second_block.statements) == 1
            same = first.targets == second.targets and first.method and second.method
            plain = dotted_name(one.test).startswith("self.")
            if second_block.branch_of is one and second_block.in_else and alone and same and plain:
                _only_eager(site, one, first)
                return second
    raise NotUnderstood("attention is computed under a condition", found[0][1].statement)


def _only_eager(site: _Site, branch: ast.If, called: _Called) -> None:
    node = site.twins[branch]
    assert isinstance(node, cst.If)
    test = f'{ast.unparse(branch.test)} and self.config.{KEY} == "eager"'
    out = called.targets[0]
    swap = site.doc.statement(f"{out} = {out}{TRANSPOSE}")
    site.changes[node.test] = lambda _: site.doc.expression(test)
    site.changes[site.twins[called.statement]] = lambda new: cst.FlattenSentinel([new, swap])


def _target(site: _Site, node: ast.AST) -> tuple[FunctionNode, str] | None:
    """The method or function that a call runs."""
    if not isinstance(node, ast.Call):
        return None
    name = dotted_name(node.func)
    if name.startswith("self.") and name.count(".") == 1:
        method = site.info.methods.get(name[5:])
        return (method, name[5:]) if method is not None else None
    function = site.doc.index.functions.get(name)
    own = function is not None and (_passes_self(node) or has_softmax(function))
    return (function, "") if function is not None and own else None


def _passes_self(call: ast.Call) -> bool:
    return bool(call.args) and dotted_name(call.args[0]) == "self"


def _evaluated(site: _Site, function: FunctionNode, self_name: str) -> tuple[Evaluator, Names]:
    """The evaluation of a whole function. Raises `NotUnderstood`."""
    body = [s for s in function.body if not _is_docstring(s)]
    found = core_of(Block(tuple(body)))
    given = parameters(function)
    if found is None or not {found[1].query, found[1].key, found[1].value} <= set(given):
        raise NotUnderstood(f"the form of {function.name} is not known", function)
    env = mask_values(function) | found[1].env()
    inner = local_names(function) - set(given)
    ev = Evaluator(site.info, env, inner.__contains__, self_name)
    ev.run(body)
    check_groups(ev.facts, function)
    if ev.returned is None:
        raise NotUnderstood(f"{function.name} does not return output and weights", function)
    return ev, found[1]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _from_method(site: _Site, called: _Called) -> Eager:
    """The method becomes the eager function."""
    function = called.function
    method = _definition(site, called)
    ev, names = _evaluated(site, function, "self")
    masks = mask_values(function)
    order = parameters(function)[0 if called.plain else 1 :]
    passed = _passed(called, order)
    plain = [n for n in order if masks.get(n, Value(Kind.PLAIN)).kind is Kind.MASK]
    heads = [n for n in order if masks.get(n, Value(Kind.PLAIN)).kind is Kind.HEAD_MASK]
    rest = set(order) - {names.query, names.key, names.value, *plain, *heads}
    if rest:
        raise NotUnderstood(f"{function.name} takes {', '.join(sorted(rest))}", function)
    plain.sort(key=lambda name: name != "attention_mask")  # the others beside it
    heads = [*plain[1:], *heads]
    body = [s for s in function.body if not _is_docstring(s)]
    scaling, settings = scaling_of(site.doc, site.info, ev.facts, assigned(body))
    name = free_name(
        ["eager_attention_forward"],
        set(site.doc.index.functions) | set(site.doc.index.imports),
    )
    given = [names.query, names.key, names.value, plain[0] if plain else "attention_mask"]
    definition = define(site.doc, name, given, heads, _method_body(site, method, function, ev))
    eager = Eager(
        definition,
        scaling,
        dropout_of(ev.facts),
        groups_of(ev.facts, assigned(body)),
        settings,
        softcap_of(ev.facts),
    )
    eager = with_window(site.doc, site.info, ev.facts, eager)
    arguments = [ast.unparse(passed[n]) if n in passed else "None" for n in given]
    keywords = [(n, ast.unparse(passed[n])) for n in heads if n in passed]
    _replace_call(site, called, arguments, keywords, eager, name)
    if not _is_used_elsewhere(site, called):
        site.changes[method] = lambda _: cst.RemoveFromParent()
    return eager


def _definition(site: _Site, called: _Called) -> cst.FunctionDef:
    if called.method:
        return site.doc.method(site.owner, called.method)
    for node in site.doc.module.body:
        if isinstance(node, cst.FunctionDef) and node.name.value == called.function.name:
            return node
    raise NotUnderstood(f"{called.function.name} is not at the top of this file", called.call)


def _passed(called: _Called, order: Sequence[str]) -> dict[str, ast.expr]:
    passed = dict(zip(order, called.call.args, strict=False))
    passed |= {k.arg: k.value for k in called.call.keywords if k.arg}
    if len(passed) != len(called.call.args) + len(called.call.keywords):
        raise NotUnderstood("the call that computes attention has another form", called.call)
    return passed


def _method_body(
    site: _Site, method: cst.FunctionDef, function: FunctionNode, ev: Evaluator
) -> list[cst.BaseStatement]:
    assert isinstance(method.body, cst.IndentedBlock) and ev.returned is not None
    nodes = list(method.body.body)
    if _is_docstring(function.body[0]):
        nodes = nodes[1:]
    moved = as_module(nodes, ev.facts)
    last = function.body[-1]
    if not (isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple)):
        raise NotUnderstood(f"{function.name} does not end with its result", last)
    output, weights = (ast.unparse(e) for e in last.value.elts)
    if ev.eval(ev.returned[0]).kind is Kind.OUTPUT:
        if output.isidentifier():
            moved.insert(-1, site.doc.statement(f"{output} = {output}{TRANSPOSE}"))
        else:
            simple = isinstance(last.value.elts[0], ast.Call)
            output = f"{output}{TRANSPOSE}" if simple else f"({output}){TRANSPOSE}"
            new = site.doc.statement(f"return {output}, {weights}")
            moved[-1] = new.with_changes(leading_lines=getattr(moved[-1], "leading_lines", ()))
    return moved


def _replace_call(
    site: _Site,
    called: _Called,
    arguments: Sequence[str],
    keywords: Sequence[tuple[str, str]],
    eager: Eager,
    name: str,
) -> None:
    out, weights = called.targets
    first, second = interface_statements(
        site,
        f"{out}, {weights}",
        arguments,
        keywords,
        eager,
        name,
        nested=called.statement not in site.function.body,
    )
    node = site.twins[called.statement]
    lines = getattr(node, "leading_lines", ())
    site.changes[node] = lambda _: cst.FlattenSentinel(
        [first.with_changes(leading_lines=lines), second]
    )
    body = site.function.body
    place = next(i for i, s in enumerate(body) if called.statement in ast.walk(s))
    later = body[place + 1 :]
    for statement in later:
        _only_returned(statement, weights)
    site.changes |= output_changes(
        site.doc, site.function, site.info, out, later, site.twins, transposed=False
    )


def _is_used_elsewhere(site: _Site, called: _Called) -> bool:
    """Is the method named anywhere but in the call that is replaced?"""
    tree = site.doc.index.source.tree
    if called.plain:
        name = called.function.name
        found = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
        return any(node is not called.call.func for node in found)
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == called.method]
    return any(node is not called.call.func for node in uses)


def _from_function(site: _Site, called: _Called) -> Eager:
    """The function is an eager function already: look it up instead of calling it."""
    function = called.function
    order = parameters(function)
    copy = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(copy, ast.FunctionDef)
    ev, names = _evaluated(site, function, order[0])
    masks = mask_values(function)
    wanted = [order[0], names.query, names.key, names.value]
    mask = order[4] if len(order) > 4 else ""
    fits = order[:4] == wanted and mask in masks and {"scaling", "dropout"} <= set(order)
    if not fits or function.args.kwarg is None or ev.returned is None:
        raise NotUnderstood(f"{function.name} is not called as the interface is", function)
    if ev.eval(ev.returned[0]).kind is not Kind.OUTPUT_T:
        raise NotUnderstood(f"{function.name} does not return [batch, length, heads]", function)
    passed = _passed(called, order)
    for name in ("scaling",):
        if name not in passed:
            raise NotUnderstood(f"{function.name} is not given {name}", called.call)
    arguments = [ast.unparse(passed[n]) for n in order[1:5]]
    rest = [n for n in order[5:] if n in passed and n not in ("scaling", "dropout")]
    keywords = [(n, ast.unparse(passed[n])) for n in rest]
    dropout = ast.unparse(passed["dropout"]) if "dropout" in passed else ""
    eager = Eager(None, ast.unparse(passed["scaling"]), dropout)
    statements = interface_statements(
        site, ", ".join(called.targets), arguments, keywords, eager, function.name
    )
    node = site.twins[called.statement]
    lines = getattr(node, "leading_lines", ())
    first = statements[0].with_changes(leading_lines=lines)
    site.changes[node] = lambda _: cst.FlattenSentinel([first, *statements[1:]])
    return eager


def _call(site: _Site, region: Region, eager: Eager, name: str) -> list[cst.SimpleStatementLine]:
    names = region.names
    mask = region.masks[0] if region.masks else _mask_parameter(site)
    arguments = [names.query, names.key, names.value, mask]
    keywords = [(n, n) for n in region.head_masks]
    target = f"{region.out}, {region.weights or '_'}"
    return interface_statements(site, target, arguments, keywords, eager, name)


def _mask_parameter(site: _Site) -> str:
    return next((n for n in parameters(site.function) if n == "attention_mask"), "None")


def interface_statements(
    site: _Site,
    target: str,
    arguments: Sequence[str],
    keywords: Sequence[tuple[str, str]],
    eager: Eager,
    name: str,
    *,
    nested: bool = False,
) -> list[cst.SimpleStatementLine]:
    """The lookup and the call, laid out for the column they stand in."""
    used = {n.id for n in ast.walk(site.function) if isinstance(n, ast.Name)}
    local = free_name([LOCAL], used)
    column = site.doc.column(site.method) + len(site.doc.module.default_indent)
    column += len(site.doc.module.default_indent) if nested else 0
    star = site.method.params.star_kwarg
    items = ["self", *arguments]
    if eager.dropout:
        items.append(f"dropout={eager.dropout}")
    items.append(f"scaling={eager.scaling}")
    if eager.window or WINDOW in site.info.self_assignments:
        items.append("sliding_window=self.sliding_window")
    if eager.softcap:
        items.append(f"softcap={eager.softcap}")
    items += [f"{key}={value}" for key, value in keywords]
    items.append(f"**{star.name.value if star is not None else 'kwargs'}")
    indent = site.doc.module.default_indent
    lookup = f"{local} = {TABLE}.get_interface("
    key = [f"self.config.{KEY}", name]
    return [
        site.doc.statement(_laid_out(lookup, key, indent, column)),
        site.doc.statement(_laid_out(f"{target} = {local}(", items, indent, column)),
    ]


def _laid_out(head: str, items: Sequence[str], indent: str, column: int) -> str:
    one = f"{head}{', '.join(items)})"
    if column + len(one) <= WIDTH:
        return one
    inner = ", ".join(items)
    if column + len(indent) + len(inner) <= WIDTH:
        return f"{head}\n{indent}{inner}\n)"
    return f"{head}\n" + "".join(f"{indent}{item},\n" for item in items) + ")"


# What tensor parallelism and vLLM need beside the call


def _reshaped(site: _Site) -> None:
    """Head counts in 4-d views become -1: under tensor parallelism a rank has fewer."""
    shape = m.Call(func=m.Attribute(attr=m.Name("view") | m.Name("reshape")))
    moved = {id(n) for node in site.gone for n in find(node, shape)}
    for node in find(site.method, shape):
        assert isinstance(node, cst.Call)
        if len(node.args) != 4 or id(node) in moved or any(a.star or a.keyword for a in node.args):
            continue
        third, fourth = node.args[2].value, node.args[3].value
        minus = any(isinstance(a.value, cst.UnaryOperation) for a in node.args)
        if self_attribute(third) and self_attribute(fourth) and not minus:
            site.changes.setdefault(third, lambda _: cst.parse_expression("-1"))


def _stored(site: _Site, eager: Eager) -> None:
    """Keep what the constructor receives and the interface reads: config, layer_idx, groups."""
    known = site.info.self_assignments
    init = site.info.find_method("__init__")
    if init is None:
        raise NotUnderstood("the class has no __init__", site.info.node)
    given = parameters(init[1])
    lines = []
    if "config" not in known and "config" in given:
        lines.append("self.config = config")
    if "layer_idx" not in known and "layer_idx" in given:
        lines.append("self.layer_idx = layer_idx")
    groups = eager.groups
    if groups and "num_key_value_groups" not in known:
        lines.append(f"self.num_key_value_groups = {groups}")
    lines += eager.settings
    for line in lines:
        for node, change in site.doc.append_to_init(site.owner, line).items():
            earlier = site.changes.get(node)
            site.changes[node] = change if earlier is None else _both(earlier, change)


def _both(first: Change, second: Change) -> Change:
    def change(
        node: cst.CSTNode,
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        new = first(node)
        assert isinstance(new, cst.CSTNode)
        return second(new)

    return change
