"""What ``publish-check`` found out: the parts, and the verdict that follows from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from modelcheck.fusers.results import ClassReport
from modelcheck.report.model import Report
from modelcheck.verdict import SHORT, Outcome

SCHEMA_VERSION = 1
SHOWN = 3  # remarks in the line of the verdict
UNKNOWN = Outcome.UNKNOWN


@dataclass(frozen=True)
class Part:
    """What one kind of evidence says for one vLLM release.

    ``command`` is the one that shows more of it, ``outcome`` None where it was not run;
    ``detail`` are the words for either, ``remarks`` one line for each class that is not as it
    should be. ``yields`` says that an unknown outcome is about fusions alone, which a dry run
    decides; what else is unknown, vLLM does.
    """

    command: str
    vllm: str
    outcome: Outcome | None
    detail: str = ""
    remarks: tuple[str, ...] = ()
    classes: tuple[ClassReport, ...] = ()
    yields: bool = False

    @property
    def ran(self) -> bool:
        """Was it run?"""
        return self.outcome is not None

    @property
    def text(self) -> str:
        """The outcome in words."""
        said = "not run"
        if self.outcome is not None:  # only a scan judges more than the fusions
            said = str(self.outcome) if self.command == "scan" else SHORT[self.outcome]
        return f"{said}: {self.detail}" if self.detail else said

    @property
    def why(self) -> str:
        """What a bad outcome rests on, "" for a good one."""
        if self.outcome is Outcome.FUSED:
            return ""
        more = len(self.remarks) - SHOWN
        shown = [*self.remarks[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
        return "; ".join(shown) or self.detail

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "command": self.command,
            "vllm": self.vllm or None,
            "ran": self.ran,
            "outcome": str(self.outcome) if self.outcome is not None else None,
            "detail": self.detail,
            "remarks": list(self.remarks),
            "classes": [report.to_json() for report in self.classes],
        }


@dataclass(frozen=True)
class Publication:
    """The parts, weakest evidence first, and what follows from them.

    ``report`` has the findings of the scan, and the Hub's repository where the model is there.
    ``strict`` asks that all classes fuse.
    """

    target: str
    releases: tuple[str, ...]
    parts: tuple[Part, ...]
    report: Report = field(default_factory=Report)
    strict: bool = False
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """What becomes of the model in vLLM: the gravest word that nothing stronger answers."""
        return max((p.outcome for p in self._heard() if p.outcome), key=_rank, default=UNKNOWN)

    @property
    def fit(self) -> bool:
        """Does vLLM serve it, and rightly? With ``strict``: fused?"""
        good = (Outcome.FUSED,) if self.strict else (Outcome.FUSED, Outcome.UNFUSED)
        return self.outcome in good

    @property
    def line(self) -> str:
        """The verdict as one line, without the subject."""
        fit = "fit to publish" if self.fit else "not fit to publish"
        if self.outcome is UNKNOWN:
            fit = "not shown to be fit to publish"
        decisive = [p for p in self._heard() if p.outcome is self.outcome]
        commands = _listed(p.command for p in decisive)
        by = f", by {commands}" if commands else ""
        why = "; ".join(dict.fromkeys(p.why for p in decisive if p.why))
        releases = ", ".join(dict.fromkeys(p.vllm for p in decisive)) or ", ".join(self.releases)
        left = _listed(p.command for p in self.parts if not p.ran)
        missing = f"; not run: {left}" if left else ""
        return f"{fit}: {self.outcome}{by}{f': {why}' if why else ''} [vLLM {releases}]{missing}"

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        from modelcheck.report.json import finding_data

        return {
            "schema_version": SCHEMA_VERSION,
            "target": self.target,
            "sources": [{"name": n, "url": u, "commit": c} for n, u, c in self.report.sources],
            "vllm": list(self.releases),
            "fit": self.fit,
            "outcome": str(self.outcome),
            "verdict": self.line,
            "parts": [part.to_json() for part in self.parts],
            "findings": [finding_data(finding) for finding in self.report.findings],
            "notes": list(self.notes),
        }

    def _heard(self) -> list[Part]:
        """The parts that count: those that know, and those that are open for good."""
        return [p for p in self.parts if p.outcome is not UNKNOWN or not self._answered(p)]

    def _answered(self, part: Part) -> bool:
        """Does a stronger part know what this one does not?"""
        answers = ("dryrun", "load") if part.yields else ("load",)
        return any(
            other.command in answers
            and other.vllm == part.vllm
            and other.outcome not in (None, UNKNOWN)
            for other in self.parts
        )


def _listed(words: Iterable[str]) -> str:
    """ "scan, dryrun and load", each once."""
    *most, last = dict.fromkeys(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _rank(outcome: Outcome) -> int:
    return list(Outcome).index(outcome)
