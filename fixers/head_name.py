"""Call the head of a causal language model ``lm_head``, which is what vLLM calls its own.

Every mention in the class changes with it, and transformers is told the old name, so checkpoints
stay as they are. Other code that asks the model for the old attribute would fail: that nobody does
is what this fix rests on.
"""

from __future__ import annotations

import ast
import re

from fixers import FixRefused
from fixers._checkpoint_names import keep_keys
from fixers.splice import Splice
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import is_self_attribute

HEAD = "lm_head"


def fix(text: str, finding: Finding) -> str:
    """``text`` with the head of the finding's class called ``lm_head``. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    info = splice.doc.class_info(finding.class_name)
    name = finding.fix.data.get("name", "") if finding.fix else ""
    if name not in info.self_assignments or name == HEAD:
        raise FixRefused(f"{info.name} has no {name or 'head'} to rename", finding.span.line)
    inside = set(nodes_of(info.node))
    for node in nodes_of(splice.tree):
        if isinstance(node, ast.Attribute) and node.attr == name:
            if node not in inside or not is_self_attribute(node):
                raise splice.refuse(f"{name} of something else is used here", node)
            splice.replace(node, f"{splice.code(node.value)}.{HEAD}")
        elif isinstance(node, ast.Constant) and name in re.findall(r"\w+", str(node.value)):
            _rename_text(splice, node, name, own=node in inside)
    keep_keys(splice, info, name, HEAD, top=True)
    return splice.text()


def _rename_text(splice: Splice, node: ast.Constant, name: str, *, own: bool) -> None:
    """Another name in the name of a weight, ``"head.weight"``; what only speaks of it stays."""
    text = str(node.value)
    if isinstance(splice.parent(node), ast.Expr) or " " in text:
        return
    new = re.sub(rf"^{re.escape(name)}(?=\.|$)", HEAD, text)
    code = splice.code(node)
    if not own or new == text or code[1:-1] != text:
        raise splice.refuse(f"{name} is named in a way not understood", node)
    splice.replace(node, f"{code[0]}{new}{code[-1]}")
