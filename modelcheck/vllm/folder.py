"""A model folder for vLLM that holds the very configuration that dryrun looked at.

vLLM reads a folder, and the depth of a model is cut before it is built, so the cut
configuration is written to a temporary folder, beside the repository's own code.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelcheck.errors import BuildError
from modelcheck.source.repo import CONFIG, read_config

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from modelcheck.dryrun.build import Built
    from modelcheck.dryrun.target import BuildSpec

CODE = ("*.py", "*.json", "*.jinja")  # what vLLM may read beside the configuration
UNCOMPARED = ("dtype", "torch_dtype", "_name_or_path")
WEIGHTS = ".index.json"  # would send a loader after files that are not there


def write_folder(spec: BuildSpec, built: Built, folder: Path) -> None:
    """Fill an empty ``folder`` with the model that ``built`` is.

    Raises `BuildError` when transformers knows no architecture to name in config.json.
    """
    if spec.folder is None:
        config = built.config
        if not config.architectures:
            config.architectures = [_architecture(config)]
        config.save_pretrained(folder)
        return
    _copy_code(spec.folder, folder)
    _, raw = read_config(spec.folder / CONFIG)
    raw = {**raw, **spec.overrides}
    _write(raw, folder)
    if not (built.depths or spec.overrides):
        return
    from modelcheck.dryrun.build import load_config

    written = replace(spec, path=str(folder), overrides={})
    # Twice: the class may derive a value (head_dim) from those that were changed.
    for _ in range(2):
        read, _ = load_config(written)
        _patch(raw, changes(read.to_dict(), built.config.to_dict()), _aliases(built.config))
        _write(raw, folder)


def _write(raw: Mapping[str, Any], folder: Path) -> None:
    (folder / CONFIG).write_text(json.dumps(raw, indent=2, default=str), encoding="utf-8")


def _copy_code(source: Path, folder: Path) -> None:
    for pattern in CODE:
        for path in source.rglob(pattern):
            inside = path.relative_to(source)
            if any(part.startswith(".") for part in inside.parts) or not path.is_file():
                continue
            if path.name.endswith(WEIGHTS):
                continue
            target = folder / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ``after`` that differ from ``before``, nested as they are."""
    found: dict[str, Any] = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := changes(old, value):
                found[key] = inner
        elif value != old and key not in UNCOMPARED:
            found[key] = value
    return found


def _patch(raw: dict[str, Any], values: Mapping[str, Any], aliases: Mapping[str, str]) -> None:
    """Set values in a parsed config.json, under the name that it uses itself."""
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(raw.get(key), dict):
            _patch(raw[key], value, aliases)
            continue
        raw[key] = value
        for alias, real in aliases.items():
            if real == key and alias in raw:
                raw[alias] = value


def _aliases(config: PretrainedConfig) -> Mapping[str, str]:
    from modelcheck.dryrun.shrink import configs

    return {a: b for _, part in configs(config) for a, b in (part.attribute_map or {}).items()}


def _architecture(config: PretrainedConfig) -> str:
    """The class that a checkpoint of this type would name: a generating one, if there is one."""
    from transformers.models.auto import modeling_auto as auto

    tables = ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SEQ_TO_SEQ_CAUSAL_LM")
    for table in tables:
        names = getattr(auto, f"MODEL_FOR_{table}_MAPPING_NAMES", {})
        if config.model_type in names:
            return str(names[config.model_type])
    name = auto.MODEL_MAPPING_NAMES.get(config.model_type)
    if name is None:
        raise BuildError(f"transformers has no model class for {config.model_type}")
    return str(name if isinstance(name, str) else name[0])
