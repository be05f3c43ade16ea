"""``modelcheck log``: the log of a starting vLLM server, against modelcheck.lock."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from modelcheck.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from modelcheck.gate.logcheck import LogCheck


@click.command()
@click.argument("file", default="-", metavar="[FILE]")
@click.option("--expect", metavar="LOCK", help="The modelcheck.lock that the log should fulfil.")
@click.option("--until-ready", is_flag=True, help="Stop when the server says that it is up.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def log(file: str, expect: str | None, until_ready: bool, as_json: bool) -> int:
    """Count vLLM's lines about fusions, and say which are missing.

    FILE is a captured log; - (the default) and pipes are read while the server starts, and each
    line is shown as it comes. Exits with 1 when a recorded fusion is missing.
    """
    from modelcheck.gate import lock as locks
    from modelcheck.gate.logcheck import LogCheck

    check = LogCheck(locks.read(Path(expect)) if expect is not None else None)
    stream, live = _opened(file)
    with stream:
        _read(check, stream, live and not as_json, until_ready)
    if as_json:
        print(json.dumps(check.to_json(), indent=2))
    else:
        from rich.console import Console

        from modelcheck.report.gate import render_log

        render_log(check, Console(highlight=False), table=not live)
    return ExitCode.FINDINGS if check.missing else ExitCode.OK


def _opened(file: str) -> tuple[BinaryIO, bool]:
    """The log, and whether somebody is still writing it (a pipe)."""
    if file == "-":
        if sys.stdin.isatty():
            raise UsageError("name a log, or pipe one in: vllm serve ... 2>&1 | modelcheck log -")
        return sys.stdin.buffer, True
    try:
        path = Path(file)
        return path.open("rb"), stat.S_ISFIFO(path.stat().st_mode)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None


def _read(check: LogCheck, stream: BinaryIO, show: bool, until_ready: bool) -> None:
    try:
        for raw in _lines(stream):
            for event in check.feed(raw):
                if show:
                    worker = f" [{event.worker}]" if event.worker else ""
                    print(f"{event.text}{worker}", flush=True)
            if until_ready and check.reader.ready:
                return
    except KeyboardInterrupt:  # it also stops the server that is read: say what there was
        return


def _lines(stream: BinaryIO) -> Iterator[str]:
    for raw in stream:
        yield raw.decode("utf-8", "replace")
