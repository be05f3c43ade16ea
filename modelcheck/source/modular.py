"""Modular files and what transformers generates from them.

An author writes ``modular_x.py``; transformers' converter writes ``modeling_x.py`` from it, with
the code of every parent class copied in, and a notice at the top. The generated file is what
runs, so it is checked; the modular file is what is edited.
"""

from __future__ import annotations

import os
import re

from modelcheck.errors import UnreadableFile
from modelcheck.source.memory import remembered
from modelcheck.source.text import read_bytes

_NOTICE = re.compile(r"automatically generated from\s+(\S*modular_\w+\.py)")
_NOTICE_AT_MOST = 2000  # characters into the file
_MODULAR = "modular_"
_GENERATED = "modeling_"


def generated_from(path: str, text: str) -> str:
    """The modular file that a file was generated from, "" for any other file."""
    if is_modular(path) or "automatically generated" not in text[:_NOTICE_AT_MOST]:
        return ""
    match = _NOTICE.search(text, 0, _NOTICE_AT_MOST)
    return match[1] if match else ""


def is_modular(path: str) -> bool:
    """Does its name say so?"""
    return os.path.basename(path).startswith(_MODULAR)


def modular_of(path: str, origin: str) -> str:
    """Where the modular file of a generated one lies, "" when it is not beside it."""
    beside = os.path.join(os.path.dirname(path), os.path.basename(origin))
    return beside if os.path.isfile(beside) else ""


def generated_of(path: str) -> str:
    """The modeling file that was generated from a modular one, "" when there is none."""
    name = os.path.basename(path)
    twin = os.path.join(os.path.dirname(path), _GENERATED + name.removeprefix(_MODULAR))
    text = _text(twin) if is_modular(path) else ""
    return twin if os.path.basename(generated_from(twin, text)) == name else ""


def where_to_change(path: str, origin: str, class_name: str) -> str:
    """The sentence that sends an author from a generated file to the modular one."""
    name = os.path.basename(origin)
    modular = modular_of(path, origin)
    again = f"generate {os.path.basename(path)} from it again"
    if not modular:
        return f"Do it in {name}, which is not here, and {again}."
    if class_name and not _defines(modular, class_name):
        return (
            f"Do it in {name}, which takes {class_name} from another model: write the class "
            f"there, and {again}."
        )
    return f"Do it in {name}, and {again}."


@remembered(maxsize=256)
def _defines(path: str, class_name: str) -> bool:
    """Has a file such a class statement?"""
    return re.search(rf"^class {class_name}\b", _text(path), re.MULTILINE) is not None


@remembered(maxsize=8)
def _text(path: str) -> str:
    """A file's text, "" for one that cannot be read (its own check says so)."""
    try:
        return read_bytes(path).decode("utf-8", errors="replace")
    except UnreadableFile:
        return ""
