"""Run a command, and end it with all that it started: at a limit, or when its owner is gone.

A script of the standard library alone, between modelcheck and a process that runs a model's code:

    python guard.py LIFELINE STATUS LIMITS COMMAND...

``LIFELINE`` is the number of a pipe's end that hangs up when the owner ends, however it does;
``STATUS`` the file that the outcome is written to, ``LIMITS`` JSON (`Limits`). On Linux the guard
adopts what the command leaves behind, so that a child in a session of its own is found too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

INTERVAL = 0.2  # seconds between two looks at memory and output
PATIENCE = 0.5  # seconds for a process to say where it is, before it is killed
LAST = 5.0  # seconds until what does not die is left to the kernel
ASK = signal.SIGUSR1  # a worker answers it with the line that it is at
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36  # of Linux' prctl
MEMORY = ("RssAnon:", "RssShmem:")  # not what files can be read into again


@dataclass(frozen=True)
class Limits:
    """None is no limit. ``output_mb`` is of a file that standard output goes to."""

    seconds: float | None = None
    memory_mb: int | None = None
    output_mb: int | None = None
    ask: bool = False  # does the command understand `ASK`?


def main(lifeline: int, status: str, limits: Limits, command: list[str]) -> None:
    """Run the command to its end. STATUS: its ``code``, and the limit that ``stopped`` it."""
    wakeup, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    os.set_inheritable(lifeline, False)
    _prctl(SET_CHILD_SUBREAPER, 1)
    try:
        process = subprocess.Popen(command, start_new_session=True, preexec_fn=_die_with_guard)
    except OSError as error:
        _write(status, {"error": f"{command[0]}: {error.strerror or error}"})
        return
    stopped = _watch(process, lifeline, wakeup, limits)
    if stopped and limits.ask:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(ASK)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
    code = _end(process)
    _write(status, {"code": code, "stopped": stopped})


def _watch(
    process: subprocess.Popen[bytes], lifeline: int, wakeup: int, limits: Limits
) -> str | None:
    """Wait for the end; the reason where it has to be made."""
    end = None if limits.seconds is None else time.monotonic() + limits.seconds
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    while process.poll() is None:
        left = INTERVAL if end is None else min(INTERVAL, end - time.monotonic())
        if left <= 0:
            return "time"
        for descriptor, _ in poll.poll(left * 1000):
            if descriptor == lifeline:
                return "owner"
            if signal.SIGTERM in os.read(wakeup, 4096):
                return "owner"
        if limits.memory_mb is not None and _memory(os.getpid()) > limits.memory_mb * 1024:
            return "memory"
        if limits.output_mb is not None and _written() > limits.output_mb * 1024**2:
            return "output"
    return None


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kill what is left of the command and its children; its status."""
    deadline = time.monotonic() + LAST
    while time.monotonic() < deadline:
        alive = list(descendants(os.getpid()))
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        elif not alive:
            break
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
        process.poll()
        _reap(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # where there is no /proc
        os.killpg(process.pid, signal.SIGKILL)
    code = process.poll()
    return -signal.SIGKILL if code is None else code


def _reap(spared: int) -> None:
    """Collect dead processes that were adopted, not the command itself."""
    for pid in descendants(os.getpid(), dead=True):
        if pid != spared:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def descendants(root: int, dead: bool = False) -> Iterator[int]:
    """The children of a process, theirs, and so on; none where there is no /proc."""
    children: dict[int, list[tuple[int, str]]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and (fields := _stat(name)):
            children.setdefault(int(fields[1]), []).append((int(name), fields[0]))
    found = [root]
    for pid in found:
        for child, state in children.get(pid, ()):
            found.append(child)
            if dead or state not in "ZX":
                yield child


def _stat(pid: str) -> list[str]:
    """The state of a process, its parent, its group and its session."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].decode().split()[:4]
    except OSError:
        return []


def _memory(root: int) -> int:
    """KiB of memory that all descendants hold together."""
    return sum(_held(pid) for pid in descendants(root))


def _held(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as stream:
            return sum(int(line.split()[1]) for line in stream if line.startswith(MEMORY))
    except OSError:
        return 0


def _written() -> int:
    """Bytes in the file that standard output is."""
    state = os.fstat(1)
    return state.st_size if stat.S_ISREG(state.st_mode) else 0


def _die_with_guard() -> None:
    _prctl(SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _write(path: str, outcome: dict[str, object]) -> None:
    with open(path + ".part", "w", encoding="utf-8") as stream:
        json.dump(outcome, stream)
    os.replace(path + ".part", path)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Limits(**json.loads(sys.argv[3])), sys.argv[4:])
