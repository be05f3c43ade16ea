"""The report of ``modelcheck fix``: what was fixed, what is left, and what was proved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modelcheck.findings import Finding
from modelcheck.report.json import finding_data
from modelcheck.report.model import plural
from modelcheck.report.text import clean, concise_line

if TYPE_CHECKING:
    from modelcheck.repair import Proof, Repair
    from modelcheck.verdict import Verdict

SCHEMA_VERSION = 1


def render_text(repair: Repair, proof: Proof | None, *, diff: bool, unsafe: bool) -> str:
    """Verdicts, fixes, what is left and the proof, as lines."""
    lines = _in_tree(repair)
    lines += [*_verdicts("before", repair.before), *_verdicts("after", repair.after), ""]
    lines += _fixed(repair, diff=diff, rolled_back=proof is not None and proof.differs)
    manual = set(map(id, repair.manual))
    unsafe_left = [f for f in repair.fixable if id(f) not in manual]
    rest = [f for f in repair.left if id(f) not in manual and f not in unsafe_left]
    if not unsafe:
        lines += _section("fixable with --unsafe-fixes", unsafe_left)
    else:
        rest += unsafe_left
    lines += _section("left", rest)
    lines += _section("to be done by hand", repair.manual, advice=True)
    lines += [f"not fixed: {path}:{unfixed}" for path, unfixed in repair.refused]
    if proof is not None or (repair.changes and not diff):
        lines += proof_lines(proof)
    return "\n".join(line if not line else clean(line) for line in lines).rstrip()


def _in_tree(repair: Repair) -> list[str]:
    return [
        f"transformers itself has {name} ({file}): try the checkpoint without its own code first"
        for name, file in repair.in_tree
    ]


def _verdicts(when: str, verdicts: Sequence[Verdict]) -> list[str]:
    return [f"{when}: {verdict.full}" for verdict in verdicts]


def _fixed(repair: Repair, *, diff: bool, rolled_back: bool) -> list[str]:
    count = sum(repair.applied.values())
    word = "would be fixed" if diff or rolled_back else "fixed"
    detail = ", ".join(f"{code} {n}" for code, n in repair.applied.items())
    lines = [f"{word}: {count}{f' ({detail})' if detail else ''}, left: {len(repair.left)}"]
    if not diff and not rolled_back:
        lines += [f"written: {change.path}" for change in repair.changes]
    return lines


def _section(title: str, findings: Sequence[Finding], advice: bool = False) -> list[str]:
    if not findings:
        return []
    lines = ["", f"{title}: {plural(len(findings), 'finding')}"]
    for finding in findings:
        lines.append(f"  {concise_line(finding)}")
        if advice:
            lines.append(f"    = help: {finding.advice}")
    return [*lines, ""]


def proof_lines(proof: Proof | None) -> list[str]:
    """What running both versions showed."""
    if proof is None:
        return ["not verified: nothing was run"]
    report = proof.versions
    if report is None:
        lines = [f"not verified: {proof.doubt}"]
        if proof.alone is not None and proof.wrong_in_vllm:
            lines.append(_wrong(proof))
        return lines
    under = report.old_versions.get("transformers", "")
    if proof.proved and not proof.wrong_in_vllm:
        return [
            f"verified: the outputs of the old code under transformers {under}, "
            "from the same weights, called as vLLM calls it"
        ]
    if not proof.differs:
        return [f"not verified: {_wrong(proof)}"]
    keys = (*report.missing, *report.unexpected, *report.reshaped)
    if keys:
        return [f"nothing was written: weights would have other names or shapes: {keys[0]}"]
    largest = max(max(p.prefill, p.decode or 0.0) for p in report.prompts)
    where = f" first in {proof.class_name}" if proof.class_name else ""
    return [f"nothing was written: the fixes change the outputs by {largest:.2g},{where}"]


def _wrong(proof: Proof) -> str:
    report = proof.versions.new if proof.versions is not None else proof.alone
    assert report is not None
    if report.lost_buffers:
        why = f"buffers that from_pretrained makes otherwise: {', '.join(report.lost_buffers[:3])}"
    else:
        why = "; ".join(report.causes) or "see modelcheck emulate"
    return f"called as vLLM calls it, the fixed code does not give transformers' outputs: {why}"


def render_json(repair: Repair, proof: Proof | None, *, written: bool) -> str:
    """The same as JSON, with the schema's version."""
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "in_tree": [{"class": name, "file": file} for name, file in repair.in_tree],
        "before": [verdict.to_json() for verdict in repair.before],
        "after": [verdict.to_json() for verdict in repair.after],
        "applied": dict(repair.applied),
        "changed": [change.path for change in repair.changes],
        "written": written and bool(repair.changes),
        "refused": [
            {"path": path, "code": u.code, "class": u.class_name, "line": u.line, "why": u.reason}
            for path, u in repair.refused
        ],
        "left": [finding_data(finding) for finding in repair.left],
        "by_hand": [finding_data(finding) for finding in repair.manual],
        "proof": None if proof is None else _proof_json(proof),
    }
    return json.dumps(data, indent=2)


def _proof_json(proof: Proof) -> dict[str, Any]:
    return {
        "proved": proof.proved and not proof.wrong_in_vllm,
        "differs": proof.differs,
        "class": proof.class_name,
        "doubt": proof.doubt,
        "versions": proof.versions.to_json() if proof.versions is not None else None,
        "alone": proof.alone.to_json() if proof.alone is not None else None,
    }
