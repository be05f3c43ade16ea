"""What a matcher answers: a `Match`, or one of two exceptions that carry the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.graph.core import Node


class NoMatch(Exception):
    """The fuser does not fire. ``line`` is the 1-based line to blame, where there is one.

    ``near`` says that the author probably meant the pattern: worth a word. ``kind`` names the
    obstacle for rules and fixers ("functional-activation"). ``certain`` answers do not depend on
    the graph.
    """

    def __init__(
        self,
        reason: str,
        line: int | None = None,
        near: bool = False,
        kind: str = "",
        certain: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.near = near or bool(kind)
        self.kind = kind
        self.certain = certain


class Undecided(Exception):
    """A fact that the answer needs is not known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True)
class Match:
    """A fuser's pattern found in one class.

    ``linears`` are the merged projections in shard order, ``output`` the projection that
    becomes row parallel, ``sizes`` the widths a packed projection is split into, ``line`` where
    the pattern is, ``anchor`` the last node it rests on (None: the whole graph), ``wrong``
    how the numbers change when vLLM fuses it all the same, ``merged`` the attribute the merged
    projection is kept under.
    """

    fuser: str
    becomes: str
    linears: tuple[str, ...] = ()
    shard_ids: tuple[str, ...] = ()
    output: str | None = None
    activation: str | None = None
    sizes: tuple[Any, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    line: int | None = None
    anchor: Node | None = None
    wrong: str = ""
    merged: str = ""

    @property
    def shards(self) -> tuple[tuple[str, str], ...]:
        """(projection, shard id) pairs."""
        return tuple(zip(self.linears, self.shard_ids, strict=True))


@dataclass(frozen=True)
class Env:
    """What a match is validated against: the release and the deployment.

    ``head_size`` is the model's (None when not known), ``use_mla`` whether the text config
    has a ``kv_lora_rank``, ``tp`` the tensor-parallel size, ``config`` reads a field of the
    text config (None for one it does not have; raises `Undecided` for one not known).
    """

    contract: Contract
    tp: int = 1
    head_size: int | None = None
    use_mla: bool = False
    config: Callable[[str], Any] | None = None
