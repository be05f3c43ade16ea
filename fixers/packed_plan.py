"""Plan a packed projection that is cut in halves so that every rank has its whole output.

``colwise`` becomes ``colwise_gather_output``, and ``rowwise`` of the projections that read the
halves ``rowwise_split_input``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers import FixRefused
from fixers.splice import Splice
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.rules.plans.packed_gate_up_colwise import PLANS, STYLE
from modelcheck.source.classes import ClassInfo, dotted_name

GATHERED, FOLLOWING, SPLIT = "colwise_gather_output", "rowwise", "rowwise_split_input"


def fix(text: str, finding: Finding) -> str:
    """``text`` with the entries of one module changed. Raises `FixRefused`."""
    splice = Splice(document(text, finding))
    owner = splice.doc.class_info(finding.class_name)
    module = splice.doc.index.classes.get(finding.fix.data.get("module", "") if finding.fix else "")
    if module is None:
        raise FixRefused("the projection's module is not in this file", finding.span.line)
    entries = list(_entries(owner))
    found = [e for e in entries if e[0].lineno == finding.span.line and e[1].value == STYLE]
    if not found:
        raise FixRefused(f"there is no {STYLE} entry here", finding.span.line)
    key, style = found[0]
    path, _, name = str(key.value).rpartition(".")
    others = _linears(module) - {name}
    splice.replace(style, _quoted(splice, style, GATHERED))
    following = [
        (k, s)
        for k, s in entries
        if str(k.value).rpartition(".")[0] == path and str(k.value).rpartition(".")[2] in others
    ]
    for other, how in following:
        if how.value != FOLLOWING:
            raise splice.refuse(f"{other.value!s} is planned {how.value!s}", other)
        splice.replace(how, _quoted(splice, how, SPLIT))
    return splice.text()


def _entries(owner: ClassInfo) -> Iterator[tuple[ast.Constant, ast.Constant]]:
    for plan in PLANS:
        value = owner.attributes.get(plan)
        if not isinstance(value, ast.Dict):
            continue
        for key, style in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(style, ast.Constant):
                yield key, style


def _linears(module: ClassInfo) -> set[str]:
    """The attributes of a module that are Linears."""
    return {
        name
        for name, (_, value) in module.self_assignments.items()
        if isinstance(value, ast.Call) and dotted_name(value.func).endswith("Linear")
    }


def _quoted(splice: Splice, old: ast.Constant, new: str) -> str:
    quote = splice.code(old)[-1]
    return f"{quote}{new}{quote}"
