"""The configuration: ``[tool.modelcheck]`` in a pyproject.toml, or a modelcheck.toml.

The nearest one in or above the folder that holds all that is scanned is taken; a pyproject.toml
without the section is passed over. Keys are the names of the options of ``scan``.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelcheck.errors import UsageError

FILES = ("modelcheck.toml", "pyproject.toml")
SECTION = "tool.modelcheck"

PerFileIgnores = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Settings:
    """What a configuration file says; everything empty without one.

    ``path`` is the file, ``root`` the folder that its globs and paths start from (the current
    one without a file). ``per_file_ignores`` pairs a glob with codes.
    """

    path: str = ""
    root: str = ""
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: PerFileIgnores = ()
    vllm: tuple[str, ...] = ()
    transformers: str | None = None
    output_format: str | None = None
    exclude: tuple[str, ...] = ()
    baseline: str | None = None


def load(paths: Sequence[str], config: str | None = None, isolated: bool = False) -> Settings:
    """The settings for a scan of ``paths``: those of ``config``, else the nearest file's.

    Raises `UsageError` naming file and key for what cannot be read or is not understood.
    """
    if isolated:
        return Settings()
    if config is not None:
        table = _table(config)
        if table is None:
            raise UsageError(f"{config}: no [{SECTION}] section")
        return _settings(config, table)
    for folder in _upward(common_folder(paths)):
        for name in FILES:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (table := _table(path)) is not None:
                return _settings(path, table)
    return Settings()


def common_folder(paths: Sequence[str]) -> str:
    """The nearest folder that holds all of ``paths``, absolute."""
    folders = [
        absolute if os.path.isdir(absolute) else os.path.dirname(absolute)
        for absolute in map(os.path.abspath, paths)
    ]
    try:
        return os.path.commonpath(folders)
    except ValueError:  # no paths, or two drives
        return os.getcwd()


def matches(path: str, pattern: str, root: str = "") -> bool:
    """Does a glob name this file: its base name, or its path from ``root``?

    ``*`` matches slashes as well, ``**/`` no folder or any.
    """
    name = os.path.basename(path)
    absolute = os.path.abspath(path).replace(os.sep, "/")
    base = os.path.abspath(root).replace(os.sep, "/").rstrip("/")
    for glob in {pattern, pattern.replace("**/", "")}:
        if fnmatch.fnmatchcase(name, glob):
            return True
        if fnmatch.fnmatchcase(absolute, glob if glob.startswith("/") else f"{base}/{glob}"):
            return True
    return False


def is_excluded(path: str, patterns: Iterable[str], root: str = "") -> bool:
    """Is a file, or a folder above it up to ``root``, named by one of these globs?"""
    globs = [pattern.rstrip("/") for pattern in patterns]
    if not globs:
        return False
    top = os.path.abspath(root)
    current = os.path.abspath(path)
    while True:
        if any(matches(current, glob, root) for glob in globs):
            return True
        parent = os.path.dirname(current)
        if current == top or parent == current:
            return False
        current = parent


def ignored_codes(path: str, ignores: PerFileIgnores, root: str = "") -> tuple[str, ...]:
    """The codes that ``per-file-ignores`` turn off in a file; ``!glob`` means all other files."""
    codes: tuple[str, ...] = ()
    for pattern, entries in ignores:
        hit = matches(path, pattern.removeprefix("!"), root)
        if hit is not pattern.startswith("!"):
            codes += entries
    return codes


def _upward(folder: str) -> Iterable[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _table(path: str) -> Mapping[str, Any] | None:
    """The settings in a file, None for a pyproject.toml that has none."""
    import tomllib  # a scan without settings need not wait for it

    try:
        with open(path, "rb") as stream:
            data = tomllib.load(stream)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None
    if os.path.basename(path) != "pyproject.toml":
        return data
    tool = data.get("tool", {})
    if not isinstance(tool, dict) or "modelcheck" not in tool:
        return None
    section = tool["modelcheck"]
    if not isinstance(section, dict):
        raise UsageError(f"{path}: {SECTION} must be a table")
    return section


def _settings(path: str, table: Mapping[str, Any]) -> Settings:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            import difflib

            near = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.5)
            hint = f", did you mean {near[0]}?" if near else f"; known are {', '.join(_KEYS)}"
            raise UsageError(f"{path}: unknown key {key!r}{hint}")
        read, words = _KEYS[key]
        try:
            values[key.replace("-", "_")] = read(value)
        except TypeError:
            raise UsageError(f"{path}: {key} must be {words}") from None
    return Settings(path=path, root=os.path.dirname(os.path.abspath(path)), **values)


def _string(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError
    return value.strip()


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(_string(item) for item in value)


def _versions(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(_string(part) for part in value.split(","))
    return _strings(value)


def _codes_by_glob(value: object) -> PerFileIgnores:
    if not isinstance(value, dict):
        raise TypeError
    return tuple((_string(glob), _strings(codes)) for glob, codes in value.items())


_CODES = 'a list of codes, as in ["MC1", "MC501"]'
_KEYS: Mapping[str, tuple[Callable[[object], Any], str]] = {
    "select": (_strings, _CODES),
    "extend-select": (_strings, _CODES),
    "ignore": (_strings, _CODES),
    "per-file-ignores": (_codes_by_glob, 'a table of globs, as in {"old_*.py" = ["MC5"]}'),
    "vllm": (_versions, 'a release or a list of them, as in "0.33"'),
    "transformers": (_string, 'a release, as in "5.19"'),
    "output-format": (_string, "the name of a format"),
    "exclude": (_strings, "a list of globs"),
    "baseline": (_string, "the path of a file"),
}
