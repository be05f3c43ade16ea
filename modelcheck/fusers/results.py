"""What a matcher answers, the same for predicted, traced and loaded evidence."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from modelcheck.findings import Span


class Fires(enum.StrEnum):
    """Does a fuser fire?"""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Evidence(enum.StrEnum):
    """How an answer was come by, weakest first."""

    PREDICTED = "predicted"  # from the source text
    TRACED = "traced"  # torch.fx on the meta device
    LOADED = "loaded"  # vLLM itself


@dataclass(frozen=True)
class FusionResult:
    """One fuser on one class.

    ``fuser`` is vLLM's name without the word Fuser (GLU, QKV, PackedQKV,
    MergedColumnParallel, MLA, RMSNorm, Attention, MoEBlock), ``becomes`` what vLLM puts in
    its place ("QKVParallelLinear"), ``shards`` the (child, shard id) pairs of a merged
    projection, ``reason`` says why not (or why unknown), ``span`` the source it blames.
    """

    fuser: str
    fires: Fires
    class_name: str
    reason: str = ""
    becomes: str = ""
    shards: tuple[tuple[str, str], ...] = ()
    span: Span | None = None
    details: tuple[tuple[str, str], ...] = ()  # e.g. ("eps", "variance_epsilon")
    wrong: str = ""  # fires, and the numbers change: how
    rows: tuple[int, ...] = ()  # output rows of each merged projection, where they are numbers
    merged: str = ""  # the attribute the merged projection is kept under

    @property
    def packed_modules_mapping(self) -> dict[str, list[str]]:
        """The merged projection and what it replaces, as quantisation and LoRA see it."""
        return {self.merged: [child for child, _ in self.shards]} if self.merged else {}

    def orig_to_new_stacked(self, prefix: str) -> dict[str, tuple[str, str]]:
        """For the module at ``prefix``: checkpoint path to (merged path, shard id)."""
        if not self.merged:
            return {}
        dot = f"{prefix}." if prefix else ""
        return {f"{dot}{child}": (f"{dot}{self.merged}", shard) for child, shard in self.shards}

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data = asdict(self)
        data["shards"] = [list(pair) for pair in self.shards]
        data["details"] = dict(self.details)
        data["rows"] = list(self.rows)
        data["packed_modules_mapping"] = self.packed_modules_mapping
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FusionResult:
        """The inverse of `to_json`."""
        span = data.get("span")
        return cls(
            fuser=data["fuser"],
            fires=Fires(data["fires"]),
            class_name=data["class_name"],
            reason=data.get("reason", ""),
            becomes=data.get("becomes", ""),
            shards=tuple((str(a), str(b)) for a, b in data.get("shards", ())),
            span=Span(**span) if span else None,
            details=tuple(sorted(dict(data.get("details", {})).items())),
            wrong=data.get("wrong", ""),
            rows=tuple(data.get("rows", ())),
            merged=data.get("merged", ""),
        )


@dataclass(frozen=True)
class ClassReport:
    """All that is known of one group of equal modules of a built model.

    ``class_name`` is the Python class, ``paths`` the module paths in the base model
    ("layers.0.mlp"), ``fusions`` the fusers that apply to it, ``missed`` those that almost
    did (a look-alike), with the reason.
    """

    class_name: str
    paths: tuple[str, ...]
    fusions: tuple[FusionResult, ...]
    missed: tuple[FusionResult, ...] = ()

    @property
    def count(self) -> int:
        """How many modules."""
        return len(self.paths)

    @property
    def fired(self) -> tuple[str, ...]:
        """Names of the fusers that fire, sorted; what two kinds of evidence are compared by."""
        return tuple(sorted(f.fuser for f in self.fusions if f.fires is Fires.YES))

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "class_name": self.class_name,
            "count": self.count,
            "paths": list(self.paths),
            "fusions": [f.to_json() for f in self.fusions],
            "missed": [f.to_json() for f in self.missed],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClassReport:
        """The inverse of `to_json`."""
        return cls(
            data["class_name"],
            tuple(data["paths"]),
            tuple(FusionResult.from_json(f) for f in data["fusions"]),
            tuple(FusionResult.from_json(f) for f in data["missed"]),
        )
