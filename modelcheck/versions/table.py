"""One entry for each thing that a transformers release no longer has.

The data are in `imports_data` and `api_data`, both read off the wheels of 42 releases; a test
compares them with the installed release.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


class Kind(enum.StrEnum):
    """What has gone."""

    MODULE = "module"
    IMPORT = "import"
    CACHE_METHOD = "cache method"
    MODEL_METHOD = "model method"
    CONFIG_ATTRIBUTE = "config attribute"
    ARGUMENT = "argument"
    CONSTANT = "key of a table"


@dataclass(frozen=True)
class Change:
    """Something that the releases before ``until`` have, and those from it on have not.

    ``owner`` is the module or class. ``since`` is the first of the compared releases that has it,
    ``until`` the first that has not; ``replacement`` says what to use, "" where there is nothing.
    """

    kind: Kind
    owner: str
    name: str
    since: str
    until: str
    replacement: str = ""


@cache
def removed_imports() -> Mapping[tuple[str, str], Change]:
    """Removed names by module and name; a removed module has the name ""."""
    from modelcheck.versions.imports_data import NAMES

    found: dict[tuple[str, str], Change] = {}
    for line in NAMES.strip().splitlines():
        module, since, until, *names = line.split()
        if not names:
            found[module, ""] = Change(Kind.MODULE, module, "", since, until)
        for entry in names:
            name, _, home = entry.partition("=")
            instead = f"from {home} import {name}" if home else ""
            found[module, name] = Change(Kind.IMPORT, module, name, since, until, instead)
    return found


def removed_import(module: str, name: str = "") -> Change | None:
    """Why ``from module import name`` (``import module`` without a name) can fail."""
    known = removed_imports()
    parts = module.split(".")
    for length in range(2, len(parts) + 1):
        change = known.get((".".join(parts[:length]), ""))
        if change is not None:
            return change
    if not name:
        return None
    return known.get((module, name)) or known.get((f"{module}.{name}", ""))


@cache
def removed_arguments() -> Mapping[tuple[str, str], Change]:
    """Removed keyword arguments, by function and name."""
    from modelcheck.versions.api_data import CHANGES

    return {(c.owner, c.name): c for c in CHANGES if c.kind is Kind.ARGUMENT}


@cache
def removed(kind: Kind) -> Mapping[str, Change]:
    """The removed members of one kind, by name."""
    from modelcheck.versions.api_data import CHANGES

    return {change.name: change for change in CHANGES if change.kind is kind}
