"""The graph of one module's forward: torch.fx's vocabulary without torch's types.

A node's ``target`` is a name: the child's path for ``call_module``, the method for
``call_method``, a full dotted name ("torch.rsqrt", "_operator.mul") for ``call_function``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(eq=False)  # never changed; freezing would triple the time to make one
class Node:
    """One operation.

    ``args`` and ``kwargs`` hold other nodes, constants, and tuples, lists, dicts and slices of
    them. ``line`` is the 1-based line of the file that defines the forward, where known.
    ``leaf`` marks the attention interface, which dataflow does not pass through.
    """

    op: str  # placeholder, get_attr, call_module, call_method, call_function, output
    name: str
    target: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    line: int | None = None
    leaf: bool = False

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The distinct nodes this one reads, positional arguments first."""
        found: list[Node] = []
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, Node):
                found.append(value)
            elif isinstance(value, tuple | list | dict | slice):
                found += nodes_in(value)
        return tuple(dict.fromkeys(found))

    def __str__(self) -> str:
        arguments = [_show(a) for a in self.args]
        arguments += [f"{k}={_show(v)}" for k, v in self.kwargs.items()]
        line = f"  # line {self.line}" if self.line else ""
        return f"{self.name:<16} {self.op:<14} {self.target}({', '.join(arguments)}){line}"


@dataclass(frozen=True, eq=False)
class Graph:
    """A traced forward, in execution order.

    ``stopped`` says why the trace ended early ("" when it reached the return), on
    ``stopped_line``; what was recorded until then is still matched, as vLLM does. ``doubt``
    (only where no real trace was made) says what could not be followed, from node number
    ``doubt_at`` on; with ``structure_known`` the operations are as they are listed.
    """

    nodes: tuple[Node, ...]
    stopped: str = ""
    stopped_line: int | None = None
    doubt: str = ""
    doubt_line: int | None = None
    doubt_at: int = 0
    structure_known: bool = False  # are all doubts about plain values among the arguments?

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    @cached_property
    def users(self) -> Mapping[Node, tuple[Node, ...]]:
        """For each node, the nodes that read it, in order."""
        found: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for source in node.inputs:
                found.setdefault(source, []).append(node)
        return {node: tuple(readers) for node, readers in found.items()}

    def first(self, predicate: Callable[[Node], bool]) -> Node | None:
        """The first node for which the predicate holds."""
        return next((node for node in self.nodes if predicate(node)), None)

    @cached_property
    def returned(self) -> Any:
        """What the forward returns (nodes inside), None when the trace did not get there."""
        output = self.first(lambda node: node.op == "output")
        return output.args[0] if output is not None and output.args else None

    def __str__(self) -> str:
        text = "\n".join(str(node) for node in self.nodes)
        if self.stopped:
            where = f" at line {self.stopped_line}" if self.stopped_line else ""
            text += f"\n-- trace stopped{where}: {self.stopped}"
        return text


def nodes_in(value: Any) -> Iterator[Node]:
    """All nodes in a nest of tuples, lists, dicts and slices, in order."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from nodes_in(item)
    elif isinstance(value, dict):
        yield from nodes_in(tuple(value.values()))
    elif isinstance(value, slice):
        yield from nodes_in((value.start, value.stop, value.step))


def _show(value: Any) -> str:
    if isinstance(value, Node):
        return value.name
    if isinstance(value, tuple | list):
        inner = ", ".join(_show(v) for v in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    return repr(value)
