"""From the paths a user names to the files that are checked."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from modelcheck.errors import UnreadableFile
from modelcheck.source.repo import CONFIG, read_config
from modelcheck.source.text import read_bytes

PATTERNS = ("modeling_*.py", "modular_*.py")
SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages"}
_RELATIVE = re.compile(rb"^[ \t]*from[ \t]+\.(\w+)[ \t]+import\b", re.MULTILINE)
_MODULES = re.compile(rb"\bnn\.Module\b|\bPreTrainedModel\b")
MODEL_KEYS = ("architectures", "auto_map", "model_type")


@dataclass(frozen=True)
class Discovered:
    """What a run checks, each real file once, as the user's paths name it."""

    modeling: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    unreadable: tuple[UnreadableFile, ...] = ()
    empty: tuple[str, ...] = ()  # paths in which there was nothing to check


@dataclass
class _Collector:
    modeling: list[str] = field(default_factory=list)
    configs: list[str] = field(default_factory=list)
    unreadable: list[UnreadableFile] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def add(self, path: str) -> None:
        real = os.path.realpath(path)
        if real not in self.seen:
            self.seen.add(real)
            (self.configs if is_config(path) else self.modeling).append(path)


def discover(paths: Iterable[str]) -> Discovered:
    """The modeling files and config.json files in ``paths`` (files and folders).

    A folder gives its ``modeling_*.py`` and ``modular_*.py`` files, the files that the
    auto_map of a config.json beside them names, and that config.json. Hidden folders,
    virtual environments and notebooks are passed over; a file given by name is always taken
    when it is Python or a config.json. A path that does not exist is in ``unreadable``.
    """
    found = _Collector()
    empty: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            if not _add_folder(path, found):
                empty.append(path)
        elif not os.path.exists(path):
            found.unreadable.append(UnreadableFile(path, "no such file or folder"))
        elif path.endswith(".py") or is_config(path):
            found.add(path)
        else:
            found.unreadable.append(UnreadableFile(path, "neither a Python file nor a config.json"))
    return Discovered(
        tuple(found.modeling), tuple(found.configs), tuple(found.unreadable), tuple(empty)
    )


def is_config(path: str) -> bool:
    """Is it a configuration, not code?"""
    return os.path.basename(path) == CONFIG


def is_modeling(name: str) -> bool:
    """Does a file's name say that it holds a model?"""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in PATTERNS)


def modeling_files(folder: str, auto_map: Iterable[str] = ()) -> list[str]:
    """The modeling files directly in a folder ("" is the current one).

    With an auto_map, the files that it names are among them, and those with modules that these
    import from beside them.
    """
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return []
    named = {module_file(reference) for reference in auto_map} & {*names}
    chosen = named | {name for name in names if is_modeling(name)}
    if named:
        chosen |= _helpers(folder, chosen, {*names})
    found = [os.path.join(folder, name) for name in names if name in chosen]
    return [path for path in found if is_modeling(os.path.basename(path)) or os.path.isfile(path)]


def _helpers(folder: str, chosen: set[str], names: set[str]) -> set[str]:
    """The files with modules that some import with ``from .attention import …``."""
    found: set[str] = set()
    seen, pending = {*chosen}, [*chosen]
    while pending:
        name = pending.pop()
        try:
            data = read_bytes(os.path.join(folder, name))
        except UnreadableFile:
            continue  # said when it is checked
        if name not in chosen and _MODULES.search(data):
            found.add(name)
        beside = {f"{module.decode()}.py" for module in _RELATIVE.findall(data)}
        pending += (beside & names) - seen
        seen |= beside
    return found


def module_file(reference: str) -> str:
    """The file behind an auto_map entry: "repo--modeling_x.XModel" to "modeling_x.py"."""
    return reference.rpartition("--")[2].partition(".")[0] + ".py"


def _add_folder(root: str, found: _Collector) -> bool:
    any_file = False
    for folder in _folders("" if root == "." else root):
        config_path = os.path.join(folder, CONFIG)
        config: dict[str, object] = {}
        if os.path.isfile(config_path):
            try:
                config = read_config(Path(config_path))[1]
            except UnreadableFile:
                config = {"model_type": None}  # the scan itself says what is wrong with it
        auto_map = config.get("auto_map")
        references = auto_map.values() if isinstance(auto_map, dict) else ()
        files = modeling_files(folder, [r for r in references if isinstance(r, str)])
        for path in files:
            found.add(path)
        is_model = bool(files) or any(key in config for key in MODEL_KEYS)
        if is_model and os.path.isfile(config_path):
            found.add(config_path)
        any_file = any_file or is_model
    return any_file


def _folders(root: str) -> Iterator[str]:
    """``root`` and the folders below it, sorted, each real folder once."""
    visited: set[str] = set()
    stack = [root]
    while stack:
        folder = stack.pop()
        real = os.path.realpath(folder)
        if real in visited:
            continue
        visited.add(real)
        yield folder
        try:
            names = sorted(os.listdir(folder or "."), reverse=True)
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith(".") or name in SKIPPED_FOLDERS or not os.path.isdir(path):
                continue
            if not os.path.exists(os.path.join(path, "pyvenv.cfg")):
                stack.append(path)
