"""Two kinds of evidence side by side: what dryrun said, what vLLM did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from modelcheck.fusers.results import ClassReport, Fires, FusionResult


@dataclass(frozen=True)
class Comparison:
    """Equal modules of one class, by both kinds of evidence.

    ``count`` is how many modules, ``dryrun`` and ``vllm`` the fusers that fire, sorted; an MoE
    block's with who routes ("MoEBlock (internal routing)").
    ``undecided`` are those of which dryrun says that it does not know: they agree with
    anything. ``differences`` are of fusers that fire on both sides with different effects
    (another vLLM class, other projections, another eps), ``reasons`` what either side says of
    the fusers that do not fire.
    """

    class_name: str
    count: int
    dryrun: tuple[str, ...]
    vllm: tuple[str, ...]
    undecided: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def agree(self) -> bool:
        """The same fusers, with the same effects."""
        unknown = set(self.undecided)
        same = set(self.dryrun) - unknown == set(self.vllm) - unknown
        return same and not self.differences

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "class_name": self.class_name,
            "count": self.count,
            "dryrun": list(self.dryrun),
            "vllm": list(self.vllm),
            "undecided": list(self.undecided),
            "agree": self.agree,
            "differences": list(self.differences),
            "reasons": list(self.reasons),
        }


def compare(dryrun: Iterable[ClassReport], loaded: Iterable[ClassReport]) -> tuple[Comparison, ...]:
    """Compare module by module, then gather equal modules of a class.

    A module that one side does not mention fires nothing there.
    """
    said, did = _by_path(dryrun), _by_path(loaded)
    counts: dict[tuple[Any, ...], int] = {}
    for path in dict.fromkeys((*said, *did)):
        one, other = said.get(path), did.get(path)
        names = [report.class_name for report in (one, other) if report is not None]
        row = (
            names[0],
            _fired(one),
            _fired(other),
            _unknown(one),
            _differences(one, other),
            (*_reasons(one, "dryrun"), *_reasons(other, "vLLM")),
        )
        counts[row] = counts.get(row, 0) + 1
    rows = (
        Comparison(name, count, a, b, unknown, differences, reasons)
        for (name, a, b, unknown, differences, reasons), count in counts.items()
    )
    return tuple(row for row in rows if row.dryrun or row.vllm or row.undecided or row.reasons)


def _by_path(reports: Iterable[ClassReport]) -> dict[str, ClassReport]:
    return {path: report for report in reports for path in report.paths}


def _fired(report: ClassReport | None) -> tuple[str, ...]:
    fusions = report.fusions if report is not None else ()
    return tuple(sorted(_label(r) for r in fusions if r.fires is Fires.YES))


def _label(result: FusionResult) -> str:
    _, routed, how = result.becomes.partition(" (")
    return f"{result.fuser} ({how}" if routed and how.endswith(" routing)") else result.fuser


def _unknown(report: ClassReport | None) -> tuple[str, ...]:
    if report is None:
        return ()
    results = (*report.fusions, *report.missed)
    return tuple(sorted({r.fuser for r in results if r.fires is Fires.UNKNOWN}))


def _differences(one: ClassReport | None, other: ClassReport | None) -> tuple[str, ...]:
    if one is None or other is None:
        return ()
    did = {r.fuser: r for r in other.fusions if r.fires is Fires.YES}
    return tuple(
        difference
        for said in one.fusions
        if said.fires is Fires.YES and said.fuser in did
        for difference in _effects(said, did[said.fuser])
    )


def _effects(said: FusionResult, did: FusionResult) -> list[str]:
    """Where two firings of one fuser differ, as far as both sides name it."""
    pairs = {"becomes": (said.becomes, did.becomes), "shards": (said.shards, did.shards)}
    theirs = dict(did.details)
    pairs |= {key: (value, theirs[key]) for key, value in said.details if key in theirs}
    return [
        f"{said.fuser}, {what}: dryrun said {_text(a)}, vLLM did {_text(b)}"
        for what, (a, b) in pairs.items()
        if a and b and a != b
    ]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " + ".join(f"{name} ({shard})" for name, shard in value)
    return str(value)


def _reasons(report: ClassReport | None, who: str) -> tuple[str, ...]:
    if report is None:
        return ()
    return tuple(
        dict.fromkeys(
            f"{who}, {r.fuser}: {r.reason}"
            for r in (*report.fusions, *report.missed)
            if r.fires is not Fires.YES and r.reason
        )
    )
