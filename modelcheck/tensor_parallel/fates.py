"""What vLLM makes of every linear layer of a built model, under one tensor-parallel size.

A fuser decides first, then the plan of transformers, and what neither names is replicated
(vLLM 0.25 to 0.33).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from modelcheck.fusers.results import ClassReport, Fires, FusionResult
from modelcheck.source.plans import COLUMNS, GATHER, REPLICATE, ROWS, SPLIT, Entry, Plan
from modelcheck.tensor_parallel.results import Origin, Style

STYLES = {
    COLUMNS: Style.COLUMN,
    ROWS: Style.ROW,
    REPLICATE: Style.REPLICATED,
    GATHER: Style.COLUMN_GATHERED,
    SPLIT: Style.ROW_SPLIT,
}
QKV = ("QKV", "PackedQKV")
MERGING = ("GLU", "MergedColumnParallel", "QKV")


@dataclass(frozen=True)
class Part:
    """A linear of the model as transformers has it."""

    name: str
    module: nn.Linear


@dataclass(frozen=True)
class Fate:
    """One linear in vLLM: the ``parts`` it is made of, at ``path``.

    ``rows`` are the sizes of its shards with their names; ``head_size`` is set where they are
    heads of query, key and value. ``owner`` is the path of the module it is a child of.
    """

    path: str
    owner: str
    parts: tuple[Part, ...]
    style: Style
    origin: Origin
    because: str
    rows: tuple[tuple[str, int], ...]
    head_size: int | None = None


def plan_of(model: Any) -> Plan:
    """The model's own tensor-parallel plan, in vLLM's order."""
    return Plan(tuple(Entry(str(k), v) for k, v in (getattr(model, "tp_plan", None) or {}).items()))


def fates(
    model: nn.Module, reports: Iterable[ClassReport], head_size: int | None, skipped: frozenset[str]
) -> Iterator[Fate]:
    """Every linear of the model; those below a path in ``skipped`` are not vLLM's linears."""
    plan, fused = plan_of(model), _by_path(reports)
    for path, module in model.named_modules():
        if any(path == s or path.startswith(f"{s}.") for s in skipped):
            continue
        yield from _children(path, module, fused.get(path, ()), plan, head_size)


def _by_path(reports: Iterable[ClassReport]) -> dict[str, tuple[FusionResult, ...]]:
    return {
        path: tuple(r for r in report.fusions if r.fires is Fires.YES)
        for report in reports
        for path in report.paths
    }


def _children(
    path: str,
    module: nn.Module,
    results: tuple[FusionResult, ...],
    plan: Plan,
    head_size: int | None,
) -> Iterator[Fate]:
    linears = {n: m for n, m in module.named_children() if isinstance(m, nn.Linear)}
    taken: set[str] = set()
    for result in results:
        for fate in _of_fuser(path, module, linears, result, head_size):
            taken |= {part.name for part in fate.parts}
            yield fate
    for name, linear in linears.items():
        if name not in taken:
            yield _of_plan(_join(path, name), path, Part(name, linear), plan)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _of_fuser(
    path: str,
    module: nn.Module,
    linears: dict[str, nn.Linear],
    result: FusionResult,
    head_size: int | None,
) -> Iterator[Fate]:
    details = dict(result.details)

    def single(name: str | None, style: Style) -> Iterator[Fate]:
        if name in linears:
            part = Part(name, linears[name])
            rows = ((name, part.module.out_features),)
            yield Fate(
                _join(path, name), path, (part,), style, Origin.FUSER, result.fuser, rows, None
            )

    merged = [Part(name, linears[name]) for name, _ in result.shards if name in linears]
    if result.fuser in MERGING and merged:
        is_qkv = result.fuser == "QKV"
        yield Fate(
            _join(path, result.merged),
            path,
            tuple(merged),
            Style.QKV if is_qkv else Style.MERGED,
            Origin.FUSER,
            result.fuser,
            tuple((part.name, part.module.out_features) for part in merged),
            _own_head_size(module, head_size) if is_qkv else None,
        )
    elif result.fuser == "PackedQKV" and merged:
        yield Fate(
            _join(path, merged[0].name),
            path,
            (merged[0],),
            Style.QKV,
            Origin.FUSER,
            result.fuser,
            tuple(zip("qkv", result.rows, strict=False)),
            _own_head_size(module, head_size),
        )
    elif result.fuser == "MLA":
        yield from _latent(path, linears, result, merged, single)
    if result.fuser in (*MERGING, "PackedQKV", "MLA"):
        yield from single(details.get("output"), Style.ROW)


def _latent(
    path: str, linears: dict[str, nn.Linear], result: FusionResult, merged: list[Part], single: Any
) -> Iterator[Fate]:
    details = dict(result.details)
    known = {part.name for part in merged} | set(details.values())
    if merged:
        yield Fate(
            _join(path, result.merged),
            path,
            tuple(merged),
            Style.MERGED_REPLICATED,
            Origin.FUSER,
            "MLA",
            tuple((part.name, part.module.out_features) for part in merged),
        )
    else:
        yield from single(details.get("kv_a_proj"), Style.REPLICATED)
    yield from single(details.get("kv_b_proj"), Style.COLUMN)
    queries = [name for name in linears if name not in known]
    if len(queries) == 1:
        yield from single(queries[0], Style.COLUMN)


def _own_head_size(module: nn.Module, head_size: int | None) -> int | None:
    own = getattr(module, "head_dim", None)
    return own if isinstance(own, int) and own else head_size


def _of_plan(path: str, owner: str, part: Part, plan: Plan) -> Fate:
    entry = plan.first(path)
    rows = ((part.name, part.module.out_features),)
    if entry is None:
        style, origin, because = Style.REPLICATED, Origin.DEFAULT, ""
    else:
        style = (
            STYLES.get(entry.style, Style.REPLICATED)
            if isinstance(entry.style, str)
            else (Style.REPLICATED)
        )
        said = "" if entry.style in STYLES else f": {entry.style!r}"
        origin, because = Origin.PLAN, f"{entry.key}{said}"
    return Fate(path, owner, (part,), style, origin, because, rows)
