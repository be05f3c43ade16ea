"""The summary of a survey: per fuser how many classes take it, and why others do not."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from modelcheck.fusers.moe import NAME as MOE_BLOCK
from modelcheck.fusers.results import Evidence, Fires
from modelcheck.report.text import plural

if TYPE_CHECKING:
    from rich.console import Console

    from modelcheck.fusers.contract import Contract
    from modelcheck.survey.records import Record
    from modelcheck.survey.run import Plan

REASONS = 3  # shown for each fuser
WIDTH = 200  # characters of a reason; the file and the page have all of it
ClassKey = tuple[str, str]  # file and class name: types share classes


@dataclass
class Tally:
    """The distinct classes that take one fuser, nearly do, or cannot be decided."""

    fires: set[ClassKey] = field(default_factory=set)
    wrong: dict[ClassKey, str] = field(default_factory=dict)  # fires, and the numbers change: how
    near: dict[ClassKey, str] = field(default_factory=dict)  # with the reason
    unknown: dict[ClassKey, str] = field(default_factory=dict)

    def counts(self) -> tuple[int, int, int]:
        """A class that takes the fuser in one place and not in another counts as taking it."""
        near = self.near.keys() - self.fires
        return len(self.fires), len(near), len(self.unknown.keys() - self.fires - near)


def fusers_of(contract: Contract) -> tuple[str, ...]:
    """A release's fusers, the MoE block last."""
    return (*contract.fusers, MOE_BLOCK)


def tallies(records: Iterable[Record]) -> dict[tuple[Evidence, str], Tally]:
    """What was found, by evidence and fuser."""
    found: dict[tuple[Evidence, str], Tally] = {}
    for record in records:
        for surveyed in record.classes:
            key = (surveyed.file, surveyed.report.class_name)
            for result in surveyed.results:
                tally = found.setdefault((record.evidence, result.fuser), Tally())
                if result.fires is Fires.YES:
                    tally.fires.add(key)
                    if result.wrong:
                        tally.wrong.setdefault(key, result.wrong)
                elif result.fires is Fires.NO:
                    tally.near.setdefault(key, result.reason)
                else:
                    tally.unknown.setdefault(key, result.reason)
    return found


def render_text(records: Sequence[Record], plan: Plan, console: Console) -> None:
    """Print the summary."""
    found = tallies(records)
    console.print(Text(heading(plan)), soft_wrap=True)
    console.print()
    console.print(table(found, plan))
    for line in [*_wrong(found, plan), *_reasons(found, plan), *_errors(records, plan)]:
        console.print(Text(line), soft_wrap=True)


def heading(plan: Plan) -> str:
    """``564 model types of transformers 5.19.0, judged by vLLM 0.33.0``."""
    tp = f", tensor parallel {plan.tp}" if plan.tp > 1 else ""
    return (
        f"{plural(len(plan.types), 'model type')} of transformers {plan.catalogue.version}, "
        f"judged by vLLM {plan.contract.version}{tp}"
    )


def table(found: Mapping[tuple[Evidence, str], Tally], plan: Plan) -> Table:
    """One row for each fuser, one column for each kind of evidence."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    shown.add_column("Classes: fires / near / unknown")
    for evidence in plan.evidence:
        shown.add_column(str(evidence), justify="right", no_wrap=True)
    for fuser in fusers_of(plan.contract):
        tallied = [found.get((evidence, fuser), Tally()).counts() for evidence in plan.evidence]
        shown.add_row(fuser, *(" / ".join(f"{n:3}" for n in counts) for counts in tallied))
    return shown


def _wrong(found: Mapping[tuple[Evidence, str], Tally], plan: Plan) -> Iterator[str]:
    """Every class that is fused with other numbers, and by which evidence."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for evidence in plan.evidence:
        for fuser in fusers_of(plan.contract):
            for (_, name), how in found.get((evidence, fuser), Tally()).wrong.items():
                told.setdefault((fuser, name, how), []).append(str(evidence))
    if told:
        yield ""
        yield "Fused, and the numbers change:"
    for (fuser, name, how), kinds in told.items():
        yield f"  {fuser} {name} ({', '.join(kinds)}): {how}"


def _reasons(found: Mapping[tuple[Evidence, str], Tally], plan: Plan) -> Iterator[str]:
    """By the strongest evidence that has any."""
    for fuser in fusers_of(plan.contract):
        for evidence in reversed(plan.evidence):
            tally = found.get((evidence, fuser))
            if tally is None:
                continue
            reasons = Counter(r for key, r in tally.near.items() if key not in tally.fires)
            if reasons:
                yield ""
                yield f"{fuser}, not fused ({evidence}):"
                yield from _most(reasons, REASONS, "reason")
                break


def _most(counted: Counter[str], limit: int, noun: str) -> Iterator[str]:
    for text, count in counted.most_common(limit):
        yield f"  {count:4}  {textwrap.shorten(text, WIDTH, placeholder=' ...')}"
    rest = len(counted) - limit
    if rest > 0:
        total = sum(count for _, count in counted.most_common()[limit:])
        yield f"  {total:4}  for {plural(rest, 'other ' + noun)}"


def _errors(records: Sequence[Record], plan: Plan) -> Iterator[str]:
    for evidence in plan.evidence:
        errors = Counter(r.error for r in records if r.evidence is evidence and r.error)
        if errors:
            yield ""
            yield f"{plural(errors.total(), 'model type')} without {evidence} evidence:"
            yield from _most(errors, 5, "cause")
