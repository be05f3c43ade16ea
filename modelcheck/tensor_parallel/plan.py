"""Rows, bytes and faults of every linear layer, for one tensor-parallel size."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from modelcheck.emulate.attention import kv_heads
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.results import ClassReport, Fires
from modelcheck.fusers.traced import analyse_model, head_size
from modelcheck.source.plans import generic_name
from modelcheck.tensor_parallel.fates import STYLES, Fate, fates, plan_of
from modelcheck.tensor_parallel.results import LinearPlan, Origin, Problem, Shard, SizePlan, Style

SHARDED_ROWS = (Style.COLUMN, Style.COLUMN_GATHERED, Style.MERGED, Style.QKV)
SHARDED_INPUTS = (Style.ROW, Style.ROW_SPLIT)
PADDING = 64  # vLLM rounds a vocabulary up to a multiple of this before it cuts it
EXPERTS = "experts"


@dataclasses.dataclass(frozen=True)
class Analysed:
    """A model under one size: what the fusers do, and what becomes of each linear."""

    size: int
    reports: tuple[ClassReport, ...]
    fates: tuple[Fate, ...]
    experts: tuple[str, ...]  # paths of experts that vLLM runs itself


def analyse(model: Any, config: Any, contract: Contract, size: int) -> Analysed:
    """Match the fusers for a size and follow them to each linear."""
    reports = tuple(analyse_model(model, config=config, contract=contract, tp=size))
    experts = tuple(
        f"{path}.{EXPERTS}"
        for report in reports
        if any(r.fuser == "MoEBlock" and r.fires is Fires.YES for r in report.fusions)
        for path in report.paths
    )
    found = fates(model, reports, head_size(config.get_text_config()), frozenset(experts))
    return Analysed(size, reports, tuple(found), experts)


def size_plan(model: Any, config: Any, analysed: Analysed, width: int) -> SizePlan:
    """The plan of a size; ``width`` is the bytes of one parameter."""
    text, size = config.get_text_config(), analysed.size
    heads = getattr(text, "num_attention_heads", None)
    problems: list[Problem] = []
    total = kv_heads(text) if isinstance(heads, int) else None
    if isinstance(heads, int) and heads % size:
        said = f"vLLM refuses: {heads} attention heads are not divisible by {size}"
        problems.append(Problem("error", said))
    linears, groups = [], _grouped(analysed.fates)
    for fate, count in groups:
        linear = _linear(fate, count, size)
        linears.append(linear)
        problems += _problems(linear, fate, size)
    if size > 1:
        problems += _plan_notes(model, analysed)
    parts = _parts(model, text, analysed, linears, width)
    latent = getattr(text, "kv_lora_rank", None) is not None
    known = isinstance(heads, int) and heads % size == 0
    return SizePlan(
        size=size,
        linears=tuple(linears),
        heads=heads // size if known and heads is not None else None,
        kv_heads=max(1, total // size) if total and known and not latent else None,
        kv_replicas=size // total if total and not latent and size > total else 1,
        bytes_per_rank=None if parts is None else sum(parts.values()),
        parts=parts or {},
        problems=tuple(dict.fromkeys(problems)),
    )


def _grouped(found: Iterable[Fate]) -> list[tuple[Fate, int]]:
    """Equal linears of different layers, with their number."""
    groups: dict[Any, list[Fate]] = defaultdict(list)
    for fate in found:
        key = (
            generic_name(fate.path),
            fate.style,
            fate.because,
            fate.rows,
            fate.head_size,
            tuple((p.module.in_features, p.module.bias is not None) for p in fate.parts),
        )
        groups[key].append(fate)
    return [(same[0], len(same)) for same in groups.values()]


def _linear(fate: Fate, count: int, size: int) -> LinearPlan:
    inputs = fate.parts[0].module.in_features
    shards = shards_of(fate, size)
    inside: int | None = inputs
    if fate.style in SHARDED_INPUTS:
        inside = inputs // size if inputs % size == 0 else None
    rows = [shard.per_rank for shard in shards]
    parameters = None
    if inside is not None and None not in rows:
        held = sum(row for row in rows if row is not None)
        biased = any(part.module.bias is not None for part in fate.parts)
        parameters = held * inside + (held if biased else 0)
    return LinearPlan(
        path=generic_name(fate.path),
        count=count,
        style=fate.style,
        origin=fate.origin,
        because=fate.because,
        inputs=inputs,
        inputs_per_rank=inside,
        shards=shards,
        parameters=parameters,
    )


def shards_of(fate: Fate, size: int) -> tuple[Shard, ...]:
    """The parts of a projection on one rank; heads of keys and values may be held by several."""
    if fate.style is Style.QKV and fate.head_size:
        return tuple(
            _heads(name, rows, fate.head_size, size, shared=index > 0)
            for index, (name, rows) in enumerate(fate.rows)
        )
    if fate.style in SHARDED_ROWS:
        return tuple(
            Shard(n, rows, rows // size if rows % size == 0 else None) for n, rows in fate.rows
        )
    return tuple(Shard(name, rows, rows) for name, rows in fate.rows)


def _heads(name: str, rows: int, head_size: int, size: int, *, shared: bool) -> Shard:
    heads = rows // head_size
    if shared and size >= heads:
        whole = size % heads == 0
        return Shard(name, rows, head_size if whole else None, size // heads if whole else 1)
    return Shard(name, rows, heads // size * head_size if heads % size == 0 else None)


def _problems(linear: LinearPlan, fate: Fate, size: int) -> list[Problem]:
    found = []
    for shard in linear.shards:
        if shard.per_rank is None:
            unit, count = ("rows", shard.rows)
            if fate.style is Style.QKV and fate.head_size:
                unit, count = "heads", shard.rows // fate.head_size
            said = f"vLLM stops: {shard.name} has {count} {unit}, which {size} ranks cannot share"
            found.append(Problem("error", said, linear.path))
    if linear.inputs_per_rank is None:
        said = f"vLLM stops: {linear.inputs} inputs, which {size} ranks cannot share"
        found.append(Problem("error", said, linear.path))
    return found


def _plan_notes(model: Any, analysed: Analysed) -> list[Problem]:
    """Entries of the plan that vLLM reads otherwise than transformers does."""
    plan = plan_of(model)
    if not plan.entries:
        return [Problem("info", "the model has no plan: what no fuser takes is replicated")]
    found = []
    for fate in analysed.fates:
        entry = plan.first(fate.path) if fate.origin is Origin.PLAN else None
        if entry is None:
            continue
        path = generic_name(fate.path)
        if not isinstance(entry.style, str):
            said = f"vLLM refuses the style {entry.style!r} of {entry.key}"
            found.append(Problem("error", said, path))
        elif entry.style not in STYLES:
            said = f"vLLM does not know the style {entry.style!r} and replicates"
            found.append(Problem("info", said, path))
    return found


def _parts(
    model: nn.Module,
    text: Any,
    analysed: Analysed,
    linears: Sequence[LinearPlan],
    width: int,
) -> dict[str, int] | None:
    """Bytes of one rank's weights, in groups; None where something does not divide."""
    size = analysed.size
    if any(linear.parameters is None for linear in linears):
        return None
    in_linears = {
        id(p) for fate in analysed.fates for part in fate.parts for p in part.module.parameters()
    }
    embedding = _vocabulary(model, text)
    counted = {"linears": sum((linear.parameters or 0) * linear.count for linear in linears)}
    counted |= {"experts": 0, "embeddings": 0, "others": 0}
    for name, parameter in model.named_parameters():
        if id(parameter) in in_linears:
            continue
        if any(name.startswith(f"{path}.") for path in analysed.experts):
            share = _expert_share(parameter, size)
            if share is None:
                return None
            counted["experts"] += share
        elif parameter is embedding:
            counted["embeddings"] += _padded(parameter.shape[0], size) * parameter.shape[1]
        else:
            counted["others"] += parameter.numel()
    tied = getattr(text, "tie_word_embeddings", False) or getattr(
        getattr(model, "config", None), "tie_word_embeddings", False
    )
    vocabulary, hidden = getattr(text, "vocab_size", None), getattr(text, "hidden_size", None)
    if not tied and isinstance(vocabulary, int) and isinstance(hidden, int):
        counted["embeddings"] += _padded(vocabulary, size) * hidden
    return {name: number * width for name, number in counted.items()}


def _vocabulary(model: Any, text: Any) -> Any:
    embedding = model.get_input_embeddings()
    weight = getattr(embedding, "weight", None)
    return weight if isinstance(embedding, nn.Embedding) else None


def _padded(rows: int, size: int) -> int:
    """Rows of a vocabulary on one rank."""
    padded = -(-rows // PADDING) * PADDING
    return -(-padded // size)


def _expert_share(parameter: nn.Parameter, size: int) -> int | None:
    """Parameters of the experts on one rank: vLLM cuts every expert's inner width."""
    count = int(parameter.numel())
    if parameter.ndim < 3:
        return count
    return None if count % size else count // size
