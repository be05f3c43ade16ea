"""Running a job in its own process: time and memory limits, offline, one JSON answer.

The job is a function ``module:name`` that takes one JSON-able dict and returns another.
Whatever it prints goes to this process's stderr or is dropped, never into the answer,
and nothing it started outlives it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelcheck.errors import ExitCode, ModelcheckError, WorkerError

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
TAIL = 65_536  # bytes of the worker's output that are looked at for what it died of


def run_job(
    job: str,
    payload: Mapping[str, Any],
    *,
    timeout: float = 300.0,
    memory_mb: int | None = None,
    python: str | None = None,
    env: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> dict[str, Any]:
    """Run ``job`` on ``payload`` in a fresh interpreter and return its answer.

    ``timeout`` is in seconds of wall clock, ``memory_mb`` limits private writable memory
    (not the address space, of which torch reserves far more than it uses), ``python`` is
    another interpreter (one that has vLLM, say; it sees this modelcheck and nothing else
    of ours). The working directory is not on its module path: a ``json.py`` that lies
    beside a model is not imported by accident.
    Raises `WorkerError` when the job hangs, dies or answers nothing, and a
    `ModelcheckError` with the job's own message when it reports one.
    """
    with tempfile.TemporaryDirectory(prefix="modelcheck-") as folder:
        request, answer = Path(folder, "request.json"), Path(folder, "answer.json")
        request.write_text(
            json.dumps({"job": job, "payload": dict(payload), "memory_mb": memory_mb})
        )
        # Only modelcheck itself, not the site-packages that it may be installed in.
        shown = Path(folder, "path")
        shown.mkdir()
        (shown / "modelcheck").symlink_to(Path(__file__).resolve().parent)
        environ = {
            **os.environ,
            **OFFLINE,
            "PYTHONDONTWRITEBYTECODE": "1",
            "HF_MODULES_CACHE": str(Path(folder, "modules")),  # where remote code is copied to
            **(env or {}),
        }
        environ["PYTHONPATH"] = os.pathsep.join(
            [str(shown), *filter(None, [environ.get("PYTHONPATH")])]
        )
        command = [python or sys.executable, "-P", "-m", "modelcheck.worker"]
        with open(Path(folder, "log.txt"), "w+b") as log:
            try:
                process = subprocess.Popen(
                    [*command, str(request), str(answer)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environ,
                    start_new_session=True,
                )
            except OSError as error:
                raise WorkerError(f"{command[0]}: {error.strerror or error}") from None
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise WorkerError(
                    f"no answer within {timeout:g} s; the worker was stopped"
                ) from None
            finally:
                _kill_group(process)
            log.seek(0 if verbose else max(0, log.seek(0, os.SEEK_END) - TAIL))
            output = log.read().decode(errors="replace")
        if verbose and output:
            sys.stderr.write(output)
        if not answer.exists():
            raise WorkerError(f"the worker ended without an answer ({_cause(code, output)})")
        result: dict[str, Any] = json.loads(answer.read_text())
    if "error" in result:
        raise _rebuild(result["error"])
    value: dict[str, Any] = result["value"]
    return value


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _cause(code: int, output: str) -> str:
    how = f"exit status {code}"
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        how = f"signal {names.get(-code, -code)}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return ": ".join([how, *lines[-1:]])


def _rebuild(error: Mapping[str, Any]) -> ModelcheckError:
    from modelcheck import errors

    kind = getattr(errors, error["type"], None)
    if isinstance(kind, type) and issubclass(kind, ModelcheckError):
        rebuilt = kind.__new__(kind)
        Exception.__init__(rebuilt, error["message"])
        rebuilt.exit_code = ExitCode(error.get("exit_code", kind.exit_code))
        return rebuilt
    return WorkerError(error["message"])


def _main(request_path: str, answer_path: str) -> None:
    request = json.loads(Path(request_path).read_text())
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
    except MemoryError:
        message = f"more than {request['memory_mb']} MB of memory were asked for"
        result = {"error": {"type": "WorkerError", "message": message}}
    except (Exception, SystemExit) as error:  # a fault in the user's model, or in ours
        traceback.print_exc()
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())
        message = f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})"
        result = {"error": {"type": "WorkerError", "message": message}}
    partial = Path(answer_path + ".part")
    partial.write_text(json.dumps(result))
    partial.replace(answer_path)
    sys.stdout.flush()
    os._exit(0)  # neither non-daemon threads nor atexit hooks of the model keep us


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
