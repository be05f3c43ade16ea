"""Collects the nodes of a forward that is interpreted instead of traced."""

from __future__ import annotations

import ast
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.graph import metas
from modelcheck.graph.core import Graph, Node
from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import (
    MAYBE,
    NONE,
    SCALAR,
    AttributeOf,
    External,
    Meta,
    Submodule,
    Tensor,
    Unknown,
    sequence,
    tensor,
)

_PLAIN = frozenset((Sym, int, float, bool, str, type(None)))
_AS_IT_IS = _PLAIN | {Node}


class Recorder:
    """The graph under construction."""

    def __init__(self, contract: Contract, file: str) -> None:
        self.contract = contract
        self.file = file
        self.nodes: list[Node] = []
        self.metas: dict[Node, Meta] = {}
        self.parameters: dict[str, Node] = {}
        self.attributes: dict[AttributeOf, Node] = {}
        self.doubt = ""
        self.structure_doubted = False
        self.doubt_line: int | None = None
        self.doubt_at = 0
        self.keywords: Node | None = None

    def graph(self, stopped: str = "", line: int | None = None) -> Graph:
        """What was recorded."""
        nodes = tuple(self.nodes)
        known = not self.structure_doubted
        return Graph(nodes, stopped, line, self.doubt, self.doubt_line, self.doubt_at, known)

    def doubtful(self, reason: str, node: ast.AST | None, structure: bool = True) -> None:
        """From here on the graph may differ from a real trace."""
        self.structure_doubted = self.structure_doubted or structure
        if not self.doubt:
            self.doubt, self.doubt_at = reason, len(self.nodes)
            self.doubt_line = getattr(node, "lineno", None)

    def add(
        self,
        op: str,
        target: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        where: ast.AST | None,
        meta: Meta,
        leaf: bool = False,
    ) -> Node:
        """Record one operation."""
        args = tuple([self.argument(a, where) for a in args])
        if kwargs:
            kwargs = {k: self.argument(v, where) for k, v in kwargs.items()}
        line = getattr(where, "lineno", None)
        node = Node(
            op, f"{target.rpartition('.')[2]}_{len(self.nodes)}", target, args, kwargs, line, leaf
        )
        self.nodes.append(node)
        self.metas[node] = meta
        return node

    def argument(self, value: Any, where: ast.AST | None) -> Any:
        """A value as an argument of a node."""
        if value.__class__ in _AS_IT_IS:
            return value
        if isinstance(value, AttributeOf):
            return self.attribute_node(value, where)
        if isinstance(value, Tensor):
            return self.add("get_attr", value.name or "constant", (), {}, where, _rank_meta(value))
        if isinstance(value, tuple):
            return tuple(self.argument(v, where) for v in value)
        if isinstance(value, list):
            return [self.argument(v, where) for v in value]
        if isinstance(value, dict):
            return {k: self.argument(v, where) for k, v in value.items()}
        if isinstance(value, slice):
            return slice(*(self.argument(v, where) for v in (value.start, value.stop, value.step)))
        if isinstance(value, Submodule):
            return value.path
        if isinstance(value, External):
            return value.dotted  # a dtype, by the name that a real trace has for it
        if isinstance(value, Unknown):
            self.doubtful(value.reason, where, structure=False)
        return value

    def attribute_node(self, value: AttributeOf, where: ast.AST | None) -> Node:
        """``x.shape`` as a node of its own, recorded once per mention."""
        if value not in self.attributes:
            self.attributes[value] = self.add(
                "call_function",
                "builtins.getattr",
                (value.node, value.name),
                {},
                where,
                self.attribute_meta(value),
            )
        return self.attributes[value]

    def attribute_meta(self, value: AttributeOf) -> Meta:
        """What is known of ``x.name``."""
        meta = self.metas.get(value.node, MAYBE)
        if meta.kind in ("none", "maybe"):
            return meta
        if value.name == "shape" and meta.rank is not None:
            return sequence(*[SCALAR] * meta.rank)
        if value.name in ("T", "mT", "data", "real", "imag") and meta.rank is not None:
            return tensor(meta.rank)
        return SCALAR

    def meta_of(self, value: Any) -> Meta | None:
        """The meta of a traced value; None for a plain one."""
        if isinstance(value, Node):
            return self.metas.get(value, MAYBE)
        if isinstance(value, AttributeOf):
            return self.attribute_meta(value)
        if isinstance(value, Tensor):
            return _rank_meta(value)
        return None

    def call_meta(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Meta:
        """The meta of a torch operation on these arguments."""
        known = [m for m in map(self.meta_of, _flat((args, kwargs))) if m is not None]
        receiver = self.meta_of(args[0]) if args else None
        plain = [a if self.meta_of(a) is None else None for a in args[1:]]
        if not self.contract.meta_execution and name not in ("getattr", "getitem"):
            return NONE
        return metas.of_call(name, receiver, _sizes(plain, args[1:]), known)


def _sizes(plain: list[Any], args: tuple[Any, ...]) -> list[Any]:
    """Traced sizes count as present: ``x.view(b, -1)`` has two."""
    return [arg if value is None else value for value, arg in zip(plain, args, strict=True)]


def _rank_meta(value: Tensor) -> Meta:
    return tensor(value.rank) if value.rank is not None else MAYBE


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [inner for v in value for inner in _flat(v)]
    if isinstance(value, dict):
        return _flat(tuple(value.values()))
    if isinstance(value, slice):
        return _flat((value.start, value.stop, value.step))
    return [] if value.__class__ in _PLAIN else [value]
