"""Give the base model's forward what vLLM calls it with.

``position_ids`` and ``inputs_embeds`` are added and used in place of what the forward makes
itself; ``use_cache`` and ``return_dict`` are accepted; ``get_input_embeddings`` is added for the
one embedding of the model.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.positions_honoured import counts, default_positions
from fixers.splice import Splice, names, parameters
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, is_self_attribute

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
            _use_positions(splice, forward)
        elif name == "inputs_embeds":
            _use_embeddings(splice, info, forward)
        elif name not in ("use_cache", "return_dict"):
            raise splice.refuse(f"nothing is known about {name}", forward)
    return splice.text()


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


def _use_positions(splice: Splice, forward: FunctionNode) -> None:
    counted = [s for s in forward.body if isinstance(s, ast.Assign) and counts(s.value)]
    if len(counted) != 1:
        raise splice.refuse("it is not clear where the forward counts positions", forward)
    default_positions(splice, forward, counted[0])


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
