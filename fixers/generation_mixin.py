"""Add ``GenerationMixin`` to the bases of a model, and import it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fixers import FixRefused
from fixers.imports import with_import
from fixers.toolkit import document
from modelcheck.findings import Finding

MIXIN = "GenerationMixin"


def fix(text: str, finding: Finding) -> str:
    """``text`` with the base class. Raises `FixRefused`."""
    doc = document(text, finding)
    owner = doc.class_def(finding.class_name)
    if not owner.bases:
        raise FixRefused(f"{finding.class_name} has no base class", finding.span.line)
    if any(doc.code(base.value).rpartition(".")[2] == MIXIN for base in owner.bases):
        raise doc.refuse(f"{finding.class_name} has it already", owner)
    new = cst.Arg(cst.Name(MIXIN))

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.ClassDef)
        return node.with_changes(bases=[*_with_comma(node.bases), new])

    return with_import(doc, {owner: change}, "transformers", MIXIN)


def _with_comma(bases: Sequence[cst.Arg]) -> list[cst.Arg]:
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    *before, last = bases
    if isinstance(last.comma, cst.Comma):
        return list(bases)
    return [*before, last.with_changes(comma=comma)]
