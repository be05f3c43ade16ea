"""The gate in words: what is lost in one vLLM release, or a table of several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelcheck.report.model import from_here, plural

if TYPE_CHECKING:
    from rich.console import Console

    from modelcheck.gate.check import Check, GateReport, Lost
    from modelcheck.gate.logcheck import LogCheck


def render_text(report: GateReport, console: Console) -> None:
    """Print a report; the table only for several releases."""
    from rich.text import Text

    if len(report.checks) > 1:
        console.print(_table(report))
        console.print()
    for line in lines(report):
        console.print(Text(line), soft_wrap=True)


def lines(report: GateReport) -> Iterator[str]:
    """One line for each thing lost, gained or not known, then what came of it."""
    several = len(report.checks) > 1
    for check in report.checks:
        beside = f", transformers {check.transformers}" if check.transformers else ""
        release = f" [vLLM {check.vllm}{beside}]" if several else ""
        for line in _lines_of(check, report.lock.verdict):
            yield line + release
    yield summary(report)


def _lines_of(check: Check, was: str) -> Iterator[str]:
    if check.worse:
        yield f"the model: was {was}, now {check.worse}"
    for lost in check.lost:
        yield lost_line(lost)
    for unknown in check.undecided:
        yield f"{unknown.class_name}: {unknown.fuser}: not known: {unknown.reason}"
    for gained in check.gained:
        was_now = f"{_many(gained.was)} -> {_many(gained.now)}"
        yield f"note: {gained.class_name}: {gained.fuser}: {was_now}, more than recorded"


def lost_line(lost: Lost) -> str:
    """``modeling_x.py:12: XMLP: GLU: 4 -> 0: the reason (lost since vLLM 0.31.0)``."""
    where = f"{from_here(lost.place.path)}:{lost.place.line}: " if lost.place else ""
    names = f" ({', '.join(lost.names)})" if lost.names else ""
    since = f" ({lost.since})" if lost.since else ""
    was_now = f"{_many(lost.was)} -> {_many(lost.now)}"
    return f"{where}{lost.class_name}: {lost.fuser}: {was_now}{names}: {lost.reason}{since}"


def _many(count: int | None) -> str:
    return "fused" if count is None else str(count) if count else "none"


def summary(report: GateReport) -> str:
    """The last line: what the check rests on and what came of it."""
    lock = report.lock
    total = sum(check.expected for check in report.checks)
    lost = sum(len(check.lost) for check in report.checks)
    unknown = sum(len(check.undecided) for check in report.checks)
    releases = ", ".join(dict.fromkeys(check.vllm for check in report.checks))
    outcome = f"{lost} of {plural(total, 'recorded fusion')} lost" if lost else "nothing is lost"
    if not lost and any(check.worse for check in report.checks):
        outcome = "no fusion is lost, but the verdict is worse"
    if unknown:
        outcome += f", {unknown} not known"
    return (
        f"{outcome}: vLLM {releases} against {from_here(lock.path)} (vLLM {lock.vllm}); "
        f"{report.evidence}"
    )


def _table(report: GateReport) -> object:
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("vLLM", "transformers", "Verdict", "Fused"):
        shown.add_column(heading, no_wrap=True)
    shown.add_column("Lost", overflow="fold", ratio=1)
    for check in report.checks:
        kept = check.expected - len(check.lost) - len(check.undecided)
        looked_at = check.transformers or report.transformers
        wanted = check.wanted if check.fits else f"{check.wanted}, not {looked_at}"
        if check.transformers and check.fits:
            wanted = check.transformers
        gone = ", ".join(f"{lost.class_name} {lost.fuser}" for lost in check.lost)
        shown.add_row(
            check.vllm,
            wanted,
            Text(check.verdict, "red" if check.worse else ""),
            f"{kept} of {check.expected}",
            Text(gone or "-", "red" if gone else "green"),
        )
    return shown


def render_log(check: LogCheck, console: Console, table: bool = True) -> None:
    """What a log shows: each line with how often, then what is missing, then one line."""
    from rich.table import Table
    from rich.text import Text

    if table and check.fused:
        shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        shown.add_column("Class", overflow="fold")
        shown.add_column("Fuser", no_wrap=True)
        shown.add_column("Times", justify="right")
        shown.add_column("Line", overflow="fold", ratio=1)
        for line, times in check.counts.items():
            text = Text(check.texts[line])
            shown.add_row(Text(line.class_name), line.fuser, str(times), text)
        console.print(shown)
        console.print()
    for said in log_lines(check, table):
        console.print(Text(said), soft_wrap=True)


def log_lines(check: LogCheck, warnings: bool = True) -> Iterator[str]:
    """One line for each warning, each fusion missing or more than recorded, and the sum."""
    if warnings:
        for text in check.warnings:
            yield f"vLLM warns: {text}"
    for missing in check.missing:
        name = f" ({missing.name})" if missing.name else ""
        reason = f": {missing.reason}" if missing.reason else ""
        yield f"missing: {missing.class_name}{name}: {missing.fuser}{reason}"
    for line in check.more:
        yield f"note: more than recorded: {check.texts[line]}"
    if check.doubt:
        yield check.doubt
    yield log_summary(check)


def log_summary(check: LogCheck) -> str:
    """``7 lines of 5 fusions in vLLM 0.32.0; 1 missing``."""
    release = f" in vLLM {check.reader.release}" if check.reader.release else ""
    found = f"{plural(len(check.counts), 'different line')} of fusers{release}"
    if check.lock is None:
        return found
    missing = len(check.missing)
    outcome = f"{missing} missing" if missing else "nothing missing"
    return f"{found}; {outcome} of {from_here(check.lock.path)} (vLLM {check.lock.vllm})"
