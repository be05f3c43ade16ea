"""One run: ``vllm bench``, with a server for "serve", in processes that end with it."""

from __future__ import annotations

import json
import re
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelcheck.errors import WorkerError
from modelcheck.vllm.load import worker_environment
from modelcheck.worker import Guarded, death, environment

SERVER = "vllm.entrypoints.openai.api_server"
HOST = "127.0.0.1"
PAUSE = 0.5  # seconds between two questions whether the server is up
KEPT = ("VLLM_CACHE_ROOT", "VLLM_NO_USAGE_STATS", "PYTHONSAFEPATH")  # of what `load` sets
# Lines about fusions are of this level; a person's own settings may hide them.
LOGGING = {"VLLM_CONFIGURE_LOGGING": "1", "VLLM_LOGGING_LEVEL": "INFO", "NO_COLOR": "1"}
ERROR = re.compile(r"\b\w+(?:Error|Exception): .+$|^.+: error: .+$")
INVALID = re.compile(r"\d+ validation errors? for \w+$")
MILD = re.compile(r"\b(?:DEBUG|INFO|WARNING) \d\d-\d\d \d\d:")
SECOND_HAND = re.compile(r"EngineDeadError|Engine core initialization failed|See stack trace")
LIMIT = 300  # characters of a cause


@dataclass(frozen=True)
class Job:
    """What is run on both sides.

    ``model`` is a folder; ``engine`` are arguments of vLLM's engine, ``arguments`` those of the
    benchmark, ``shared`` go to both. ``timeout`` is in seconds, for one run.
    """

    bench: str
    model: str
    engine: tuple[str, ...]
    arguments: tuple[str, ...]
    shared: tuple[str, ...]
    python: str
    timeout: float
    verbose: bool = False


def benchmark(job: Job, side: str) -> tuple[Mapping[str, Any], str]:
    """``vllm bench latency`` or ``throughput``: its result and its log. Raises `WorkerError`."""
    with tempfile.TemporaryDirectory(prefix="modelcheck-") as name:
        folder = Path(name)
        result = folder / "result.json"
        arguments = ["--model", job.model, "--model-impl", side, "--output-json", str(result)]
        log = folder / "log.txt"
        with _started(job, folder, log, _bench(job, job.bench, arguments, job.engine)) as process:
            code = process.wait()
        said = _said(job, log)
        return _result(result, code, said), said


def serve(job: Job, side: str) -> tuple[Mapping[str, Any], str]:
    """``vllm bench serve`` against a server of its own: its result and the server's log."""
    with tempfile.TemporaryDirectory(prefix="modelcheck-") as name, ExitStack() as stack:
        folder = Path(name)
        result, port = folder / "result.json", _free_port()
        address = ["--host", HOST, "--port", str(port), "--model", job.model]
        server_log, log = folder / "server.txt", folder / "log.txt"
        command = ["-m", SERVER, *address, "--model-impl", side, *job.shared, *job.engine]
        server = stack.enter_context(_started(job, folder, server_log, command))
        _wait_until_up(server, port, server_log, job)
        save = ["--save-result", "--result-dir", str(folder), "--result-filename", result.name]
        command = _bench(job, "serve", [*address, *save], ())
        code = stack.enter_context(_started(job, folder, log, command)).wait()
        found = _result(result, code, _said(job, log))
        if found.get("failed"):
            raise WorkerError(f"{found['failed']} requests failed: {cause(_text(server_log))}")
        return found, _said(job, server_log)


def _bench(job: Job, name: str, own: Sequence[str], engine: Sequence[str]) -> list[str]:
    """The person's arguments come last: of two that contradict each other, the last counts."""
    return ["-m", "modelcheck.ab.bench", name, *own, *job.shared, *engine, *job.arguments]


def _started(job: Job, folder: Path, log: Path, command: Sequence[str]) -> Guarded:
    own = folder / log.stem
    own.mkdir()
    kept = worker_environment(job.python)
    env = environment(own, {**{k: kept[k] for k in KEPT if k in kept}, **LOGGING})
    with open(log, "wb") as stream:
        return Guarded([job.python, "-P", *command], seconds=job.timeout, env=env, stdout=stream)


def _wait_until_up(server: Guarded, port: int, log: Path, job: Job) -> None:
    while server.process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(PAUSE)
    code = server.wait()  # raises for a limit
    text = _said(job, log)
    raise WorkerError(f"the server did not start: {cause(text) or death(code, text)}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _result(path: Path, code: int, log: str) -> Mapping[str, Any]:
    if code or not path.exists():
        raise WorkerError(f"vllm bench failed: {cause(log) or death(code, log)}")
    found: Mapping[str, Any] = json.loads(path.read_text())
    return found


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _said(job: Job, log: Path) -> str:
    text = _text(log)
    if job.verbose:
        sys.stderr.write(text)
    return text


def cause(log: str) -> str:
    """The last line of the first traceback that is not about another process; "" without any."""
    lines = [line for line in log.splitlines() if not MILD.search(line)]
    errors = [
        # pydantic says on the next line what is wrong
        f"{found[0].strip()} {after.strip()}" if INVALID.search(line) else found[0].strip()
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if (found := ERROR.search(line))
    ]
    first = [text for text in errors if not SECOND_HAND.search(text)] or errors
    text = " ".join(first[0].split()) if first else ""
    return text if len(text) <= LIMIT else f"{text[: LIMIT - 3]}..."
