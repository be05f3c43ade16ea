"""The verdict: what becomes of a model repository, or of a lone modeling file, in vLLM.

It is read off the findings, and says *unknown* where they do not tell: findings alone cannot
show that a model is served whose base class, attention or fusions the source leaves open.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modelcheck.findings import Finding, Severity


class Outcome(enum.StrEnum):
    """What users of the model will see, best first; UNKNOWN is what nothing else is known of."""

    FUSED = "serves fused"
    UNFUSED = "serves, these classes unfused"
    UNKNOWN = "unknown"
    TP1 = "serves only at TP 1"
    WRONG = "wrong output"
    REFUSED = "refused"


SHORT = {
    Outcome.FUSED: "fused",
    Outcome.UNFUSED: "unfused",
    Outcome.UNKNOWN: "unknown",
    Outcome.TP1: "TP 1 only",
    Outcome.WRONG: "wrong",
    Outcome.REFUSED: "refused",
}


@dataclass(frozen=True)
class Reason:
    """A rule that speaks against a class; no class for a file or config.json."""

    class_name: str
    code: str


@dataclass(frozen=True)
class FileFacts:
    """What the findings of one file do not say.

    ``repo`` is the model repository that the file belongs to, "" for a lone file. ``gap`` says
    why the source does not tell whether vLLM takes the model, "" where it does or where another
    file holds the model. ``holds_model`` tells whether the model is in this file; ``undecided``
    are the classes of which it is not known whether they fuse, ``unjudged`` further models of the
    file of which too little is known; ``beside`` the files of its repository.
    """

    path: str
    repo: str = ""
    holds_model: bool = False
    gap: str = ""
    undecided: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """One subject (``name``: a folder or a file) in one vLLM release.

    ``reasons`` are what the outcome rests on, ``why`` the words for an unknown one, and
    ``undecided`` classes that may be unfused as well. Of the models ``unjudged`` nothing is said.
    """

    name: str
    vllm: str
    outcome: Outcome
    reasons: tuple[Reason, ...] = ()
    why: str = ""
    undecided: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The outcome with its reasons, without the subject."""
        parts = [str(self.outcome)]
        detail = self.why or ", ".join(self._grounds())
        if detail:
            parts.append(f": {detail}")
        if self.undecided and not self.why:
            parts.append(f"; not known of {', '.join(self.undecided)}")
        if self.unjudged:
            parts.append(f"; not judged: {', '.join(self.unjudged)}")
        return "".join(parts)

    def _grounds(self) -> list[str]:
        """As in "FenMLP (MC601, MC603)"; a rule alone where there is no class."""
        codes: dict[str, list[str]] = {}
        for reason in self.reasons:
            codes.setdefault(reason.class_name, []).append(reason.code)
        return [f"{c} ({', '.join(of)})" if c else ", ".join(of) for c, of in codes.items()]

    @property
    def full(self) -> str:
        """Subject, outcome, reasons and release as one line."""
        return f"{self.name}: {self.text} [vLLM {self.vllm}]"

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.name,
            "vllm": self.vllm,
            "outcome": str(self.outcome),
            "reasons": [{"code": r.code, "class": r.class_name} for r in self.reasons],
            "why": self.why,
            "undecided": list(self.undecided),
            "unjudged": list(self.unjudged),
            "text": self.text,
        }


def judge(
    name: str,
    vllm: str,
    findings: Sequence[Finding],
    files: Sequence[FileFacts],
    doubt: str = "",
) -> Verdict:
    """The verdict on one subject, from all its findings and what is known of its files.

    ``doubt`` is a reason of the run (rules left out, a file that could not be read) for which
    no finding is no proof.
    """
    grave = {
        Outcome.REFUSED: _reasons(findings, Severity.ERROR, tp_only=False),
        Outcome.WRONG: _reasons(findings, Severity.WRONG, tp_only=False),
        Outcome.TP1: _reasons(findings, Severity.ERROR, Severity.WRONG, tp_only=True),
    }
    for outcome, reasons in grave.items():
        if reasons:
            return Verdict(name, vllm, outcome, reasons)
    why = doubt or _gap(files)
    slow = _reasons(findings, Severity.SLOW)
    undecided = tuple(dict.fromkeys(c for f in files for c in f.undecided))
    unjudged = tuple(dict.fromkeys(c for f in files for c in f.unjudged))
    if why:
        return Verdict(name, vllm, Outcome.UNKNOWN, slow, why)
    if slow:
        known = {reason.class_name for reason in slow}
        others = tuple(c for c in undecided if c not in known)
        return Verdict(name, vllm, Outcome.UNFUSED, slow, undecided=others, unjudged=unjudged)
    if undecided:
        why = f"whether it fuses {', '.join(undecided)}, the source does not tell"
        return Verdict(name, vllm, Outcome.UNKNOWN, (), why, undecided)
    return Verdict(name, vllm, Outcome.FUSED, unjudged=unjudged)


def _reasons(
    findings: Iterable[Finding], *severities: Severity, tp_only: bool | None = None
) -> tuple[Reason, ...]:
    """Each class and rule once, in the order of the findings."""
    found = (
        Reason(f.class_name, f.code)
        for f in findings
        if f.severity in severities and tp_only in (None, f.tp_only)
    )
    return tuple(dict.fromkeys(found))


def _gap(files: Sequence[FileFacts]) -> str:
    """Why the files do not tell, "" when the one that holds the model does."""
    if any(f.holds_model and not f.gap for f in files):
        return ""
    holders = [f for f in files if f.holds_model] or list(files)
    return next((f.gap for f in holders if f.gap), "no modeling file was checked")


def lines(verdicts: Sequence[Verdict], limit: int = 20) -> list[str]:
    """The verdicts as text: one line each, a table for several releases, counts for many."""
    releases = list(dict.fromkeys(v.vllm for v in verdicts))
    names = list(dict.fromkeys(v.name for v in verdicts))
    if not names:
        return []
    if len(names) > limit:
        return [_counts(release, verdicts) for release in releases]
    if len(releases) == 1:
        return [v.full for v in verdicts]
    return [*_table(names, releases, verdicts), "", *_explained(names, verdicts)]


def _counts(release: str, verdicts: Sequence[Verdict]) -> str:
    mine = [v for v in verdicts if v.vllm == release]
    parts = [
        f"{count} {SHORT[outcome]}"
        for outcome in Outcome
        if (count := sum(1 for v in mine if v.outcome is outcome))
    ]
    return f"{len(mine)} models in vLLM {release}: {', '.join(parts)}"


def _table(names: Sequence[str], releases: Sequence[str], verdicts: Sequence[Verdict]) -> list[str]:
    cells = {(v.name, v.vllm): SHORT[v.outcome] for v in verdicts}
    rows = [["vLLM", *releases]]
    rows += [[name, *(cells.get((name, r), "") for r in releases)] for name in names]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _explained(names: Sequence[str], verdicts: Sequence[Verdict]) -> list[str]:
    """One line for each verdict in words, releases that share it together."""
    result = []
    for name in names:
        words: dict[str, list[str]] = {}
        for verdict in verdicts:
            if verdict.name == name:
                words.setdefault(verdict.text, []).append(verdict.vllm)
        result += [f"{name}: {text} [vLLM {', '.join(where)}]" for text, where in words.items()]
    return result
