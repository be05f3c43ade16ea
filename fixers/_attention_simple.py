"""What is done before attention is read: forms that say the same in simpler statements.

Also what a class of attention is built for: its own sequence, another one, or either.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from fixers._attention_eval import is_check
from fixers._attention_parts import has_softmax
from fixers.splice import Splice, names, parameters
from fixers.toolkit import Document, free_name
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode, is_self_attribute

OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states")  # what cross-attention is given
ASKED = "output_attentions"
CAUSAL = "is_causal"
NO_PLACE = "the attention interface cannot add this to its scores"


def simplified(doc: Document, name: str) -> str:
    """The text with the forward of a class in simpler statements, the same text without any."""
    forward = doc.class_info(name).methods.get("forward")
    if forward is None:
        return doc.text
    splice = Splice(doc)
    changed = False
    for statement in forward.body:
        changed |= (
            _apart(splice, statement)
            or _always_made(splice, forward, statement)
            or _unpacked(splice, forward, statement)
        )
    return splice.text() if changed else doc.text


def unchecked(doc: Document, name: str) -> str:
    """The text without the checks of a mask's sizes, as those of the weights' sizes go anyway."""
    forward = doc.class_info(name).methods.get("forward")
    splice = Splice(doc)
    changed = False
    for statement in forward.body if forward is not None else ():
        match statement:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=mask), ops=[ast.IsNot()]), body=[*body]
            ) if "mask" in mask and len(body) > 1:
                for inner in body[:-1]:
                    if is_check(inner) and isinstance(inner, ast.If) and _of_size(inner.test, mask):
                        splice.remove(inner)
                        changed = True
    return splice.text() if changed else doc.text


def decided(doc: Document, name: str, settings: Mapping[str, str]) -> str:
    """The text without what the forward of a class adds for a setting that is another here.

    The constructor refuses the settings that it is added for.
    """
    info = doc.class_info(name)
    forward, init = info.methods.get("forward"), info.methods.get("__init__")
    if forward is None or init is None:
        return doc.text
    splice = Splice(doc)
    gone = [s for s in forward.body if _is_added_for(s, settings)]
    for statement in gone:
        assert isinstance(statement, ast.If)
        splice.remove(statement)
        refusal = f'if {splice.code(statement.test)}:\n    raise NotImplementedError("{NO_PLACE}")'
        splice.after(init.body[-1], refusal)
    for statement in forward.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=local)], value=ast.Compare()) if gone:
                uses = {n for n in names(forward, local) if isinstance(n.ctx, ast.Load)}
                if uses and uses <= {n for s in gone for n in names(s, local)}:
                    splice.remove(statement)
    return splice.text()


def _is_added_for(statement: ast.stmt, settings: Mapping[str, str]) -> bool:
    """Is it a branch, one of no more, that never runs?"""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    returns = any(isinstance(n, ast.Return) for n in nodes_of(statement))
    return not returns and _is_never(statement.test, settings)


def _is_never(test: ast.expr, settings: Mapping[str, str]) -> bool:
    """Is a condition on attributes false where they are what the settings of that name say?"""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(_is_never(value, settings) for value in values)
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_is_never(value, settings) for value in values)
        case ast.Compare(
            left=ast.Attribute(attr=name) as left,
            ops=[ast.Eq()],
            comparators=[ast.Constant(str(other))],
        ) if is_self_attribute(left):
            return settings.get(name, other) != other
    return False


def _of_size(test: ast.expr, name: str) -> bool:
    """Does a condition compare the size of a tensor with another?"""
    match test:
        case ast.Compare(
            left=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="size"))
            | ast.Attribute(value=ast.Name(id=owner), attr="shape")
        ):
            return owner == name
    return False


def _apart(splice: Splice, statement: ast.stmt) -> bool:
    """``x = self.heads(x).view(*shape)`` as two statements: heads, then the other shape."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(
                func=ast.Attribute(value=ast.Call() as inner, attr="view" | "reshape" as method),
                args=[ast.Starred(value=ast.Name(id=shape))],
                keywords=[],
            ),
        ) if is_self_attribute(inner.func):
            second = f"{name} = {name}.{method}(*{shape})"
            first = f"{name} = {splice.code(inner)}"
            splice.replace(statement, f"{first}{splice.newline}{splice.indent(statement)}{second}")
            return True
    return False


def _unpacked(splice: Splice, forward: FunctionNode, statement: ast.stmt) -> bool:
    """``x = attention(...)`` and then ``x[0]``, ``x[1]``: as two names."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name) as target], value=ast.Call(func=func)):
            helper = splice.doc.index.functions.get(ast.unparse(func))
        case _:
            return False
    if helper is None or not has_softmax(helper):
        return False
    parts: list[tuple[ast.Subscript, int]] = []
    for later in forward.body[forward.body.index(statement) + 1 :]:
        if any(isinstance(n.ctx, ast.Store) for n in names(later, name)):
            if any(isinstance(n.ctx, ast.Load) for n in names(later, name)):
                return False
            break
        for use in names(later, name):
            holder = splice.parent(use)
            match holder:
                case ast.Subscript(value=held, slice=ast.Constant(value=int(index))) if (
                    held is use and index in (0, 1)
                ):
                    parts.append((holder, index))
                case _:
                    return False
    if not parts:
        return False
    second = free_name(("attn_weights",), {n.id for n in _all_names(forward)})
    splice.replace(target, f"{name}, {second}")
    for part, index in parts:
        splice.replace(part, second if index else name)
    return True


def _all_names(function: FunctionNode) -> list[ast.Name]:
    return [n for n in nodes_of(function) if isinstance(n, ast.Name)]


def _always_made(splice: Splice, forward: FunctionNode, statement: ast.stmt) -> bool:
    """Weights that are made for the caller if asked for: made always, handed on if asked for."""
    match statement:
        case ast.If(
            test=ast.Name(id=asked),
            body=[*made],
            orelse=[ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(None))],
        ) if asked == ASKED:
            pass
        case _:
            return False
    last = forward.body[-1]
    stored = {t.id for s in made for t in nodes_of(s) if isinstance(t, ast.Name)}
    if name not in stored or not isinstance(last, ast.Return):
        return False
    if any(isinstance(n, ast.Return) and n is not last for n in nodes_of(forward)):
        return False
    if asked not in {p.arg for p in parameters(forward)}:
        return False
    start, end = splice.span(made[0])[0], splice.span(made[-1])[1]
    inner, outer = splice.indent(made[0]), splice.indent(statement)
    above = splice.doc.text[splice.span(statement)[0] : start].split(splice.newline)[1:-1]
    lines = [*above, inner + splice.doc.text[start:end]]
    text = splice.newline.join(lines).replace(splice.newline + inner, splice.newline + outer)
    splice.replace(statement, text.removeprefix(inner))
    splice.before(last, f"{name} = {name} if {asked} else None")
    return True


def always_read(forward: FunctionNode, argument: str) -> ast.AST | None:
    """Where a forward reads an argument whether it is None or not."""
    for statement in forward.body:
        if isinstance(statement, ast.If):
            continue
        tested = {
            name
            for node in nodes_of(statement)
            if isinstance(node, ast.Compare | ast.IfExp)
            for name in names(node, argument)
        }
        found = [name for name in names(statement, argument) if name not in tested]
        if found:
            return found[0]
    return None


def always_crosses(file: FileIndex, info: ClassInfo, argument: str) -> ast.AST | None:
    """A call that gives this class another sequence, if the class is always built for that.

    One that is built below a condition (of the configuration) is another module, which a plain
    decoder has not.
    """
    for owner in file.classes.values():
        init = owner.methods.get("__init__")
        if init is None:
            continue
        plain = {n for s in init.body if not isinstance(s, ast.If) for n in nodes_of(s)}
        for name, (_, value) in owner.self_assignments.items():
            built = [n for n in nodes_of(value) if isinstance(n, ast.Call)] if value else []
            if not any(_is_of(file, call, info) and call in plain for call in built):
                continue
            for function in owner.methods.values():
                for call in nodes_of(function):
                    if not isinstance(call, ast.Call) or not is_self_attribute(call.func):
                        continue
                    if getattr(call.func, "attr", "") == name and _gives(call, argument):
                        return call
    return None


def _is_of(file: FileIndex, call: ast.Call, info: ClassInfo) -> bool:
    found = file.resolve(ast.unparse(call.func))
    return isinstance(found, ClassInfo) and info in found.mro


def _gives(call: ast.Call, argument: str) -> bool:
    """Is the argument given by name, and not as None?"""
    given = [k.value for k in call.keywords if k.arg == argument]
    return any(not (isinstance(v, ast.Constant) and v.value is None) for v in given)


def _decoder_setting(splice: Splice, init: FunctionNode | None) -> ast.stmt | None:
    """The statement ``self.is_decoder = config.is_decoder``."""
    for statement in init.body if init is not None else ():
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr="is_decoder") as target], value=value):
                known = ("config.is_decoder", 'getattr(config, "is_decoder", False)')
                if is_self_attribute(target) and splice.code(value) in known:
                    return statement
    return None


def with_causality(doc: Document, name: str) -> str:
    """The text with ``is_causal=True`` where the class is built as a decoder, and says it is not.

    Attention computed in place never asked; the interface does, and so does vLLM. A class that
    knows from the configuration whether it is a decoder's is causal if it is.
    """
    info, splice = doc.class_info(name), Splice(doc)
    init, assigned = info.methods.get("__init__"), info.self_assignments.get(CAUSAL)
    setting = _decoder_setting(splice, init) if info.find_attribute(CAUSAL) is None else None
    if assigned is None and setting is not None:
        splice.after(setting, f"self.{CAUSAL} = self.is_decoder")
        return splice.text()
    value = assigned[1] if assigned is not None else None
    if init is None or not (isinstance(value, ast.Name) and value.id == CAUSAL):
        return doc.text
    names = [a.arg for a in init.args.args]
    defaults = dict(zip(reversed(names), reversed(init.args.defaults), strict=False))
    default = defaults.get(CAUSAL)
    if not isinstance(default, ast.Constant) or default.value is not False:
        return doc.text
    changed = False
    for call in nodes_of(splice.tree):
        if not isinstance(call, ast.Call) or not _is_of(doc.index, call, info):
            continue
        given = {k.arg: k.value for k in call.keywords}
        decoder = given.get("is_decoder")
        plain = CAUSAL not in given and None not in given and len(call.args) < names.index(CAUSAL)
        if plain and isinstance(decoder, ast.Constant) and decoder.value is True:
            splice.replace(decoder, f"True, {CAUSAL}=True")
            changed = True
    return splice.text() if changed else doc.text
