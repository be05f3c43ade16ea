"""Running a job in its own process: time and memory limits, offline, one JSON answer.

The job is a function ``module:name`` that takes one JSON-able dict and returns another.
Whatever it prints goes to this process's stderr or is dropped, never into the answer,
and nothing it started outlives it, nor this process: `modelcheck.guard` sees to that.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from modelcheck import guard
from modelcheck.errors import ExitCode, ModelcheckError, WorkerError

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
TAIL = 65_536  # bytes of the worker's output that are looked at for what it died of
OUTPUT_MB = 256  # of what a process prints, which is kept on disk
SHARE = 0.9  # of the machine's memory, which is the limit where no lower one is given
REMOTE = "transformers_modules"  # the package that transformers copies a model's own code to
FRAME = re.compile(r'^  File "(?P<path>.+)", line (?P<line>\d+) in ', re.M)  # of faulthandler


class Guarded:
    """A command in a process of its own, which ends within its limits, and with this process.

    ``memory_mb`` is what it and its children may hold together; without it most of what the
    machine has. ``seconds`` are of wall clock. Raises `WorkerError` when it cannot be started.
    Use it as a context: what is left of the command is ended there.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        seconds: float | None = None,
        memory_mb: int | None = None,
        ask: bool = False,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.STDOUT,
    ) -> None:
        if shutil.which(command[0]) is None:
            raise WorkerError(f"{command[0]}: no such program")
        machine = machine_mb()
        caps = [cap for cap in (memory_mb, machine and int(machine * SHARE)) if cap]
        limits = guard.Limits(seconds, min(caps, default=None), OUTPUT_MB, ask)
        self.limits = limits
        self._folder = tempfile.TemporaryDirectory(prefix="modelcheck-")
        self._status = Path(self._folder.name, "status.json")
        hangs_up, self._lifeline = os.pipe()
        try:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", guard.__file__),
                    *(str(hangs_up), str(self._status), json.dumps(vars(limits))),
                    *command,
                ],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=env,
                pass_fds=[hangs_up],
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._lifeline)
            raise WorkerError(f"{command[0]}: {error.strerror or error}") from None
        finally:
            os.close(hangs_up)

    def wait(self) -> int:
        """The command's status, negative for a signal, once it has ended.

        Raises `WorkerError` when a limit ended it.
        """
        self.process.wait()
        try:
            outcome = json.loads(self._status.read_text())
        except OSError:
            raise WorkerError("the worker was stopped from outside") from None
        if "error" in outcome:
            raise WorkerError(outcome["error"])
        reasons = {
            "time": f"no answer within {self.limits.seconds or 0:g} s; the worker was stopped",
            "memory": f"it took more than {self.limits.memory_mb} MB of memory, and was stopped",
            "output": f"it printed more than {OUTPUT_MB} MB, and was stopped",
            "owner": "the worker was stopped",
        }
        if outcome["stopped"]:
            raise WorkerError(reasons[outcome["stopped"]])
        return int(outcome["code"])

    def hang_up(self) -> None:
        """Have the command and all that it started killed; does not wait for it."""
        with contextlib.suppress(OSError):
            lifeline, self._lifeline = self._lifeline, -1
            os.close(lifeline)

    def stop(self) -> None:
        """`hang_up`, and wait."""
        self.hang_up()
        try:
            self.process.wait(guard.PATIENCE + 2 * guard.LAST)
        except subprocess.TimeoutExpired:  # it does not get any time to run
            self.process.kill()  # the command dies with it
            self.process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Guarded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def machine_mb() -> int | None:
    """The memory of this machine or container; None where that cannot be known."""
    found: list[int] = []
    with contextlib.suppress(ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # control groups 2 and 1
        with contextlib.suppress(ValueError, OSError):  # "max"
            found.append(int(Path("/sys/fs/cgroup", name).read_text()))
    return min(found) // 1024**2 if found else None


def environment(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """What a worker sees: offline, and of this installation only modelcheck itself.

    ``folder`` is a temporary one of the worker's own.
    """
    shown = folder / "path"
    shown.mkdir()
    (shown / "modelcheck").symlink_to(Path(__file__).resolve().parent)
    environ = {
        **os.environ,
        **OFFLINE,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_MODULES_CACHE": str(folder / "modules"),  # where remote code is copied to
        **env,
    }
    paths = [str(shown), *filter(None, [environ.get("PYTHONPATH")])]
    return {**environ, "PYTHONPATH": os.pathsep.join(paths)}


def run_job(
    job: str,
    payload: Mapping[str, Any],
    *,
    about: str = "",
    timeout: float = 300.0,
    memory_mb: int | None = None,
    python: str | None = None,
    env: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> dict[str, Any]:
    """Run ``job`` on ``payload`` in a fresh interpreter and return its answer.

    ``about`` is the model that a `WorkerError` names. ``timeout`` is in seconds of wall clock,
    ``memory_mb`` limits private writable memory (not the address space, of which torch reserves
    far more than it uses), ``python`` is another interpreter (one that has vLLM, say; it sees
    this modelcheck and nothing else of ours). The working directory is not on its module path: a
    ``json.py`` that lies beside a model is not imported by accident.
    Raises `WorkerError` when the job hangs, dies or answers nothing, and a
    `ModelcheckError` with the job's own message when it reports one.
    """
    try:
        return _run(job, payload, timeout, memory_mb, python, env or {}, verbose)
    except WorkerError as error:
        if not about:
            raise
        named = WorkerError(f"{about}: {error}")
        named.exit_code = error.exit_code
        raise named from None


def _run(
    job: str,
    payload: Mapping[str, Any],
    timeout: float,
    memory_mb: int | None,
    python: str | None,
    env: Mapping[str, str],
    verbose: bool,
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="modelcheck-") as name:
        folder = Path(name)
        request, answer, trace = (folder / name for name in ("request", "answer", "trace"))
        request.write_text(
            json.dumps({"job": job, "payload": dict(payload), "memory_mb": memory_mb})
        )
        command = [python or sys.executable, "-P", "-m", "modelcheck.worker"]
        reason, code = "", 0
        with open(folder / "log.txt", "w+b") as log:
            with Guarded(
                [*command, str(request), str(answer), str(trace)],
                seconds=timeout,
                memory_mb=memory_mb,
                ask=True,
                env=environment(folder, env),
                stdout=log,
            ) as worker:
                try:
                    code = worker.wait()
                except WorkerError as error:
                    reason = str(error)
            log.seek(0 if verbose else max(0, log.seek(0, os.SEEK_END) - TAIL))
            output = log.read().decode(errors="replace")
        if verbose and output:
            sys.stderr.write(output)
        if not answer.exists():
            place = _place_in(trace.read_text(errors="replace")) if trace.exists() else ""
            if reason:
                raise WorkerError(f"{reason} (at {place})" if place else reason)
            cause = death(code, output, place)
            raise WorkerError(f"the worker ended without an answer ({cause})")
        result: dict[str, Any] = json.loads(answer.read_text())
    if "error" in result:
        raise _rebuild(result["error"])
    value: dict[str, Any] = result["value"]
    return value


def death(code: int, output: str, place: str = "") -> str:
    """What a process died of: its status, and the place or its last words."""
    how = f"exit status {code}"
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        how = f"signal {names.get(-code, -code)}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"{how} at {place}" if place else ": ".join([how, *lines[-1:]])


def _place_in(dumps: str) -> str:
    """The line of the model's own code in the last of faulthandler's dumps, "" without any.

    That of transformers' models where none of its own ran.
    """
    last = dumps.rpartition("(most recent call first)")[2]
    frames = [(Path(m["path"]), m["line"]) for m in FRAME.finditer(last)]
    for wanted in ({REMOTE}, {"transformers", "models"}):
        for path, line in frames:
            if wanted <= set(path.parts):
                return f"{path.name}:{line}"
    return ""


def _rebuild(error: Mapping[str, Any]) -> ModelcheckError:
    from modelcheck import errors

    kind = getattr(errors, error["type"], None)
    if isinstance(kind, type) and issubclass(kind, ModelcheckError):
        rebuilt = kind.__new__(kind)
        Exception.__init__(rebuilt, error["message"])
        rebuilt.exit_code = ExitCode(error.get("exit_code", kind.exit_code))
        return rebuilt
    return WorkerError(error["message"])


def _main(request_path: str, answer_path: str, trace_path: str) -> None:
    request = json.loads(Path(request_path).read_text())
    _leave_a_trace(trace_path)
    if request["memory_mb"]:
        limit = request["memory_mb"] * 1024 * 1024
        with contextlib.suppress(ValueError, OSError):  # a lower hard limit is in force
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    module, _, name = request["job"].partition(":")
    try:
        value = getattr(importlib.import_module(module), name)(request["payload"])
        result: dict[str, Any] = {"value": value}
    except ModelcheckError as error:
        result = {
            "error": {
                "type": type(error).__name__,
                "message": str(error),
                "exit_code": error.exit_code,
            }
        }
    except MemoryError as error:
        limit = request["memory_mb"]
        wanted = f"more than {limit} MB of memory were asked for" if limit else "memory ran out"
        message = f"{wanted}{_place(error)}"
        result = {"error": {"type": "WorkerError", "message": message}}
    except BaseException as error:  # a fault in the user's model, or in ours
        with contextlib.suppress(Exception):  # it may have closed stderr
            traceback.print_exc()
        text = " ".join(str(error).split())
        message = f"{type(error).__name__}: {text}{_place(error)}"
        result = {"error": {"type": "WorkerError", "message": message}}
    partial = Path(answer_path + ".part")
    partial.write_text(json.dumps(result))
    partial.replace(answer_path)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    _exit(0)  # neither non-daemon threads nor atexit hooks of the model keep us


_exit = os._exit


def _leave_a_trace(path: str) -> None:
    """Have the line written down that crashes, hangs or leaves; `_place_in` reads it."""
    said = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    faulthandler.enable(said, all_threads=False)
    faulthandler.register(guard.ASK, said, all_threads=False)
    own = os.getpid()

    def leave(status: int) -> None:
        if os.getpid() == own:
            faulthandler.dump_traceback(said, all_threads=False)
        _exit(status)

    os._exit = leave  # type: ignore[assignment]


def _place(error: BaseException) -> str:
    """ " (modeling_x.py:7)": the last line of the model's own code, else of any."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if REMOTE in Path(frame.filename).parts]
    last = (own or frames)[-1:]
    return "".join(f" ({Path(frame.filename).name}:{frame.lineno})" for frame in last)


if __name__ == "__main__":
    _main(*sys.argv[1:])
