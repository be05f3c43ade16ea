"""Move the loop over the experts into a module of its own: ``self.experts(hidden, ids, weights)``.

vLLM puts its fused experts in the place of a child ``experts`` and calls it with tokens, indices
and weights. The list becomes an ``nn.ModuleList`` subclass with such a forward, which leaves the
checkpoint's keys as they are. The loop must compute, for every token, the sum of its top-k
experts' outputs times their weights, and the experts must be SiLU GLUs as vLLM's are.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fixers import FixRefused
from fixers._checkpoint_names import keep_keys
from fixers._moe_experts import check_expert
from fixers._moe_ops import Term
from fixers._moe_terms import Terms
from fixers.splice import Splice, used_names, without_idle_imports
from fixers.toolkit import document, free_name, parsed
from modelcheck.findings import Finding
from modelcheck.rules.moe._blocks import EXPERTS, moe_blocks
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

CLASS = '''
class {name}({base}):
    """The experts; every token goes through its top-k ones."""

    def forward(self, hidden_states, top_k_index, top_k_weights):
        output = torch.zeros_like(hidden_states)
        for number, expert in enumerate(self):
            token, slot = torch.where(top_k_index == number)
            share = expert(hidden_states[token]) * top_k_weights[token, slot, None]
            output.index_add_(0, token, share.to(output.dtype))
        return output
'''
BLOCK_WORDS = r"(Sparse)?(Mo[eE]|MOE)?(Block|Layer|MLP|FeedForward|FFN)?$"


@dataclass
class _Plan:
    """What becomes of the statements of the forward; ``texts`` are new ones."""

    texts: dict[ast.stmt, str] = field(default_factory=dict)
    gone: list[ast.stmt] = field(default_factory=list)
    helpers: list[FunctionNode] = field(default_factory=list)


def fix(text: str, finding: Finding) -> str:
    """``text`` with the experts in a module. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    info = splice.doc.class_info(finding.class_name)
    block = next((b for b in moe_blocks(info.file) if b.info is info), None)
    forward = info.methods.get("forward")
    if block is None or forward is None:
        raise FixRefused(f"{info.name} is no block of experts", finding.span.line)
    data = finding.fix.data if finding.fix else {}
    attr = block.experts.attr
    if attr != EXPERTS and not data.get("rename"):
        raise FixRefused(
            "the experts have another name than experts: the checkpoint's keys would change",
            finding.span.line,
        )
    made = list(_lists(splice, info, attr))
    lists = [call for _, call in made]
    check_expert(splice, block.experts.child, data.get("activation", ""))
    if info.file.imports.get("torch") != "torch":
        raise FixRefused("torch is not imported as torch", finding.span.line)
    plan = _plan(splice, info, forward, attr)
    _no_other_use(splice, info, attr, plan)
    if attr != EXPERTS:
        for target, _ in made:
            splice.replace(target, f"self.{EXPERTS}")
        keep_keys(splice, info, attr, EXPERTS)
    name = _class_name(splice, info)
    for call in lists:
        splice.replace(call.func, name)
    base = splice.code(lists[0].func)
    splice.above(info.node, CLASS.format(name=name, base=base))
    for statement, new in plan.texts.items():
        if isinstance(statement, ast.For):
            _cut_comments(splice, statement)
        splice.replace_from(statement, statement, new)
    for gone in (*plan.gone, *plan.helpers):
        splice.remove(gone)
    return without_idle_imports(splice.doc, one_blank_line(splice, info.name, splice.text()))


def _cut_comments(splice: Splice, statement: ast.stmt) -> None:
    """Take out what is said about a loop that goes."""
    lines = splice.source.lines
    top = statement.lineno
    while lines[top - 2].lstrip().startswith("#"):
        top -= 1
    splice.cut(splice.offset(top, 0), splice.offset(statement.lineno, 0))


def one_blank_line(splice: Splice, name: str, text: str) -> str:
    """``text`` with no two blank lines in a row in the forward of a class."""
    after = Splice(parsed(splice.doc.path, text))
    forward = after.doc.class_info(name).methods["forward"]
    lines = after.source.lines
    for number in range(forward.lineno + 1, (forward.end_lineno or 0) + 1):
        if not lines[number - 1].strip() and not lines[number - 2].strip():
            after.cut(after.offset(number, 0), after.offset(number + 1, 0))
    return after.text()


def _lists(splice: Splice, info: ClassInfo, attr: str) -> Iterator[tuple[ast.expr, ast.Call]]:
    """Where the experts are set, and the ``nn.ModuleList(…)``. Raises `FixRefused`."""
    found = False
    for node in nodes_of(info.node):
        if not isinstance(node, ast.Assign):
            continue
        targets = [t for t in node.targets if dotted_name(t) == f"self.{attr}"]
        if not targets:
            continue
        value = node.value
        if not isinstance(value, ast.Call) or not value.args:
            raise splice.refuse("the experts are made in an unknown way", node)
        if info.file.qualify(dotted_name(value.func)) != "torch.nn.ModuleList":
            raise splice.refuse("the experts are no nn.ModuleList", node)
        found = True
        yield targets[0], value
    if not found:
        raise splice.refuse(f"{info.name} does not make its experts itself", info.node)


def _class_name(splice: Splice, info: ClassInfo) -> str:
    stem = re.sub(BLOCK_WORDS, "", info.name) or info.name
    file = info.file
    taken = {*file.classes, *file.functions, *file.imports, *file.assignments}
    return free_name([f"{stem}Experts", f"{info.name}Experts"], taken)


# The forward


def _plan(splice: Splice, info: ClassInfo, forward: FunctionNode, attr: str) -> _Plan:
    """Read the forward and say what becomes of it. Raises `FixRefused`."""
    terms = Terms(info, attr)
    for argument in forward.args.args:
        terms.local[argument.arg] = ("input", argument.arg)
    plan = _Plan()
    body = forward.body
    end = _rewrite(splice, terms, body, plan)
    _drop_idle(body[:end], forward, plan)
    _drop_overwritten(body[:end], body[end], plan)
    _nothing_missing(splice, forward, plan)
    return plan


def _nothing_missing(splice: Splice, forward: FunctionNode, plan: _Plan) -> None:
    """Raise `FixRefused` where what stays reads a name that only went with the loop."""
    gone = {*plan.gone, *plan.texts}
    read, kept = _loads(forward, gone), {a.arg for a in forward.args.args}
    for text in plan.texts.values():
        code = ast.parse(textwrap.dedent(text))
        read |= used_in(text)
        kept |= _stored(code.body)
    stay = [n for n in _nodes(forward, gone) if isinstance(n, ast.Name)]
    kept |= {n.id for n in stay if not isinstance(n.ctx, ast.Load)}
    missing = read & _stored(gone) - kept
    if missing:
        use = next((n for n in stay if n.id in missing), forward)
        raise splice.refuse(f"{sorted(missing)[0]} of the loop is used after it", use)


def _rewrite(splice: Splice, terms: Terms, body: Sequence[ast.stmt], plan: _Plan) -> int:
    """Read statements until the experts' sum is there; the index of the one that has it."""
    for index, statement in enumerate(body):
        if isinstance(statement, ast.If) and _mentions_experts(statement, terms):
            if not _is_training(statement.test):
                raise splice.refuse("the experts are used under a condition", statement)
            plan.texts[statement] = _both(splice, terms, statement, plan)
            return index
        before = dict(terms.local)
        terms.step(statement)
        if terms.helpers:
            call, method, moe = terms.helpers[-1]
            plan.texts[statement] = _with_call(splice, statement, call, _call(before, moe, call))
            plan.helpers.append(method)
            return index
        summed = [n for n, v in terms.local.items() if v[:1] == ("moe",) and before.get(n) != v]
        if summed:
            if len(summed) > 1:
                raise splice.refuse("the experts are summed more than once", statement)
            call_text = _call(before, terms.local[summed[0]], statement)
            plan.texts[statement] = f"{summed[0]} = {call_text}"
            return index
        if isinstance(statement, ast.For) and terms.is_over_experts(statement):
            plan.gone.append(statement)  # what it collects is summed later
    at = next((s for s in body if _mentions_experts(s, terms)), body[0])
    raise splice.refuse("what is done with the experts' outputs is not understood", at)


def _mentions_experts(node: ast.AST, terms: Terms) -> bool:
    """Does code use the experts, itself or through a method?"""
    for inner in ast.walk(node):
        if is_self_attribute(inner, "self"):
            name = getattr(inner, "attr", "")
            method = terms.info.methods.get(name)
            if name == terms.experts or (method is not None and _mentions_experts(method, terms)):
                return True
    return False


def _is_training(test: ast.expr) -> bool:
    inner = test.operand if isinstance(test, ast.UnaryOp) else test
    return dotted_name(inner) == "self.training"


def _both(splice: Splice, terms: Terms, branch: ast.If, plan: _Plan) -> str:
    """One text for ``if self.training: … else: …`` whose sides compute the same sum.

    What the side for training does with the sum afterwards stays under its condition.
    """
    training, serving = branch.body, branch.orelse
    if isinstance(branch.test, ast.UnaryOp):
        training, serving = serving, training
    if not training or not serving:
        raise splice.refuse("the experts are used in training only, or in serving only", branch)
    outer = dict(terms.local)
    inner = _Plan()
    at = _rewrite(splice, terms, serving, inner)
    terms.run(list(serving[at + 1 :]))
    results = {n: v for n, v in terms.local.items() if v[:1] in (("moe",), ("shaped",))}
    moes = {v if v[0] == "moe" else v[1] for v in results.values()}
    if len(moes) != 1:
        raise splice.refuse("what is done with the experts' outputs is not understood", branch)
    other = Terms(terms.info, terms.experts, outer)
    reached = -1
    for index, statement in enumerate(training):
        other.step(statement)
        if all(other.local.get(name) == value for name, value in results.items()):
            reached = index
    if reached < 0:
        raise splice.refuse("training uses the experts in another way", training[0])
    kept = training[reached + 1 :]
    made = _stored(training[: reached + 1]) - set(results)
    if made & {n for s in kept for n in used_names(s)}:
        raise splice.refuse("training goes on with what the loop leaves behind", kept[0])
    _drop_idle(serving[:at], branch, inner)
    plan.helpers += inner.helpers
    texts = [_dedented(splice, s, inner) for s in serving if s not in inner.gone]
    if kept:
        lines = [textwrap.indent(_dedented(splice, s, inner), "    ") for s in kept]
        texts += ["if self.training:", *lines]
    return splice.newline.join(texts).replace("\r\n", "\n")


def _dedented(splice: Splice, statement: ast.stmt, plan: _Plan) -> str:
    if statement in plan.texts:
        return plan.texts[statement]
    code = splice.indent(statement) + splice.code(statement)
    return textwrap.dedent(code.replace("\r\n", "\n"))


def _with_call(splice: Splice, statement: ast.stmt, call: ast.Call, new: str) -> str:
    """A statement's text with another call in the place of one."""
    start = splice.span(statement)[0]
    first, last = splice.span(call)
    code = splice.code(statement)
    result = code[: first - start] + new + code[last - start :]
    return textwrap.dedent(splice.indent(statement) + result.replace("\r\n", "\n"))


def _call(local: Mapping[str, Term], moe: Term, node: ast.AST) -> str:
    """The call of the new module. Raises `FixRefused`."""
    _, tokens, ids, weights = moe
    names = []
    for what, term in (("tokens", tokens), ("indices", ids), ("weights", weights)):
        name = next((n for n, v in local.items() if v == term), "")
        if not name and term[0] == "flat":
            inner = next((n for n, v in local.items() if v == term[1]), "")
            name = f"{inner}.view(-1, {inner}.shape[-1])" if inner else ""
        if not name:
            line = getattr(node, "lineno", None)
            raise FixRefused(f"the {what} of the experts have no name of their own", line)
        names.append(name)
    return f"self.{EXPERTS}({', '.join(names)})"


def _stored(statements: Iterable[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }


def _drop_idle(before: Sequence[ast.stmt], scope: ast.AST, plan: _Plan) -> None:
    """Take out assignments that only fed what is gone."""
    gone_with = [*plan.gone, *plan.texts]
    while True:
        left = _loads(scope, {*plan.gone, *plan.texts})
        for text in plan.texts.values():
            left |= used_in(textwrap.dedent(text))
        fed = {n for s in gone_with for n in used_names(s)}
        idle = [
            s
            for s in before
            if s not in plan.gone
            and s not in plan.texts
            and _is_plain(s)
            and _stored([s]) <= fed - left
        ]
        if not idle:
            return
        plan.gone += idle
        gone_with += idle


def _drop_overwritten(before: Sequence[ast.stmt], made: ast.stmt, plan: _Plan) -> None:
    """Take out the last value of a name that the new statement writes, if nothing reads it."""
    text = textwrap.dedent(plan.texts[made])
    for name in _stored(ast.parse(text).body) - used_in(text):
        for statement in reversed(before):
            if statement in plan.gone:
                continue
            if name in _stored([statement]):
                if _is_plain(statement) and _stored([statement]) == {name}:
                    plan.gone.append(statement)
                break
            if name in used_names(statement):
                break


def used_in(text: str) -> set[str]:
    """The names that code reads."""
    return _loads(ast.parse(textwrap.dedent(text)), set())


def _is_plain(statement: ast.stmt) -> bool:
    """An assignment to names whose value calls no module of the block."""
    if not isinstance(statement, ast.Assign) or not _stored([statement]):
        return False
    if any(isinstance(n, ast.Attribute) for t in statement.targets for n in ast.walk(t)):
        return False
    calls = (n for n in ast.walk(statement.value) if isinstance(n, ast.Call))
    return not any(is_self_attribute(c.func, "self") for c in calls)


def _loads(scope: ast.AST, without: set[ast.stmt]) -> set[str]:
    """Names read in a function, some statements left out."""
    found: set[str] = set()
    for node in _nodes(scope, without):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def _nodes(scope: ast.AST, without: set[ast.stmt]) -> Iterator[ast.AST]:
    stack: list[ast.AST] = [scope]
    while stack:
        node = stack.pop()
        if node not in without:
            yield node
            stack.extend(ast.iter_child_nodes(node))


def _no_other_use(splice: Splice, info: ClassInfo, attr: str, plan: _Plan) -> None:
    """Raise `FixRefused` where the experts are still a list to other code of the file."""
    removed = [*plan.gone, *plan.texts, *plan.helpers]
    names = {h.name for h in plan.helpers}
    inside = {node for statement in removed for node in nodes_of(statement)}
    for node in nodes_of(splice.tree):
        if node in inside or not isinstance(node, ast.Attribute):
            continue
        if node.attr in names:
            raise splice.refuse(f"{node.attr} is used elsewhere", node)
        if node.attr != attr or not isinstance(node.ctx, ast.Load):
            continue
        parent = splice.parent(node)
        as_list = isinstance(parent, ast.Subscript | ast.For | ast.comprehension) or (
            isinstance(parent, ast.Call) and parent.func is not node
        )
        own = any(node in set(nodes_of(c.node)) for c in info.mro)
        if own or as_list:
            raise splice.refuse("the experts are used elsewhere as a list", node)
