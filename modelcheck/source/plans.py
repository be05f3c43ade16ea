"""Tensor- and pipeline-parallel plans, as vLLM reads them.

A key of a plan is a pattern for transformers (``*`` is a number) and a regular expression for
vLLM: it puts ``model.`` in front, tries the keys in order with ``re.match`` on the module's path,
and takes the first hit (vLLM 0.24 to 0.33). Read from the source; contract section 1.8.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from modelcheck.source.classes import ClassInfo

TP_PLANS = ("_tp_plan", "base_model_tp_plan")
COLUMNS, ROWS, REPLICATE = "colwise", "rowwise", "replicate"
GATHER, SPLIT = "colwise_gather_output", "rowwise_split_input"
STYLES = (COLUMNS, ROWS, REPLICATE, GATHER, SPLIT)


@dataclass(frozen=True, eq=False)
class Entry:
    """One ``"key": style`` of a plan. ``node`` is the key in ``owner``'s file, where it is seen."""

    key: str
    style: Any
    owner: ClassInfo | None = None
    node: ast.expr | None = None

    @cached_property
    def pattern(self) -> re.Pattern[str] | None:
        """What vLLM matches module paths with, None when it is no regular expression."""
        try:
            return re.compile(f"model.{self.key}")
        except re.error:
            return None

    def matches(self, path: str) -> bool:
        """Does vLLM find it for this path in the base model?"""
        return self.pattern is not None and self.pattern.match(f"model.{path}") is not None

    def may_match_below(self, path: str) -> bool:
        """Could it match a longer path, of which only the beginning is known?"""
        wanted, known = self.key.split("."), path.split(".") if path else []
        return all(
            a == b or "*" in a or not a.isidentifier() for a, b in zip(wanted, known, strict=False)
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """The entries of a model's plan, in vLLM's order."""

    entries: tuple[Entry, ...]

    def first(self, path: str) -> Entry | None:
        """The entry that vLLM takes for a module; one that it cannot read stops the search."""
        for entry in self.entries:
            if entry.pattern is None or entry.matches(path):
                return entry
        return None

    def meant(self, path: str) -> Entry | None:
        """The entry that transformers takes: numbers are ``*``, the rest is compared."""
        generic = generic_name(path)
        return next((e for e in self.entries if e.key == generic), None)


def generic_name(path: str) -> str:
    """ "layers.0.mlp" as "layers.*.mlp"."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def tensor_plan(
    model: ClassInfo, config: ClassInfo | None, values: Mapping[str, Any]
) -> Plan | None:
    """The plan of a base model: the class's ``_tp_plan``, then its configuration's.

    ``values`` are those of the configuration. None where the plan cannot be told.
    """
    own = _literal(model, "_tp_plan")
    if own is None or config is None:
        return None
    declared = config.find_attribute("base_model_tp_plan")
    value = values.get("base_model_tp_plan")
    if value is None and declared is not None and not _is_none(declared[1]):
        return None
    if value is not None and not isinstance(value, dict):
        return None
    merged: dict[str, Entry] = {entry.key: entry for entry in own}
    places = _key_nodes(declared)
    for key, style in (value or {}).items():
        if not isinstance(key, str):
            return None
        owner, node = places.get(key, (None, None))
        merged[key] = Entry(key, style, owner, node)
    return Plan(tuple(merged.values()))


def _is_none(node: ast.expr) -> bool:
    removed = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "AttributeError"
    return removed or (isinstance(node, ast.Constant) and node.value is None)


def _literal(info: ClassInfo, name: str) -> list[Entry] | None:
    """The entries of a literal dictionary; [] without one, None for anything else."""
    found = info.find_attribute(name)
    if found is None or _is_none(found[1]):
        return []
    owner, value = found
    if not isinstance(value, ast.Dict):
        return None
    entries = []
    for key, style in zip(value.keys, value.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            return None
        if not isinstance(style, ast.Constant):
            return None
        entries.append(Entry(key.value, style.value, owner, key))
    return entries


def _key_nodes(
    declared: tuple[ClassInfo, ast.expr] | None,
) -> dict[str, tuple[ClassInfo | None, ast.expr | None]]:
    if declared is None or not isinstance(declared[1], ast.Dict):
        return {}
    return {
        key.value: (declared[0], key)
        for key in declared[1].keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
