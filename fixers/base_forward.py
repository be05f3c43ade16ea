"""Give the base model's forward what vLLM calls it with.

``position_ids`` and ``inputs_embeds`` are added and used in place of what the forward makes
itself; ``use_cache`` and ``return_dict`` are accepted; ``get_input_embeddings`` is added for the
one embedding of the model.
"""

from __future__ import annotations

import ast

from fixers import FixRefused, rope_by_position
from fixers._rope_offset import hand_positions_down
from fixers.positions_honoured import counts, default_positions
from fixers.splice import Splice, names, parameters
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.rules.threading import rope_by_length
from modelcheck.source.bodies import callee_name, nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name, is_self_attribute

POSITIONS = "position_ids"
GETTER = """
def get_input_embeddings(self):
    return self.{name}

def set_input_embeddings(self, value):
    self.{name} = value
"""


def fix(text: str, finding: Finding) -> str:
    """``text`` with what is missing. Raises `FixRefused`."""
    doc = document(text, finding)
    splice = Splice(doc)
    info = doc.class_info(finding.class_name)
    data = finding.fix.data if finding.fix else {}
    if data.get("embedding"):
        last = info.methods.get("__init__")
        if last is None or "get_input_embeddings" in info.methods:
            raise FixRefused(f"{info.name} has no constructor of its own", finding.span.line)
        splice.after(last, GETTER.format(name=data["embedding"]), blank=True)
        return splice.text()
    forward = info.methods.get("forward")
    missing = data.get("missing", "").split()
    if forward is None or not missing:
        raise FixRefused(f"{info.name} has no forward of its own", finding.span.line)
    _add_parameters(splice, forward, missing)
    for name in missing:
        if name == "position_ids":
            _use_positions(splice, info, forward)
        elif name == "inputs_embeds":
            _use_embeddings(splice, info, forward)
        elif name not in ("use_cache", "return_dict"):
            raise splice.refuse(f"nothing is known about {name}", forward)
    new = splice.text()
    if cuts_table_by_length(new, finding) and not cuts_table_by_length(text, finding):
        return rope_by_position.fix(new, finding)  # positions alone would leave the cut table
    return new


def cuts_table_by_length(text: str, finding: Finding) -> bool:
    """Does a forward of the text know positions, and cut a rotary table to its length?"""
    index = document(text, finding).index
    tables = [c for c in index.classes.values() if c.is_module and rope_by_length.cuts_table(c)]
    return bool(tables) and any(
        POSITIONS in {p.arg for p in parameters(f)}
        and any(isinstance(n, ast.keyword) and n.arg == rope_by_length.LENGTH for n in nodes_of(f))
        for c in index.classes.values()
        if c not in tables
        for f in c.methods.values()
    )


def _add_parameters(splice: Splice, forward: FunctionNode, missing: list[str]) -> None:
    arguments = forward.args
    known = {p.arg for p in parameters(forward)}
    if known & set(missing):
        raise splice.refuse("the forward names them already", forward)
    if arguments.kwonlyargs or arguments.vararg:
        raise splice.refuse("the forward has keyword-only parameters", forward)
    last = parameters(forward)[-1]
    end = splice.span(last)[1]
    if arguments.defaults:
        end = max(end, splice.span(arguments.defaults[-1])[1])
    one_a_line = last.lineno != parameters(forward)[0].lineno
    gap = f",{splice.newline}{' ' * last.col_offset}" if one_a_line else ", "
    splice.insert(end, "".join(f"{gap}{name}=None" for name in missing))


def _use_positions(splice: Splice, info: ClassInfo, forward: FunctionNode) -> None:
    counted = [s for s in forward.body if isinstance(s, ast.Assign) and counts(s.value)]
    tables = [] if counted else _counting_tables(info, forward)
    if len(tables) == 1:
        call, table = tables[0]
        splice.insert(_end_of_arguments(splice, call), f", {POSITIONS}={POSITIONS}")
        _count_by_default(splice, table)
        return
    if not counted and hand_positions_down(splice, info):
        return
    if len(counted) != 1:
        raise splice.refuse("it is not clear where the forward counts positions", forward)
    default_positions(splice, forward, counted[0])


def _counting_tables(info: ClassInfo, forward: FunctionNode) -> list[tuple[ast.Call, ClassInfo]]:
    """Calls of modules of this file that count positions in the mask that they are given."""
    found = []
    for call in nodes_of(forward):
        if not isinstance(call, ast.Call) or not is_self_attribute(call.func) or not call.args:
            continue
        built = info.self_assignments.get(getattr(call.func, "attr", ""))
        value = built[1] if built is not None else None
        cls = info.file.resolve(dotted_name(value.func)) if isinstance(value, ast.Call) else None
        if isinstance(cls, ClassInfo) and cls.file is info.file and "forward" in cls.methods:
            calls = (n for n in nodes_of(cls.methods["forward"]) if isinstance(n, ast.Call))
            if any(callee_name(n) == "cumsum" for n in calls):
                found.append((call, cls))
    return found


def _end_of_arguments(splice: Splice, call: ast.Call) -> int:
    last = [*call.args, *(k.value for k in call.keywords)]
    return max(splice.span(each)[1] for each in last)


def _count_by_default(splice: Splice, table: ClassInfo) -> None:
    """Count positions in the forward of a table only where none are given."""
    forward = table.methods["forward"]
    body = [s for s in forward.body if not isinstance(getattr(s, "value", None), ast.Constant)]
    *counting, last = body
    stored = {
        n.id
        for s in counting
        for n in nodes_of(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    read = {n.id for n in nodes_of(last) if isinstance(n, ast.Name)} & stored
    plain = all(isinstance(s, ast.Assign) for s in counting)
    if not isinstance(last, ast.Return) or len(read) != 1 or not plain:
        raise splice.refuse(f"{table.name} counts positions in a way not understood", forward)
    _add_parameters(splice, forward, [POSITIONS])
    start, end = splice.span(counting[0])[0], splice.span(counting[-1])[1]
    indent, newline = splice.indent(counting[0]), splice.newline
    inner = splice.doc.module.default_indent
    lines = (indent + splice.doc.text[start:end]).split(newline)
    lines = [line.removeprefix(indent) for line in lines]
    counted = "\n".join(f"{inner}{line}" if line.strip() else "" for line in lines)
    given = f"{inner}{read.pop()} = {POSITIONS}"
    new = f"if {POSITIONS} is None:\n{counted}\nelse:\n{given}"
    splice.replace_from(counting[0], counting[-1], new)


def _use_embeddings(splice: Splice, info: ClassInfo, forward: FunctionNode) -> None:
    """Look tokens up only without ``inputs_embeds``."""
    looked_up = [
        node
        for node in nodes_of(forward)
        if isinstance(node, ast.Call)
        and is_self_attribute(node.func)
        and [getattr(a, "id", "") for a in node.args] == ["input_ids"]
        and not node.keywords
    ]
    if len(looked_up) != 1:
        raise splice.refuse("it is not clear where the forward looks its tokens up", forward)
    call = looked_up[0]
    others = [n for n in names(forward, "input_ids") if n not in nodes_of(call)]
    if others:
        raise splice.refuse("input_ids is used for more than the embedding", others[0])
    statement = splice.statement_of(call)
    if not isinstance(statement, ast.Assign) or statement.value is not call:
        raise splice.refuse("the embeddings are not assigned to a name", call)
    splice.replace(call, f"{splice.code(call)} if inputs_embeds is None else inputs_embeds")
