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

from modelcheck.errors import ModelcheckError, WorkerError

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
TAIL = 1  # lines of the worker's stderr that name a death without an answer


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

    ``timeout`` is in seconds of wall clock, ``memory_mb`` limits the address space,
    ``python`` is another interpreter (one that has vLLM, say; it sees this modelcheck).
    Raises `WorkerError` when the job hangs, dies or answers nothing, and a
    `ModelcheckError` with the job's own message when it reports one.
    """
    with tempfile.TemporaryDirectory(prefix="modelcheck-") as folder:
        request, answer = Path(folder, "request.json"), Path(folder, "answer.json")
        request.write_text(
            json.dumps({"job": job, "payload": dict(payload), "memory_mb": memory_mb})
        )
        environ = {**os.environ, **OFFLINE, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        root = str(Path(__file__).resolve().parent.parent)
        environ["PYTHONPATH"] = os.pathsep.join(
            [root, *filter(None, [environ.get("PYTHONPATH")])]
        )
        with open(Path(folder, "log.txt"), "w+b") as log:
            process = subprocess.Popen(
                [python or sys.executable, "-m", "modelcheck.worker", str(request), str(answer)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ,
                start_new_session=True,
            )
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise WorkerError(f"no answer within {timeout:g} s; the worker was stopped") from None
            finally:
                _kill_group(process)
            log.seek(0)
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
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return ": ".join([how, *lines[-TAIL:]])


def _rebuild(error: Mapping[str, str]) -> ModelcheckError:
    from modelcheck import errors

    kind = getattr(errors, error["type"], None)
    if isinstance(kind, type) and issubclass(kind, ModelcheckError):
        rebuilt = kind.__new__(kind)
        Exception.__init__(rebuilt, error["message"])
        return rebuilt
    return WorkerError(error["message"])


def _main(request_path: str, answer_path: str) -> None:
    request = json.loads(Path(request_path).read_text())
    if request["memory_mb"]:
        limit = request["memory_mb"] * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    module, _, name = request["job"].partition(":")
    try:
        value = getattr(importlib.import_module(module), name)(request["payload"])
        result: dict[str, Any] = {"value": value}
    except ModelcheckError as error:
        result = {"error": {"type": type(error).__name__, "message": str(error)}}
    except MemoryError:
        message = f"more than {request['memory_mb']} MB of memory were asked for"
        result = {"error": {"type": "WorkerError", "message": message}}
    except Exception as error:  # a fault in the user's model, or in ours: one line, never a trace
        traceback.print_exc()
        last = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
        result = {"error": {"type": "WorkerError", "message": message}}
    partial = Path(answer_path + ".part")
    partial.write_text(json.dumps(result))
    partial.replace(answer_path)
    sys.stdout.flush()
    os._exit(0)  # neither non-daemon threads nor atexit hooks of the model keep us


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
