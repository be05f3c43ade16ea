"""The names (and shapes) of the tensors in a checkpoint, without reading any tensor.

``model.safetensors.index.json`` lists them; of a single ``model.safetensors`` the header does:
eight bytes of length, little-endian, then JSON.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
MAX_HEADER = 100_000_000  # bytes; the format's own limit


@dataclass(frozen=True)
class Checkpoint:
    """Tensor names, and their shapes where a header was read. ``path`` is the file they are in."""

    path: str
    shapes: dict[str, tuple[int, ...] | None]

    @property
    def keys(self) -> frozenset[str]:
        """The names."""
        return frozenset(self.shapes)


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The checkpoint of a folder; None where there is none that can be read."""
    try:
        return _indexed(folder) or _single(folder / SINGLE)
    except (OSError, ValueError, RecursionError):
        return None


def _indexed(folder: Path) -> Checkpoint | None:
    path = folder / INDEX
    if not path.is_file():
        return None
    value = json.loads(path.read_bytes())
    names = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(names, dict) or not names:
        return None
    return Checkpoint(str(path), dict.fromkeys(names))


def _single(path: Path) -> Checkpoint | None:
    text = read_header(path)
    header = json.loads(text) if text is not None else None
    if not isinstance(header, dict):
        return None
    shapes: dict[str, tuple[int, ...] | None] = {}
    for name, entry in header.items():
        if name != "__metadata__" and isinstance(entry, dict):
            shape = entry.get("shape")
            shapes[name] = tuple(shape) if isinstance(shape, list) else None
    return Checkpoint(str(path), shapes) if shapes else None


def read_header(path: Path) -> bytes | None:
    """The JSON at the beginning of a safetensors file; None where there is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(8)
        if len(start) < 8:
            return None
        (length,) = struct.unpack("<Q", start)
        return file.read(length) if length <= MAX_HEADER else None


def header_only(header: bytes) -> bytes:
    """A safetensors file that ends where its tensors begin."""
    return struct.pack("<Q", len(header)) + header
