"""What all parts of the interpreter share: frames, how code ends, and what each part offers."""

from __future__ import annotations

import ast
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.graph.core import Node
from modelcheck.graph.recorder import Recorder
from modelcheck.graph.values import AttributeOf, Function, Instance, Module
from modelcheck.source.classes import ClassInfo, FileIndex, FunctionNode
from modelcheck.source.memory import remembered


class Returned(Exception):
    """A return statement was reached."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class LoopExit(Exception):
    """``break`` (done) or ``continue``."""

    def __init__(self, done: bool) -> None:
        super().__init__()
        self.done = done


class Raised(Exception):
    """A raise statement was reached."""


class Frame:
    """One function call: where its names are looked up."""

    def __init__(
        self, file: FileIndex, names: dict[str, Any], defined_in: ClassInfo | None, depth: int
    ) -> None:
        self.file = file
        self.names = names
        self.defined_in = defined_in
        self.depth = depth


def is_traced(value: Any) -> bool:
    """Is it, or does it hold, a traced value?"""
    kind = value.__class__
    if kind is Node or kind is AttributeOf:
        return True
    if kind is list or kind is tuple:
        for member in value:
            if is_traced(member):
                return True
    elif kind is dict:
        return is_traced([*value.values()])
    elif kind is slice:
        return is_traced((value.start, value.stop, value.step))
    return False


class Base:
    """The state of an interpreter, and the methods that its parts call on each other."""

    def __init__(self, contract: Contract, recorder: Recorder | None = None) -> None:
        self.contract = contract
        self.recorder = recorder
        self.globals: dict[tuple[int, str], Any] = {}
        self.constructed: list[Module] = []
        self.running: list[FunctionNode] = []  # the calls being followed, outermost first

    def call(
        self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        """Call a value."""
        raise NotImplementedError

    def call_function(
        self,
        function: Function,
        args: list[Any],
        kwargs: dict[str, Any],
        node: ast.AST,
        frame: Frame,
    ) -> Any:
        """Follow a function of the scanned files."""
        raise NotImplementedError

    def run_function(
        self,
        function: FunctionNode,
        file: FileIndex,
        names: dict[str, Any],
        defined_in: ClassInfo | None,
        depth: int,
    ) -> Any:
        """Execute a function body."""
        raise NotImplementedError

    def opaque(self, reason: str, inputs: list[Any], node: ast.AST) -> Any:
        """A call that cannot be seen into."""
        raise NotImplementedError

    def attribute(self, value: Any, name: str, node: ast.AST, frame: Frame) -> Any:
        """``value.name``."""
        raise NotImplementedError

    def instance_attribute(self, owner: Instance, name: str, node: ast.AST, prefix: str) -> Any:
        """``self.name``."""
        raise NotImplementedError

    def has_attribute(self, owner: Instance, name: str) -> bool | None:
        """``hasattr(self, name)``."""
        raise NotImplementedError

    def instance_of(self, module: Module) -> Instance:
        """What a child has, by running its constructor."""
        raise NotImplementedError

    def traced_operator(self, name: str, args: list[Any], node: ast.AST) -> Any:
        """An operator on traced values."""
        raise NotImplementedError

    def traced_call(
        self, op: str, target: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> Any:
        """Record an operation on traced values."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Bind a target."""
        raise NotImplementedError

    def iterate(self, value: Any, node: ast.AST, count: int | None = None) -> list[Any]:
        """The elements of a value."""
        raise NotImplementedError

    def iterate_traced(self, value: Any, node: ast.AST, count: int | None) -> list[Any]:
        """The elements of a traced value."""
        raise NotImplementedError

    def item(self, value: Any, key: Any, node: ast.AST, file: FileIndex | None = None) -> Any:
        """``value[key]``."""
        raise NotImplementedError

    def set_attribute(self, value: Any, name: str, new: Any, node: ast.AST) -> None:
        """``value.name = new``."""
        raise NotImplementedError

    def set_item(self, value: Any, key: Any, new: Any, node: ast.AST) -> None:
        """``value[key] = new``."""
        raise NotImplementedError

    def materialise(self, value: Any, node: ast.AST) -> Any:
        """``x.shape`` as a node."""
        raise NotImplementedError

    def expression(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""
        raise NotImplementedError


@remembered(maxsize=1024)
def text_of(node: ast.AST) -> str:
    """The source of a node."""
    try:
        return ast.unparse(node)
    except (AttributeError, ValueError, RecursionError):
        return type(node).__name__


def line_of(node: ast.AST) -> int | None:
    """The line of a node."""
    return getattr(node, "lineno", None)


@remembered(maxsize=1024)
def short(node: ast.AST) -> str:
    """The source of a node, cut to 60 characters."""
    text = text_of(node)
    return text if len(text) <= 60 else text[:57] + "..."
