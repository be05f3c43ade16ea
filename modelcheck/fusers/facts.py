"""What a matcher may ask about a module and its children, whoever answers.

The torch side answers exactly (`TorchFacts`), the AST side with numbers, symbolic sizes or
by raising `Undecided`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from modelcheck.fusers.match import Env
from modelcheck.graph.core import Graph


class ChildFacts(Protocol):
    """One submodule."""

    @property
    def class_name(self) -> str:
        """Name of its class."""

    @property
    def is_linear(self) -> bool:
        """An ``nn.Linear`` or a subclass."""

    @property
    def in_features(self) -> Any:
        """Of a Linear."""

    @property
    def out_features(self) -> Any:
        """Of a Linear."""

    @property
    def has_bias(self) -> bool:
        """Of a Linear."""

    @property
    def activation(self) -> str | None:
        """The ACT2FN name of the fused activation-and-multiply kernel for it, if there is one."""

    @property
    def activation_name(self) -> str | None:
        """The ACT2FN name of any activation module, None for other modules."""

    @property
    def state(self) -> tuple[str, ...]:
        """Names of its parameters and buffers, nested ones included."""

    @property
    def weight_size(self) -> Any:
        """Number of elements of its ``weight``, None without one."""

    def is_rms_norm(self, env: Env) -> bool:
        """Does it match the RMSNorm fuser itself?"""

    @property
    def is_scalar_gate(self) -> bool:
        """A Linear with one output."""

    @property
    def is_expert_store(self) -> bool:
        """A ModuleList, or a module all of whose (one or more) parameters are 3-D."""

    @property
    def inputs_by_position(self) -> tuple[str, ...]:
        """Parameters of its forward that a positional argument may bind to, self left out."""

    def as_module(self) -> Facts:
        """The same child, to be matched itself."""


class Facts(Protocol):
    """The module whose forward is matched."""

    @property
    def class_name(self) -> str:
        """Name of its class."""

    @property
    def state(self) -> tuple[str, ...]:
        """Names of its parameters and buffers, nested ones included."""

    @property
    def child_names(self) -> tuple[str, ...]:
        """Direct children, in order of assignment."""

    @property
    def source(self) -> ForwardSource | None:
        """The source of its forward, None where there is none to be had."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Fixed parameters of its forward (no self, no ``*args``, no ``**kwargs``)."""

    def child(self, path: str) -> ChildFacts:
        """A submodule by its path from this module."""

    def attribute(self, name: str) -> Any:
        """``getattr(module, name, None)`` for a plain value."""

    def has_parameter(self, name: str) -> bool:
        """Is it a parameter of the module itself (a buffer is none)?"""

    def method(self, name: str) -> ast.FunctionDef | None:
        """A method of the class, by name."""

    def attribute_behind(self, find: Callable[[Graph], Any]) -> str | None:
        """The float attribute of the instance that supplies the number ``find`` sees.

        Found by changing the candidates and tracing again; None when no attribute does.
        """

    def graph(self) -> Graph:
        """The traced forward."""


@dataclass(frozen=True)
class ForwardSource:
    """The source of a forward as the rewriting fusers see it.

    ``function`` is parsed from the text of the unwrapped function; ``first_line`` is the line
    of its ``def`` (or first decorator) in the file, so that ``first_line + node.lineno - 1``
    is a line of the file. ``is_closure`` is true for a forward with free variables.
    """

    function: ast.AST
    first_line: int
    is_closure: bool = False

    def line(self, node: ast.AST) -> int:
        """The line in the file of a node of ``function``."""
        return self.first_line + int(getattr(node, "lineno", 1)) - 1
