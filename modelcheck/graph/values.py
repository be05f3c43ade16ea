"""What an expression can be while source is interpreted without running it.

Python numbers, strings, tuples, lists and dicts stand for themselves, `Sym` for numbers known
by name, `Node` for traced tensors; the rest is here. None is changed once made, but `Module`,
`Instance` and `Config`; a frozen dataclass would take three times as long to make.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import Any

from modelcheck.graph.core import Node
from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode


@dataclass(eq=False, slots=True)
class Unknown:
    """A value that cannot be told, and why."""

    reason: str
    line: int | None = None


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor that is no part of the trace (a buffer, ``torch.ones(...)``)."""

    rank: int | None = None
    name: str = ""  # the buffer's attribute name, if it is one
    shape: tuple[Any, ...] | None = None


@dataclass(eq=False, slots=True)
class Parameter:
    """``nn.Parameter(...)`` with its shape where known."""

    shape: tuple[Any, ...] | None


@dataclass(eq=False, slots=True)
class External:
    """Something from outside the scanned files, by its full dotted name."""

    dotted: str


@dataclass(eq=False, slots=True)
class ClassValue:
    """A class of a scanned file."""

    info: ClassInfo


@dataclass(eq=False, slots=True)
class Function:
    """A function of a scanned file, bound to an instance if it is a method."""

    node: FunctionNode | ast.Lambda
    file: FileIndex
    owner: Any = None  # the Instance of a bound method
    closure: dict[str, Any] = field(default_factory=dict)
    defined_in: ClassInfo | None = None


@dataclass(eq=False, slots=True)
class BoundExternal:
    """A method of a value that is not traced: ``config.get``, ``list.append``."""

    receiver: Any
    name: str


@dataclass(eq=False, slots=True)
class SuperValue:
    """``super()`` in a method."""

    instance: Any
    after: ClassInfo


@dataclass(eq=False)
class Config:
    """A configuration object. What is not in ``values`` is a `Sym` named after it.

    ``values`` is shared by all names of one object. ``info`` is its class, where known.
    """

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    complete: bool = False
    attribute_map: dict[str, str] = field(default_factory=dict)
    info: ClassInfo | None = None

    def named(self, name: str) -> Config:
        """The same object under another name, as an attribute of another configuration."""
        return replace(self, name=name)

    def copy(self) -> Config:
        """A deep copy, as ``copy.deepcopy`` makes it."""
        values = {k: v.copy() if isinstance(v, Config) else v for k, v in self.values.items()}
        return replace(self, values=values)


@dataclass(eq=False)
class Module:
    """A submodule as the constructor makes it.

    ``dotted`` is the full name of a class outside the scanned files, ``info`` the class of a
    scanned file; ``items`` the members of a ModuleList or Sequential.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    dotted: str = ""
    info: ClassInfo | None = None
    items: list[Any] | None = None
    activation: str | None = None  # the ACT2FN name, where it is one
    activation_known: bool = True
    instance: Any = None  # made when somebody looks inside
    made: Any = None  # `sharing.Made`, where others are constructed alike

    @property
    def class_name(self) -> str:
        """The class's own name."""
        if self.info is not None:
            return self.info.name
        return self.dotted if self.activation else self.dotted.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class Submodule:
    """A child as a forward sees it: where it is, and what."""

    path: str
    module: Module


@dataclass(eq=False)
class Instance:
    """``self`` of a scanned class: what its constructor leaves on it."""

    info: ClassInfo
    attributes: dict[str, Any] = field(default_factory=dict)
    unknown: str = ""  # why there may be more than is listed
    training: bool = True

    @property
    def children(self) -> dict[str, Module]:
        """Submodules in order of assignment."""
        return {k: v for k, v in self.attributes.items() if isinstance(v, Module)}


@dataclass(eq=False, slots=True)
class AttributeOf:
    """``x.shape`` of a traced value: a node once it is used other than as a call."""

    node: Node
    name: str


@dataclass(eq=False, slots=True)
class Interface:
    """What ``ALL_ATTENTION_FUNCTIONS`` hands out; ``opaque`` when got by get_interface."""

    opaque: bool


class Stop(Exception):
    """torch.fx could not go on here; the graph so far is kept."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


NAMESPACE = "types.SimpleNamespace"  # a configuration that a constructor makes up


# What is known of a traced value's meta tensor.
@dataclass(frozen=True)
class Meta:
    """``kind``: "none" (vLLM does not know either), "maybe", "tensor", "sequence", "scalar"."""

    kind: str
    rank: int | None = None
    items: tuple[Meta, ...] = ()


NONE = Meta("none")
MAYBE = Meta("maybe")
SCALAR = Meta("scalar")


def tensor(rank: int) -> Meta:
    """A tensor of this rank."""
    return Meta("tensor", rank)


def sequence(*items: Meta) -> Meta:
    """A tuple, or a torch.Size."""
    return Meta("sequence", None, items)
