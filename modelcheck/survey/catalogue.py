"""The model types of the installed transformers, read from its files without importing it."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelcheck.errors import MissingDependency, UsageError
from modelcheck.source.classes import dotted_name
from modelcheck.source.text import read_source

INSTALL = "pip install 'modelcheck[dryrun]'"
# Where transformers keeps its tables; the first is there since 5.6 or so.
AUTO_FILES = ("auto_mappings.py", "configuration_auto.py", "modeling_auto.py")
CONFIGS, MODELS = "CONFIG_MAPPING_NAMES", "MODEL_MAPPING_NAMES"
FOLDERS = "SPECIAL_MODEL_TYPE_TO_MODULE_NAME"
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class ModelType:
    """A model type, its base class ("" where there is no AutoModel) and the file of that class.

    ``file`` is None where no modeling file defines the class.
    """

    name: str
    base: str
    file: Path | None


@dataclass(frozen=True)
class Catalogue:
    """What an installed transformers has."""

    root: Path  # the package's folder
    version: str
    types: tuple[ModelType, ...]


def installed() -> Catalogue:
    """The transformers that this interpreter would import.

    Raises `MissingDependency` without one, `UsageError` when its tables cannot be read.
    """
    spec = importlib.util.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependency(f"survey needs transformers: {INSTALL}")
    root = Path(next(iter(spec.submodule_search_locations)))
    return read_catalogue(root, importlib.metadata.version("transformers"))


def read_catalogue(root: Path, version: str) -> Catalogue:
    """The model types of a transformers package folder, by name. Raises `UsageError`."""
    found = tables(root / "models" / "auto" / name for name in AUTO_FILES)
    configs, models = found.get(CONFIGS, {}), found.get(MODELS, {})
    if not configs or not models:
        raise UsageError(f"{root}: no table of model types; is this transformers 5?")
    files = class_files(root)
    folders = found.get(FOLDERS, {})
    types = []
    for name in sorted(configs.keys() | models.keys()):
        base = models.get(name, "")
        base = base if isinstance(base, str) else base[0]
        folder = folders.get(name, name.replace("-", "_"))
        types.append(ModelType(name, base, _file(files.get(base, ()), folder)))
    return Catalogue(root, version, tuple(types))


def _file(candidates: Iterable[Path], folder: str) -> Path | None:
    """The file of the type's own folder, else the first."""
    paths = list(candidates)
    own = [path for path in paths if path.parent.name == folder]
    return next(iter(own or paths), None)


def class_files(root: Path) -> dict[str, list[Path]]:
    """For every class of the modeling files, the files that define one of that name."""
    found: dict[str, list[Path]] = {}
    for path in sorted((root / "models").rglob("modeling_*.py")):
        for name in CLASS.findall(path.read_text(encoding="utf-8", errors="replace")):
            found.setdefault(name, []).append(path)
    return found


def tables(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Module-level tables of literals, with what later files add to them."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        if not path.is_file():
            continue
        for node in read_source(path).tree.body:
            for name, value in _table(node):
                found.setdefault(name, {}).update(value)
    return found


def _table(node: ast.stmt) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """``X = OrderedDict(...)`` and ``X.update(...)``, as far as they are literals."""
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, _entries(node.value)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name, _, method = dotted_name(node.value.func).rpartition(".")
        if method == "update":
            yield name, _entries(node.value)


def _entries(call: ast.Call) -> dict[str, Any]:
    """The literal entries among a call's arguments; ``**OTHER`` is of the table itself."""
    entries: dict[str, Any] = {}
    for argument in [*call.args, *(k.value for k in call.keywords if k.arg is None)]:
        try:
            entries |= dict(ast.literal_eval(argument))
        except (ValueError, TypeError):
            continue
    return entries


def choose(types: Iterable[ModelType], wanted: Iterable[str]) -> tuple[ModelType, ...]:
    """The types of these names, all without names. Raises `UsageError` for an unknown one."""
    import difflib

    known = {t.name: t for t in types}
    names = list(dict.fromkeys(wanted)) or list(known)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise UsageError(f"--model-type: transformers has no {name!r}{hint}")
    return tuple(known[name] for name in names)
