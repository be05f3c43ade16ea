"""A model repository: config.json, and the files that belong to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from modelcheck.errors import UnreadableFile
from modelcheck.source.checkpoint import Checkpoint, read_checkpoint
from modelcheck.source.classes import FileIndex
from modelcheck.source.text import read_bytes

CONFIG = "config.json"


@dataclass(frozen=True, eq=False)
class Repo:
    """A folder with a config.json, or with modeling files only.

    ``config`` is empty and ``config_path`` None without a config.json. ``files`` are the
    scanned files of the folder.
    """

    folder: Path
    config_path: str | None = None
    config_text: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[FileIndex, ...] = ()

    @property
    def auto_map(self) -> Mapping[str, str]:
        """The auto_map of config.json: "AutoModel" to "modeling_x.XModel"."""
        value = self.config.get("auto_map")
        if not isinstance(value, dict):
            return {}
        return {str(k): v for k, v in value.items() if isinstance(v, str)}

    @cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The names of the folder's weights, read when first asked for; None without any."""
        return read_checkpoint(self.folder) if self.config_path is not None else None


def read_config(path: Path) -> tuple[str, dict[str, Any]]:
    """The text and value of a config.json. Raises `UnreadableFile` with the line."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
        value = json.loads(text)
    except UnicodeDecodeError as error:
        raise UnreadableFile(path, f"not valid utf-8: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise UnreadableFile(path, f"not valid JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise UnreadableFile(path, "not valid JSON: nested too deeply") from None
    if not isinstance(value, dict):
        raise UnreadableFile(path, "not a model configuration: the top level is not an object")
    return text, value
