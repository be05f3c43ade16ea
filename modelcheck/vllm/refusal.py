"""vLLM's refusal of a model, as one line that names the cause."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

CLASS = re.compile(r"<class '(?:[\w.]+\.)?(\w+)'>")  # repr of a class, its module in front
EMPTY_ASSERTION = "Assertion failed,"
OPERATORS = ("torch", "_ops.py")


def refusal(error: BaseException, folder: Path | None, device: str = "cpu") -> str:
    """What to tell the user about an exception that vLLM let through.

    A limit of the CPU build is named as such: it says nothing about the model. Neither does a
    value read while building on meta: vLLM itself builds buffers on a real device, and the
    model has been built on meta before without that.
    """
    if device == "meta" and "meta tensors" in str(error):
        return f"vLLM cannot build this model on meta ({_text(error, folder)}); try --device cpu"
    limit = _cpu_code(error)
    if limit is not None:
        return f"a limit of vLLM's CPU build, not of the model ({limit})"
    text = CLASS.sub(r"\1", _text(error, folder))
    return f"vLLM refuses the model: {text}"


def _text(error: BaseException, folder: Path | None) -> str:
    from modelcheck.dryrun.causes import describe, one_line

    entries = getattr(error, "errors", None)
    if type(error).__name__ == "ValidationError" and callable(entries):
        # pydantic: only what vLLM's own validator said, not the input it was given
        said = [one_line(str(entry.get("msg", ""))) for entry in entries()]
        text = "; ".join(message.removeprefix("Value error, ") for message in said if message)
        if text == EMPTY_ASSERTION:
            return "the class that auto_map names is not a PreTrainedModel of transformers"
        return text
    if isinstance(error, ValueError | NotImplementedError | ImportError) and str(error):
        return one_line(str(error))  # written for users
    return describe(error, folder) + _inside(error)


def _inside(error: BaseException) -> str:
    """Where in vLLM an error came up that was not written for users."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or "vllm" not in Path(frames[-1].filename).parts:
        return ""
    return f" (vLLM's {Path(frames[-1].filename).name}:{frames[-1].lineno})"


def _cpu_code(error: BaseException) -> str | None:
    """File, line and text where vLLM's CPU-only code gave up, if that is what happened."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).parts[-2:] != OPERATORS  # what vLLM's compiled code raises
    ]
    if not frames:
        return None
    last = frames[-1]
    path = Path(last.filename)
    names = (*path.stem.split("_"), *last.name.split("_"))
    if "vllm" not in path.parts or "cpu" not in names:
        return None
    said = " ".join(str(error).split()) or (last.line or "")
    return f"{path.name}:{last.lineno}: {said}"
