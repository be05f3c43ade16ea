"""Worker processes that stay warm, each job with a time limit; a hung or dead one is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from modelcheck.errors import WorkerError
from modelcheck.worker import Guarded, death, environment

STARTUP = 180.0  # seconds for a worker's imports; torch and transformers take 5 to 30
MEMORY_MB = 8192
QUIET = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
TAIL = 4096

T = TypeVar("T")


@dataclass(frozen=True)
class Task(Generic[T]):
    """A job for a worker; ``about`` is what the answer belongs to, ``timeout`` in seconds."""

    about: T
    job: str
    payload: Mapping[str, Any]
    timeout: float


@dataclass(frozen=True)
class Failure:
    """Why there is no value: the job's own word, or (``stopped``) the process hung or died."""

    error: str
    stopped: bool


@dataclass(frozen=True)
class Done(Generic[T]):
    """A task, its answer, and the seconds that it took (a worker's start included)."""

    task: Task[T]
    answer: dict[str, Any] | Failure
    seconds: float


@dataclass(frozen=True)
class Setup:
    """How workers are started.

    ``modules`` are imported once per worker; ``python`` is another interpreter; with ``fresh``
    every job has a process of its own.
    """

    modules: tuple[str, ...]
    python: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    memory_mb: int | None = MEMORY_MB
    fresh: bool = False


class Worker:
    """One process."""

    def __init__(self, setup: Setup) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="modelcheck-")
        folder = Path(self._folder.name)
        self._log = open(folder / "log.txt", "w+b")  # noqa: SIM115
        self._buffer = b""
        self._said = 0  # where the log of the job begins
        self._guarded = Guarded(
            [setup.python or sys.executable, "-P", "-m", "modelcheck.survey.worker"],
            memory_mb=setup.memory_mb,
            env=environment(folder, {**QUIET, **setup.env}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._process = self._guarded.process
        self._setup = setup

    def ready(self) -> None:
        """Wait for the imports. Raises `WorkerError`."""
        setup = {"modules": self._setup.modules, "memory_mb": self._setup.memory_mb}
        self._ask(setup, STARTUP)

    def run(self, task: Task[T]) -> dict[str, Any] | Failure:
        """Do a job. Raises `WorkerError` when the process hangs or dies: it is of no more use."""
        request = {"job": task.job, "payload": dict(task.payload), "timeout": task.timeout}
        answer = self._ask(request, task.timeout)
        if "error" in answer:
            return Failure(answer["error"], bool(answer["ours"]))
        value: dict[str, Any] = answer["value"]
        return value

    def _ask(self, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._said = self._log.seek(0, os.SEEK_END)
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise WorkerError(f"the worker ended: {self._cause()}") from None
        answer: dict[str, Any] = json.loads(self._line(time.monotonic() + timeout, timeout))
        return answer

    def _line(self, deadline: float, timeout: float) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise WorkerError(f"no answer within {timeout:g} s; the worker was stopped")
            data = os.read(pipe, 1 << 20)
            if not data:
                raise WorkerError(f"the worker ended: {self._cause()}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _cause(self) -> str:
        try:
            code = self._guarded.wait()
        except WorkerError as error:  # a limit
            return str(error)
        self._log.seek(max(self._said, self._log.seek(0, os.SEEK_END) - TAIL))
        return death(code, self._log.read().decode(errors="replace").strip())

    def kill(self) -> None:
        """End the process and whatever it started; whoever waits for its answer is told."""
        self._guarded.hang_up()

    def stop(self) -> None:
        """`kill`, and clean up."""
        self._guarded.stop()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        self._folder.cleanup()


def run_tasks(tasks: Iterable[Task[T]], setup: Setup, jobs: int) -> Generator[Done[T], None, None]:
    """Answers in the order in which they come. Closing the iterator stops the workers."""
    waiting: queue.SimpleQueue[Task[T]] = queue.SimpleQueue()
    count = 0
    for task in tasks:
        waiting.put(task)
        count += 1
    answers: queue.SimpleQueue[Done[T]] = queue.SimpleQueue()
    lanes = [_Lane(waiting, answers, setup) for _ in range(min(jobs, count))]
    for lane in lanes:
        lane.start()
    try:
        for _ in range(count):
            yield answers.get()
    finally:
        for lane in lanes:
            lane.cancel()
        for lane in lanes:
            lane.join()


class _Lane(threading.Thread, Generic[T]):
    """Feeds one worker, and starts another one when it is lost."""

    def __init__(
        self,
        waiting: queue.SimpleQueue[Task[T]],
        answers: queue.SimpleQueue[Done[T]],
        setup: Setup,
    ) -> None:
        super().__init__(daemon=True)
        self._waiting, self._answers, self._setup = waiting, answers, setup
        self._worker: Worker | None = None
        self._cancelled = False

    def run(self) -> None:
        """Until nothing is waiting."""
        while not self._cancelled:
            try:
                task = self._waiting.get_nowait()
            except queue.Empty:
                break
            start = time.monotonic()
            answer = self._do(task)
            self._answers.put(Done(task, answer, time.monotonic() - start))
            if self._setup.fresh:
                self._drop()
        self._drop()

    def _do(self, task: Task[T]) -> dict[str, Any] | Failure:
        try:
            if self._worker is None:
                self._worker = Worker(self._setup)
                if self._cancelled:  # before there was a worker that `cancel` could have killed
                    self._worker.kill()
                self._worker.ready()
            return self._worker.run(task)
        except WorkerError as error:
            self._drop()
            return Failure(str(error), stopped=True)

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    def cancel(self) -> None:
        """End at once, from another thread: the job that is being done is lost."""
        self._cancelled = True
        worker = self._worker
        if worker is not None:
            worker.kill()
