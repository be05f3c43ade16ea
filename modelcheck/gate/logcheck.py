"""A server's log against a lock: which recorded fusions does it not show?

vLLM prints each text once in a process, and only in the first one of a machine, whatever the
number of modules: what is compared is which texts there are, by class, fuser and attribute, never
how often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from modelcheck.errors import UsageError
from modelcheck.fusers import moe
from modelcheck.fusers.contract import contract_for
from modelcheck.gate.lock import Expectation, Lock
from modelcheck.gate.serverlog import Event, Fused, LogReader, Warned
from modelcheck.vllm.logs import FusedLine

EXTERNAL = f"{moe.NAME} (external routing)"


@dataclass(frozen=True)
class Missing:
    """A fusion that the lock has and the log has not; ``name`` is the attribute, if known."""

    class_name: str
    fuser: str
    name: str = ""
    reason: str = ""


@dataclass
class LogCheck:
    """A log as far as it was read, and the lock that it should fulfil, if any."""

    lock: Lock | None = None
    reader: LogReader = field(default_factory=LogReader)
    fused: list[Fused] = field(default_factory=list)
    warned: list[Warned] = field(default_factory=list)

    def feed(self, raw: str) -> Iterator[Event]:
        """Read one more line; yield what it shows for the first time."""
        for event in self.reader.feed(raw):
            known: list[Any] = self.fused if isinstance(event, Fused) else self.warned
            new = all(event.text != other.text for other in known)
            known.append(event)
            if new:
                yield event

    @property
    def counts(self) -> dict[FusedLine, int]:
        """How often each line was printed, by any process, in order of first appearance."""
        return dict(Counter(event.line for event in self.fused))

    def workers(self, line: FusedLine) -> tuple[str, ...]:
        """The processes that printed a line."""
        found = (event.worker for event in self.fused if event.line == line and event.worker)
        return tuple(dict.fromkeys(found))

    @property
    def texts(self) -> dict[FusedLine, str]:
        """The text of each line."""
        return {event.line: event.text for event in reversed(self.fused)}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings, each text once."""
        return tuple(dict.fromkeys(event.text for event in self.warned))

    @property
    def missing(self) -> tuple[Missing, ...]:
        """What the lock expects and the log does not show."""
        return tuple(self._missing()) if self.lock is not None else ()

    def _missing(self) -> Iterator[Missing]:
        assert self.lock is not None
        lines = list(self.counts)
        unnamed = self._unnamed(lines)
        for expected in self.lock.expectations:
            mine = [line for line in lines if _is_of(line, expected)]
            if not mine and expected.fuser == EXTERNAL and unnamed:
                unnamed.pop()
                continue
            shown = {line.child for line in mine}
            by_name = expected.names if mine and not expected.fuser.startswith(moe.NAME) else ()
            gone = [name for name in by_name if name not in shown]
            for name in gone if by_name else [] if mine else [", ".join(expected.names)]:
                yield Missing(*expected.key, name, self._reason(expected))

    def _unnamed(self, lines: list[FusedLine]) -> list[FusedLine]:
        """Lines under the class of the experts, which is what a block that routes itself has."""
        assert self.lock is not None
        blocks = {e.class_name for e in self.lock.expectations}
        return [
            line
            for line in lines
            if line.fuser == moe.NAME and line.routing == "external"
            if line.class_name not in blocks
        ]

    def _reason(self, expected: Expectation) -> str:
        name, plain = expected.class_name, expected.fuser.partition(" (")[0]
        if plain == "RMSNorm" and any(warned.class_name == name for warned in self.warned):
            return "vLLM says that it only looks like an RMSNorm"
        if not self.reader.release:
            return ""
        try:
            contract = contract_for(self.reader.release)
        except UsageError:
            return f"vLLM {self.reader.release} has no fusers"
        if plain not in (*contract.fusers, moe.NAME):
            return f"vLLM {contract.version} has no {plain} fuser"
        others = [
            line.fuser
            for line in self.counts
            if line.class_name == name and line.fuser != plain
            if line.fuser != "Attention"
        ]
        return f"it fuses as {', '.join(dict.fromkeys(others))} instead" if others else ""

    @property
    def more(self) -> tuple[FusedLine, ...]:
        """Lines of classes and fusers that the lock does not have."""
        if self.lock is None:
            return ()
        wanted = self.lock.expectations
        return tuple(
            line
            for line in self.counts
            if not any(_is_of(line, e) for e in wanted)
            if not (line.routing == "external" and any(e.fuser == EXTERNAL for e in wanted))
        )

    @property
    def doubt(self) -> str:
        """Why a log without a single line of a fuser has none, "" where it has some."""
        if self.fused:
            return ""
        if not self.reader.records:
            return "the log has no line of vLLM"
        if self.reader.failed:
            return "vLLM's engine did not start: see its error in the log"
        if not self.reader.backend:
            return (
                "vLLM did not say that it uses its Transformers backend "
                "(--model-impl transformers), or logs no INFO lines"
            )
        return ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, with the schema's version."""
        return {
            "schema_version": 1,
            "ok": not self.missing,
            "vllm": self.reader.release or None,
            "ready": self.reader.ready,
            "lock": self.lock.path if self.lock is not None else None,
            "lines": [
                {
                    "class_name": line.class_name,
                    "fuser": line.fuser,
                    "name": line.child,
                    "becomes": line.becomes,
                    "routing": line.routing or None,
                    "text": self.texts[line],
                    "times": times,
                    "workers": list(self.workers(line)),
                }
                for line, times in self.counts.items()
            ],
            "missing": [vars(missing) for missing in self.missing],
            "more": [self.texts[line] for line in self.more],
            "looks_like_rms_norm": sorted({w.class_name for w in self.warned if w.class_name}),
            "warnings": list(self.warnings),
            "doubt": self.doubt or None,
        }


def _is_of(line: FusedLine, expected: Expectation) -> bool:
    fuser = f"{line.fuser} ({line.routing} routing)" if line.routing else line.fuser
    return (line.class_name, fuser) == expected.key
