"""The sharding of a model, as plain data."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA_VERSION = 1


class Style(enum.StrEnum):
    """What vLLM makes of a linear layer."""

    COLUMN = "column"
    COLUMN_GATHERED = "column, gathered"
    ROW = "row"
    ROW_SPLIT = "row, input split"
    MERGED = "merged column"
    QKV = "merged QKV"
    MERGED_REPLICATED = "merged, replicated"
    REPLICATED = "replicated"


class Origin(enum.StrEnum):
    """Where a style comes from; a fuser overrules the plan."""

    FUSER = "fuser"
    PLAN = "plan"
    DEFAULT = "default"


@dataclass(frozen=True)
class Shard:
    """One part of a projection: ``rows`` of the whole, ``per_rank`` of each rank.

    ``per_rank`` is None where the rows do not divide; ``replicas`` is how many ranks hold the
    same rows (key and value heads fewer than ranks).
    """

    name: str
    rows: int
    per_rank: int | None
    replicas: int = 1


@dataclass(frozen=True)
class LinearPlan:
    """Equal linear layers of a model, under one tensor-parallel size.

    ``path`` is that of the layer in vLLM, numbers as ``*``; ``because`` the fuser or the plan's
    key. ``inputs`` and ``inputs_per_rank`` are the columns of the weight. ``parameters`` is how
    many one of the ``count`` layers has on one rank, None where something does not divide.
    """

    path: str
    count: int
    style: Style
    origin: Origin
    because: str
    inputs: int
    inputs_per_rank: int | None
    shards: tuple[Shard, ...]
    parameters: int | None


@dataclass(frozen=True)
class Problem:
    """What goes wrong with a size: "error" (vLLM stops), "wrong" (other numbers) or "info"."""

    severity: str
    message: str
    path: str = ""


@dataclass(frozen=True)
class SizePlan:
    """One tensor-parallel size.

    ``heads`` and ``kv_heads`` are those of one rank by the configuration, ``kv_replicas`` how
    many ranks share a key-value head. ``bytes_per_rank`` is what the weights of one rank take,
    in the parts ``linears``, ``experts``, ``embeddings`` (the head included) and ``others``;
    None where it cannot be told since something does not divide.
    """

    size: int
    linears: tuple[LinearPlan, ...]
    heads: int | None = None
    kv_heads: int | None = None
    kv_replicas: int = 1
    bytes_per_rank: int | None = None
    parts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def breaks(self) -> bool:
        """Does vLLM stop, or serve other numbers?"""
        return any(p.severity != "info" for p in self.problems)


@dataclass(frozen=True)
class TpReport:
    """The plan of a model for every size asked for."""

    target: str
    model_class: str
    vllm: str
    dtype: str
    sizes: tuple[SizePlan, ...]
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def breaks(self) -> bool:
        """Does any size break?"""
        return any(size.breaks for size in self.sizes)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, with the schema's version."""
        data = asdict(self)
        for size, plan in zip(data["sizes"], self.sizes, strict=True):
            size["breaks"] = plan.breaks
        return {"schema_version": SCHEMA_VERSION, "evidence": "traced", **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TpReport:
        """The inverse of `to_json`."""
        return cls(
            target=data["target"],
            model_class=data["model_class"],
            vllm=data["vllm"],
            dtype=data["dtype"],
            sizes=tuple(_size(size) for size in data["sizes"]),
            notes=tuple(data["notes"]),
            versions=dict(data["versions"]),
        )


def _size(data: Mapping[str, Any]) -> SizePlan:
    values = {key: value for key, value in data.items() if key != "breaks"}
    linears = (
        LinearPlan(
            **{
                **linear,
                "style": Style(linear["style"]),
                "origin": Origin(linear["origin"]),
                "shards": tuple(Shard(**shard) for shard in linear["shards"]),
            }
        )
        for linear in data["linears"]
    )
    problems = tuple(Problem(**problem) for problem in data["problems"])
    return SizePlan(**{**values, "linears": tuple(linears), "problems": problems})
