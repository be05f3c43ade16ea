"""Which line of whose code made a build fail, in one sentence."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from modelcheck.errors import ExitCode, ModelcheckError, WorkerError

LIMIT = 400  # characters of an exception's own text; some of them hold whole lists


def one_line(text: str) -> str:
    """Text without line ends, cut to `LIMIT` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= LIMIT else flat[: LIMIT - 3] + "..."


def describe(error: BaseException, folder: Path | None) -> str:
    """``AttributeError: no attribute 'x' (modeling_x.py:12)``: the cause and its place.

    The place is the last line of the model's own code (``folder``, or transformers' models)
    that was running; no place where neither was.
    """
    error = _behind_property(error)
    text = one_line(str(error))
    if is_class_table(error):
        text = (
            "'vllm': attention is chosen from a dict of classes or functions, and vLLM sets "
            "the attention implementation to 'vllm'"
        )
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = _place(error, folder)
    return f"{message} ({place})" if place else message


@contextlib.contextmanager
def our_fault(folder: Path | None) -> Iterator[None]:
    """For what a worker does once the model has been built: what fails then is ours.

    Raises `WorkerError` with the exit code of an internal error.
    """
    try:
        yield
    except ModelcheckError:
        raise
    except Exception as error:
        traceback.print_exc()
        fault = WorkerError(f"internal: {describe(error, folder)}")
        fault.exit_code = ExitCode.INTERNAL
        raise fault from error


def is_class_table(error: BaseException) -> bool:
    """Did a model look the implementation name "vllm" up in a table of its own?"""
    return isinstance(error, KeyError) and error.args == ("vllm",)


def _place(error: BaseException, folder: Path | None) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        own = _own_file(frame.filename, folder)
        if own is not None:
            return f"{own}:{frame.lineno}"
    for frame in reversed(frames):
        if f"transformers{os.sep}models{os.sep}" in frame.filename and (
            f"models{os.sep}auto{os.sep}" not in frame.filename
        ):
            return f"{Path(frame.filename).name}:{frame.lineno}"
    return ""


def _own_file(filename: str, folder: Path | None) -> Path | None:
    """The file of the repository that a (copied) module was loaded from."""
    if folder is None:
        return None
    parts = Path(filename).parts
    if "transformers_modules" in parts:  # where transformers copies remote code to
        inside = parts[parts.index("transformers_modules") + 1 :]
        for start in range(len(inside)):
            candidate = folder.joinpath(*inside[start:])
            if candidate.is_file():
                return candidate
        return None
    path = Path(filename)
    return path if path.is_file() and path.resolve().is_relative_to(folder.resolve()) else None


def _behind_property(error: BaseException) -> BaseException:
    """The exception that a module's property raised, where torch's lookup has replaced it.

    When a property raises AttributeError, Python falls back to ``nn.Module.__getattr__``,
    which then denies that the property exists. Ask the property itself.
    """
    if not isinstance(error, AttributeError):
        return error
    frame = _last_frame(error.__traceback__)
    if frame is None or frame.f_code.co_name != "__getattr__":
        return error
    owner, name = frame.f_locals.get("self"), frame.f_locals.get("name")
    descriptor = getattr(type(owner), name, None) if isinstance(name, str) else None
    if not isinstance(descriptor, property) or descriptor.fget is None:
        return error
    try:
        descriptor.fget(owner)
    except AttributeError as hidden:
        return hidden
    except Exception:
        return error
    return error


def _last_frame(trace: TracebackType | None) -> FrameType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame if trace is not None else None
