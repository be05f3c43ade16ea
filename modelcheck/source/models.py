"""Which configuration a model class has, and which model ``AutoModel`` makes of a configuration."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from modelcheck.errors import UnreadableFile
from modelcheck.source.classes import ClassInfo, FileIndex, dotted_name
from modelcheck.source.memory import remembered
from modelcheck.source.text import read_source


@remembered(maxsize=512)
def config_class(info: ClassInfo) -> ClassInfo | None:
    """The configuration class of a model class: ``config_class``, or the annotation of config."""
    found = info.find_attribute("config_class")
    if found is not None:
        resolved = found[0].file.resolve(dotted_name(found[1]))
        if isinstance(resolved, ClassInfo):
            return resolved
    for current in info.mro:
        annotated = current.attributes_annotation("config")
        init = current.methods.get("__init__")
        arguments = [*init.args.posonlyargs, *init.args.args] if init is not None else []
        notes = [a.annotation for a in arguments if a.arg == "config"]
        for note in (annotated, *notes):
            if note is not None:
                resolved = current.file.resolve(_annotation_name(note))
                if isinstance(resolved, ClassInfo) and resolved.kind == "config":
                    return resolved
    return None


def _annotation_name(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return dotted_name(node)


def model_for(file: FileIndex, config: ClassInfo) -> ClassInfo | None:
    """The file's model that ``AutoModel`` makes of a configuration of this class, if one is."""
    built = auto_models(file.path)
    found = [
        info
        for info in file.classes.values()
        if info.kind == "pretrained"
        and (not built or info.name in built)
        and (theirs := config_class(info)) is not None
        and theirs.node is config.node
    ]
    return found[0] if len(found) == 1 else None


def config_of_type(file: FileIndex, model_type: object) -> ClassInfo | None:
    """``CONFIG_MAPPING[model_type]`` for a file inside the transformers package."""
    folder = _auto_folder(file.path)
    for table in ("auto_mappings.py", "configuration_auto.py"):
        name = _table(folder / table, "CONFIG_MAPPING_NAMES").get(str(model_type))
        if name is not None:
            modules = _table(folder / table, "SPECIAL_MODEL_TYPE_TO_MODULE_NAME")
            module = modules.get(str(model_type), str(model_type).replace("-", "_"))
            found = file.project.sibling(file, f"..{module}.configuration_{module}.{name}")
            return found.classes.get(name) if found is not None else None
    return None


def auto_models(path: str) -> frozenset[str]:
    """The classes that ``AutoModel`` builds, for a model file inside the transformers package."""
    return _built(_auto_folder(path))


@lru_cache(maxsize=4)
def _built(folder: Path) -> frozenset[str]:
    table = _table(folder / "modeling_auto.py", "MODEL_MAPPING_NAMES")
    return frozenset(name for names in table.values() for name in names.split())


@lru_cache(maxsize=16)
def _auto_folder(path: str) -> Path:
    return Path(path).absolute().parent.parent / "auto"


@lru_cache(maxsize=64)
def _table(path: Path, name: str) -> Mapping[str, str]:
    """An ``OrderedDict`` of pairs at module level; of several values, all with spaces between."""
    try:
        tree = read_source(str(path)).tree if path.is_file() else None
    except UnreadableFile:
        return {}
    found: dict[str, str] = {}
    for node in tree.body if tree is not None else ():
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and target.id == name:
            for pair in ast.walk(node.value):
                if isinstance(pair, ast.Tuple):
                    key, *words = [n.value for n in ast.walk(pair) if isinstance(n, ast.Constant)]
                    found.setdefault(str(key), " ".join(map(str, words)))
    return found
