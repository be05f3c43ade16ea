"""What docs/sharding.md says, with numbers: how a merged projection may be cut over ranks.

Weights and inputs are small whole numbers in float64, so that equal means equal, in every bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn
from torch.nn import functional

from modelcheck.tensor_parallel.fates import Fate, Part
from modelcheck.tensor_parallel.plan import shards_of
from modelcheck.tensor_parallel.results import Origin, Style

INPUTS, HEAD = 16, 4
GENERATOR = torch.Generator().manual_seed(0)


def whole_numbers(*shape: int) -> Tensor:
    return torch.randint(-4, 5, shape, generator=GENERATOR).double()


def fate(style: Style, names: Sequence[str], rows: Sequence[int]) -> Fate:
    parts = tuple(
        Part(n, nn.Linear(INPUTS, r, device="meta")) for n, r in zip(names, rows, strict=True)
    )
    head = HEAD if style is Style.QKV else None
    pairs = tuple(zip(names, rows, strict=True))
    return Fate("x", "", parts, style, Origin.FUSER, "test", pairs, head)


def held(weights: Sequence[Tensor], found: Fate, size: int, rank: int) -> list[Tensor]:
    """The rows of each weight that a rank holds, by modelcheck's own plan."""
    rows = []
    for weight, shard in zip(weights, shards_of(found, size), strict=True):
        assert shard.per_rank is not None
        start = rank // shard.replicas * shard.per_rank
        rows.append(weight[start : start + shard.per_rank])
    return rows


def contiguous(weights: Sequence[Tensor], size: int, rank: int) -> Tensor:
    """What a column-parallel layer that knows nothing of parts holds of the merged matrix."""
    return torch.cat(list(weights)).chunk(size)[rank]


# query, key and value rows: multi-head, 8:1:1 grouped, and one key-value head for all
QKV = [(32, 32, 32), (32, 4, 4), (64, 8, 8)]


@pytest.mark.parametrize("rows", [*QKV, (24, 24), (5, 7, 11)])
def test_merging_is_exact(rows: tuple[int, ...]) -> None:
    weights = [whole_numbers(r, INPUTS) for r in rows]
    x = whole_numbers(3, INPUTS)
    apart = [functional.linear(x, weight) for weight in weights]
    merged = functional.linear(x, torch.cat(weights)).split(list(rows), -1)
    assert all(torch.equal(a, b) for a, b in zip(apart, merged, strict=True))


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Sums of whole numbers only: each query head with its key-value head, no softmax."""
    q, k, v = (t.view(len(t), -1, HEAD) for t in (query, key, value))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    return torch.einsum("qhd,khd,khe->qhe", q, k, v).reshape(len(query), -1)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("rows", QKV)
def test_cut_by_shards_attention_is_exact(rows: tuple[int, ...], size: int) -> None:
    """Key-value heads fewer than ranks are held by several: 4 rows are one head of four."""
    weights = [whole_numbers(r, INPUTS) for r in rows]
    out = whole_numbers(INPUTS, rows[0])
    x = whole_numbers(3, INPUTS)
    whole = functional.linear(attention(*(functional.linear(x, w) for w in weights)), out)
    found = fate(Style.QKV, ("q", "k", "v"), rows)
    partial = []
    for rank in range(size):
        own = held(weights, found, size, rank)
        sizes = [len(w) for w in own]
        made = functional.linear(x, torch.cat(own)).split(sizes, -1)
        partial.append(functional.linear(attention(*made), out.chunk(size, 1)[rank]))
    assert torch.equal(sum(partial), whole)


@pytest.mark.parametrize("rows", [(32, 32, 32), (64, 8, 8)])
def test_a_contiguous_cut_of_qkv_is_wrong_and_nothing_raises(rows: tuple[int, ...]) -> None:
    """Each rank splits by the sizes that it should hold; the widths fit, the rows are others'."""
    weights = [whole_numbers(r, INPUTS) for r in rows]
    out = whole_numbers(INPUTS, rows[0])
    x = whole_numbers(3, INPUTS)
    whole = functional.linear(attention(*(functional.linear(x, w) for w in weights)), out)
    partial = []
    for rank in range(2):
        cut = functional.linear(x, contiguous(weights, 2, rank))
        made = cut.split([r // 2 for r in rows], -1)
        partial.append(functional.linear(attention(*made), out.chunk(2, 1)[rank]))
    assert sum(partial).shape == whole.shape
    assert not torch.equal(sum(partial), whole)


def test_kv_heads_dealt_to_the_wrong_ranks_are_wrong_and_nothing_raises() -> None:
    """Two key-value heads on four ranks: ranks 0 and 1 share the first, not 0 and 2."""
    weights = [whole_numbers(r, INPUTS) for r in (32, 8, 8)]
    out = whole_numbers(INPUTS, 32)
    x = whole_numbers(3, INPUTS)
    query, key, value = (functional.linear(x, w) for w in weights)
    whole = functional.linear(attention(query, key, value), out)

    def served(head_of: Sequence[int]) -> Tensor:
        partial = [
            functional.linear(
                attention(query.chunk(4, -1)[rank], *(t.chunk(2, -1)[head] for t in (key, value))),
                out.chunk(4, 1)[rank],
            )
            for rank, head in enumerate(head_of)
        ]
        return torch.stack(partial).sum(0)

    assert torch.equal(served([0, 0, 1, 1]), whole)
    assert not torch.equal(served([0, 1, 0, 1]), whole)


def test_eight_to_one_to_one_the_first_rank_has_no_key() -> None:
    """64 + 8 + 8 rows in two: 40 rows each, and all of the first rank's are of the query."""
    rows = (64, 8, 8)
    marked = [torch.full((r, 1), float(i)) for i, r in enumerate(rows)]
    first, second = (contiguous(marked, 2, rank).flatten() for rank in range(2))
    assert len(first) == len(second) == 40 == sum(r // 2 for r in rows)
    assert first.unique().tolist() == [0.0]
    assert [w.unique().tolist() for w in second.split([32, 4, 4])] == [[0.0, 1.0], [2.0], [2.0]]
    found = fate(Style.QKV, ("q", "k", "v"), rows)
    for rank in range(2):
        assert [len(w) for w in held(marked, found, 2, rank)] == [32, 4, 4]
        assert [w.unique().tolist() for w in held(marked, found, 2, rank)] == [[0.0], [1.0], [2.0]]


def glu(gate: Tensor, up: Tensor) -> Tensor:
    return gate.relu() * up


@pytest.mark.parametrize("size", [2, 4])
def test_gate_and_up(size: int) -> None:
    gate, up, down = whole_numbers(24, INPUTS), whole_numbers(24, INPUTS), whole_numbers(INPUTS, 24)
    x = whole_numbers(3, INPUTS)
    whole = functional.linear(glu(functional.linear(x, gate), functional.linear(x, up)), down)
    found = fate(Style.MERGED, ("gate", "up"), (24, 24))
    right, wrong = [], []
    for rank in range(size):
        share = down.chunk(size, 1)[rank]
        own = torch.cat(held([gate, up], found, size, rank))
        right.append(functional.linear(glu(*functional.linear(x, own).chunk(2, -1)), share))
        cut = contiguous([gate, up], size, rank)
        wrong.append(functional.linear(glu(*functional.linear(x, cut).chunk(2, -1)), share))
    assert torch.equal(sum(right), whole)
    assert sum(wrong).shape == whole.shape
    assert not torch.equal(sum(wrong), whole)


@pytest.mark.parametrize(
    ("heads", "size", "expected"), [(1, 2, (4, 2)), (2, 4, (4, 2)), (2, 2, (4, 1))]
)
def test_fewer_kv_heads_than_ranks(heads: int, size: int, expected: tuple[int, int]) -> None:
    """A rank holds one whole head, never a part of one: half a head has the width of no head."""
    found = fate(Style.QKV, ("q", "k", "v"), (32, heads * HEAD, heads * HEAD))
    _, key, value = shards_of(found, size)
    assert (key.per_rank, key.replicas) == (value.per_rank, value.replicas) == expected
    if heads < size:
        with pytest.raises(RuntimeError):
            whole_numbers(1, heads * HEAD // size).view(1, -1, HEAD)
