"""Where a name of transformers is written, found without importing anything.

A package that is installed is asked for its folder only; a file that lies in a transformers tree
itself (an unpacked release, a checkout) is looked at with that tree. Only model code is found:
the library's own machinery (`PreTrainedModel` and its like) is known by name, and costs nothing.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

PACKAGE = "transformers"
_FACTORIES = "auto"  # AutoModel and its like: never the class that is built
_FILES = ("modeling_", "configuration_")
_NEARLY = 5  # letters in common
_MARK = "modeling_utils.py"  # in the root of every release


@lru_cache(maxsize=1)
def installed_root() -> Path | None:
    """The folder of the installed transformers, None without one."""
    from importlib.util import find_spec

    try:
        spec = find_spec(PACKAGE)
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec is not None else None
    # A folder that is merely called so is a package to Python as well.
    return next((Path(p) for p in places or () if is_package(Path(p))), None)


def is_package(folder: Path) -> bool:
    """Is it the folder of a transformers package, site-packages/transformers?"""
    return os.path.isfile(folder / _MARK)


@lru_cache(maxsize=64)
def tree_of(path: Path) -> Path | None:
    """The root of the transformers tree that a model's file lies in (root/models/name/file)."""
    if len(path.parents) < 3 or path.parents[1].name != "models":
        return None
    root = path.parents[2]
    return root if is_package(root) else None


def absolute_name(path: Path, relative: str) -> str:
    """The full name of a relative import in a model's file of a transformers tree.

    "...models.llama.modeling_llama.LlamaMLP" and "..llama.modeling_llama.LlamaMLP" both give
    "transformers.models.llama.modeling_llama.LlamaMLP"; "" for one that leaves the tree.
    """
    level = len(relative) - len(relative.lstrip("."))
    package = [PACKAGE, "models", path.parent.name]
    if not 0 < level <= len(package):
        return ""
    return ".".join([*package[: len(package) - level + 1], relative[level:]])


@lru_cache(maxsize=512)
def locate(root: Path, dotted: str) -> Path | None:
    """The file of a transformers tree that defines a model's class or function.

    ``dotted`` is a full name: "transformers.models.llama.modeling_llama.LlamaMLP", or one that
    the packages export, "transformers.models.llama.LlamaModel" and "transformers.LlamaModel".
    """
    parts = dotted.split(".")
    if parts[0] != PACKAGE:
        return None
    models = root / "models"
    if parts[1:2] == ["models"] and len(parts) > 3:
        folder = parts[2]
        if folder == _FACTORIES:
            return None
        if len(parts) == 5:
            path = models / folder / f"{parts[3]}.py"
            return path if path.is_file() else None
        return _defining(models / folder, parts[3]) if len(parts) == 4 else None
    if len(parts) == 2 or (len(parts) == 3 and parts[1] == "models"):
        return _exported(models, parts[-1])
    return None


@lru_cache(maxsize=512)
def _exported(models: Path, name: str) -> Path | None:
    """Which model a name at the top of the package belongs to.

    A model's classes begin with its name, as its folder does, or nearly so (HunYuanMoEV1Model is
    of hunyuan_v1_moe): the folders are tried by likeness, and the class statement proves it.
    """
    key = name.lower().replace("_", "")
    likeness = [(_shared(key, plain), plain, folder) for plain, folder in _folders(models)]
    for shared, plain, folder in sorted(likeness, reverse=True):
        if shared < min(len(plain), _NEARLY):
            continue
        found = _defining(models / folder, name)
        if found is not None:
            return found
    return None


def _shared(one: str, other: str) -> int:
    """How many letters two names begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


@lru_cache(maxsize=4)
def _folders(models: Path) -> tuple[tuple[str, str], ...]:
    """The models' folders, each with its name as it begins a class name."""
    try:
        names = sorted(os.listdir(models))
    except OSError:
        return ()
    return tuple((n.replace("_", ""), n) for n in names if n.isidentifier() and n != _FACTORIES)


@lru_cache(maxsize=512)
def _defining(folder: Path, name: str) -> Path | None:
    """The file of a model's folder with this class or function at its top level."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None
    statement = re.compile(rb"^(?:class|def) %s\b" % re.escape(name.encode()), re.MULTILINE)
    for file in names:
        if file.startswith(_FILES) and file.endswith(".py"):
            path = folder / file
            try:
                if statement.search(path.read_bytes()):
                    return path
            except OSError:
                continue
    return None


def forget() -> None:
    """A file has changed: look again."""
    for known in (tree_of, locate, _exported, _folders, _defining):
        known.cache_clear()
