"""Reading the log of a starting vLLM server, line by line, through whatever noise surrounds it.

The lines of vLLM 0.25 to 0.33: ``(Worker_TP0 pid=12) INFO 11-30 08:16:29 [base.py:575] Fused:
...``. A terminal may have coloured and wrapped them, a container or a launcher put something
before them; vLLM's own JSON logging is understood as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from modelcheck.vllm.logs import FusedLine, LogLine, fused_line, misses, warnings

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# What stands before a line: of container logs, of docker compose, of torchrun.
BEFORE = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+(?:std(?:out|err)\s+[FP]\s)?"
    r"|[\w.-]+\s*\|\s?|\[(?:rank|default)\d+\]:\s?)"
)
LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL"
HEAD = re.compile(rf"\b(?P<level>{LEVELS})\s+\d\d-\d\d\s+\d\d:\d\d:\d\d\b")
OTHER_HEAD = re.compile(rf"^(?:{LEVELS}):\s")  # uvicorn's lines
WORKER = re.compile(r"\((?P<name>\w+) (?:\w+=\S+ )*?pid=(?P<pid>\d+)[^()]*\)")
FILE = re.compile(r"^\s*(?:\[[^\]]*\]\s*)?")
BARE = re.compile(r"\b(?:Fused|Found): |\b\w+ looks like an RMSNorm\b")
RELEASE = re.compile(r"\bLLM engine \(v(?P<one>[\w.+]+)\)|\bversion (?P<two>\d+\.\d+[\w.+]*)\s*$")
MESSAGE_KEYS = ("message", "msg", "log")
BACKEND = "Using Transformers modeling backend"
READY = "Application startup complete"
FAILED = "Engine core initialization failed"
GRAVE = ("WARNING", "ERROR")
VERBS = ("Fused: ", "Found: ")
WRAPS = 4  # lines that one message may go on for
ATTENTION = "attention interface"


@dataclass(frozen=True)
class Fused:
    """A ``Fused:`` or ``Found:`` line; ``worker`` is the process, "" where it is not named."""

    line: FusedLine
    text: str
    worker: str = ""


@dataclass(frozen=True)
class Warned:
    """A warning about a fusion; ``class_name`` is set for a norm that only looks like one."""

    text: str
    class_name: str = ""
    worker: str = ""


Event = Fused | Warned


@dataclass(frozen=True)
class _Record:
    """A message as far as it was read; ``parts`` are the lines that it goes on for."""

    level: str
    worker: str
    parts: tuple[str, ...]


@dataclass
class LogReader:
    """A log that is read as it comes. `feed` it lines, ask it what it has seen.

    ``release`` is vLLM's, "" while the log has not said it; ``backend`` tells whether the
    Transformers backend announced itself, ``ready`` whether the server is up, ``failed`` whether
    its engine died before, ``records`` how many lines were vLLM's.
    """

    release: str = ""
    backend: bool = False
    ready: bool = False
    failed: bool = False
    records: int = 0
    _open: _Record | None = field(default=None, repr=False)

    def feed(self, raw: str) -> Iterator[Event]:
        """What one more line shows, at once: what it completes, or says by itself."""
        text = _clean(raw)
        head = HEAD.search(text)
        if head is not None:
            self.records += 1
            worker = WORKER.search(text[: head.start()])
            name = f"{worker['name']} {worker['pid']}" if worker else ""
            self._open = _Record(head["level"], name, (text[head.end() :],))
        elif OTHER_HEAD.match(text):
            self._open = None
        else:
            self._open = _continued(self._open, text) or _bare(text)
        self._notice(text)
        if self._open is not None and not _may_matter(self._open):
            self._open = None
        if self._open is not None:
            event = _event(self._open)
            if event is not None:
                self._open = None
                yield event

    def _notice(self, text: str) -> None:
        self.backend = self.backend or BACKEND in text
        self.ready = self.ready or READY in text
        self.failed = self.failed or FAILED in text
        if not self.release and (found := RELEASE.search(text)):
            self.release = found["one"] or found["two"]


def _may_matter(record: _Record) -> bool:
    """Can a message of which this is the beginning be one that is asked for?"""
    message = record.parts[0].lstrip()
    if record.level in GRAVE:
        return True
    if message.startswith("["):
        message = message.partition("]")[2].lstrip()  # nothing, where the file's name is cut
    start = message[: len(VERBS[0])]
    return any(start.startswith(verb) or verb.startswith(start) for verb in VERBS)


def _continued(record: _Record | None, text: str) -> _Record | None:
    """A message with one more line; None where the line says something by itself."""
    if record is None or len(record.parts) >= WRAPS:
        return None
    longer = replace(record, parts=(*record.parts, text))
    # "MSNorm looks like an RMSNorm" may be the rest of "TarnR", and is asked so first
    return longer if _event(longer) is not None or not BARE.search(text) else None


def _bare(text: str) -> _Record | None:
    """A message in a format of somebody's own, or in a line that was cut before it."""
    found = BARE.search(text)
    if found is None:
        return None
    level = "WARNING" if "looks like" in found[0] else "INFO"
    return _Record(level, "", (text[found.start() :],))


def _clean(raw: str) -> str:
    """A line without colours, carriage returns and what a container or launcher adds."""
    text = ANSI.sub("", raw).rstrip("\r\n")
    text = text.rpartition("\r")[2]  # a progress bar draws over itself
    if text.startswith("{"):
        text = _unwrapped(text)
    before = BEFORE.match(text)
    while before is not None and before.end():
        text = text[before.end() :]
        before = BEFORE.match(text)
    return text


def _unwrapped(text: str) -> str:
    """The message of a JSON line, with its level as vLLM would write it."""
    try:
        data = json.loads(text)
    except ValueError:
        return text
    if not isinstance(data, dict):
        return text
    message = next((data[k] for k in MESSAGE_KEYS if isinstance(data.get(k), str)), None)
    if message is None:
        return text
    level, process = data.get("levelname", data.get("level")), data.get("process")
    if not isinstance(level, str):
        return str(message).rstrip("\n")
    who = f"({data.get('processName', 'process')} pid={process}) " if process else ""
    return f"{who}{level.upper()} 01-01 00:00:00 {message}"


def _event(record: _Record) -> Event | None:
    """What a message says, None while it says nothing that is asked for."""
    graver = record.level in GRAVE
    for message in _joined(record.parts):
        line = fused_line(message)
        if line is not None and _well_formed(line):
            return Fused(line, message.rstrip(), record.worker)
        for miss in misses([LogLine(record.level, message)]) if graver else ():
            if miss.fuser == "RMSNorm":
                text = f"{miss.class_name} looks like an RMSNorm, and is left unfused"
                return Warned(text, miss.class_name, record.worker)
    if graver:
        first = next(_joined(record.parts[:1]))  # of other warnings the beginning will do
        for text in warnings([LogLine(record.level, first)]):
            return Warned(text, "", record.worker)
    return None


def _joined(parts: tuple[str, ...]) -> Iterator[str]:
    """The message, its lines put together in every way: cut within a word, or at a blank."""
    first, *more = [part.strip() for part in parts]
    for blanks in product(("", " "), repeat=len(more)):
        text = first + "".join(b + m for b, m in zip(blanks, more, strict=True))
        yield text[FILE.match(text).end() :]  # type: ignore[union-attr]  # it matches anything


def _well_formed(line: FusedLine) -> bool:
    """Is nothing cut off? A name that is none shows that the lines belong otherwise together."""
    if line.fuser == "Attention" and line.becomes != ATTENTION:
        return False
    child = line.child.replace(" ", "") if line.fuser == "PackedQKV" else line.child
    return line.class_name.isidentifier() and re.fullmatch(r"[\w.]*", child) is not None
