"""What to build, checked as far as that goes without torch."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from modelcheck.errors import BuildError, MissingDependency, UsageError
from modelcheck.fusers.contract import known_releases
from modelcheck.source.repo import CONFIG, read_config
from modelcheck.source.text import parse_bytes, read_bytes

INSTALL = "pip install 'modelcheck[dryrun]'"
BUILT_BY = ("AutoConfig", "AutoModel")  # the auto_map entries that vLLM builds from


@dataclass(frozen=True)
class BuildSpec:
    """A model to build: a folder with a config.json, or a model type of transformers.

    ``overrides`` are configuration values that replace those of the file or the type.
    ``any_class`` builds what vLLM refuses too: a type of transformers without an AutoModel.
    ``name`` is what messages call the model, its path without one.
    """

    path: str | None = None
    model_type: str | None = None
    trust_remote_code: bool = False
    full_depth: bool = False
    any_class: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def target(self) -> str:
        """The name to call it by in messages."""
        return self.name or self.path or self.model_type or ""

    @property
    def folder(self) -> Path | None:
        """The repository folder; ``path`` may also name the config.json in it."""
        if self.path is None:
            return None
        given = Path(self.path)
        return given.parent if given.name == CONFIG else given

    def to_json(self) -> dict[str, Any]:
        """Plain data for the worker."""
        return asdict(self) | {"overrides": dict(self.overrides)}


def check_target(spec: BuildSpec) -> None:
    """Find what is wrong with a target before a process is started for it.

    Raises `UsageError`, `BuildError` or `UnreadableFile`, each naming the file.
    """
    if (spec.path is None) == (spec.model_type is None):
        raise UsageError("give either a folder with a config.json or --model-type, one of the two")
    folder = spec.folder
    if folder is None:
        return
    if not folder.is_dir():
        raise BuildError(f"{spec.path}: no such folder; dryrun needs a folder with a {CONFIG}")
    path = folder / CONFIG
    if not path.exists():
        raise BuildError(f"{folder}: no {CONFIG} in this folder")
    _, config = read_config(path)
    if spec.trust_remote_code:
        _check_remote_code(folder, auto_map(config))


def auto_map(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The auto_map of a parsed config.json, empty where there is none."""
    value = config.get("auto_map")
    return value if isinstance(value, dict) else {}


def _check_remote_code(folder: Path, entries: Mapping[str, Any]) -> None:
    for key in BUILT_BY:
        reference = entries.get(key)
        if reference is None or (isinstance(reference, str) and "--" in reference):
            continue  # absent: transformers may know the type; "--": the code of another repo
        if not isinstance(reference, str) or reference.count(".") != 1:
            raise BuildError(
                f"{folder / CONFIG}: auto_map.{key} is {reference!r}, not 'module.Class'"
            )
        file = folder / f"{reference.partition('.')[0]}.py"
        if not file.exists():
            raise BuildError(
                f"{folder / CONFIG}: auto_map.{key} names {file.name}, which is missing"
            )
        parse_bytes(str(file), read_bytes(file))


def require_dependencies() -> None:
    """Raises `MissingDependency` when this interpreter lacks torch or a usable transformers."""
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependency(f"dryrun needs {' and '.join(missing)}: {INSTALL}")
    oldest = known_releases()[0].transformers
    version = importlib.metadata.version("transformers")
    if not SpecifierSet(oldest).contains(version, prereleases=True):
        raise MissingDependency(f"dryrun needs transformers{oldest}, this is {version}: {INSTALL}")
