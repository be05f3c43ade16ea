"""What the config.json rules share."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

from modelcheck.findings import Finding, Fix, Severity, Span
from modelcheck.rules.base import Context
from modelcheck.source.classes import ClassInfo
from modelcheck.source.repo import Repo


def config_repo(context: Context) -> Repo | None:
    """The repo when it is its config.json that is being checked, else None."""
    repo = context.repo
    if repo is None or repo.config_path is None or repo.config_path != context.file.path:
        return None
    return repo


def key_span(text: str, *keys: str) -> Span:
    """Where the last of the (nested) keys that the JSON text has is; its first line without."""
    position, found = 0, None
    for key in keys:
        match = re.compile(rf'"{re.escape(key)}"(?=\s*:)').search(text, position)
        if match is None:
            break
        found, position = match, match.end()
    if found is None:
        return Span(1, 1, 1, 1)
    line = text.count("\n", 0, found.start()) + 1
    column = found.start() - (text.rfind("\n", 0, found.start()) + 1) + 1
    return Span(line, column, line, column + len(found[0]))


def config_finding(
    context: Context,
    repo: Repo,
    code: str,
    severity: Severity,
    keys: Iterable[str],
    message: str,
    advice: str,
    fix: Fix | None = None,
    class_name: str = "",
) -> Finding:
    """A finding at a key of config.json."""
    placed = context.finding(code, severity, None, context.file.source.tree, message, advice, fix)
    return dataclasses.replace(
        placed, span=key_span(repo.config_text, *keys), class_name=class_name
    )


def architectures(repo: Repo) -> list[str]:
    """The class names that ``architectures`` lists; [] when it is missing or malformed."""
    value = repo.config.get("architectures")
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def class_named(repo: Repo, name: str) -> ClassInfo | None:
    """A class that one of the repo's modeling files defines."""
    for file in repo.files:
        if name in file.classes:
            return file.classes[name]
    return None


def reference_to(info: ClassInfo) -> str:
    """What auto_map calls a class: "modeling_x.XModel"."""
    stem = info.file.path.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
    return f"{stem}.{info.name}"


def _is_inside(repo: Repo, info: ClassInfo) -> bool:
    """Is it a class of the repo's folder, not one of the installed transformers?"""
    return Path(info.file.path).resolve().is_relative_to(repo.folder.resolve())


def config_class(repo: Repo) -> ClassInfo | None:
    """The one configuration class that the repo's files define or import from a sibling.

    With a ``model_type`` in config.json it must be the class's own.
    """
    found: dict[str, ClassInfo] = {}
    for file in repo.files:
        for name in {*file.classes, *file.imports}:
            info = file.resolve(name) if name.endswith("Config") else None
            if isinstance(info, ClassInfo) and info.kind == "config" and _is_inside(repo, info):
                found[info.name] = info
    wanted = repo.config.get("model_type")
    matching = [
        info
        for info in found.values()
        if (own := info.find_attribute("model_type")) is not None
        and getattr(own[1], "value", None) == wanted
    ]
    return matching[0] if len(matching) == 1 else None
