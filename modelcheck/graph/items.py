"""Items, iteration and assignment through values, for the interpreter."""

from __future__ import annotations

import ast
from typing import Any

from modelcheck.fusers.match import Undecided
from modelcheck.graph import metas
from modelcheck.graph.base import is_traced, line_of, short
from modelcheck.graph.builtin import activation
from modelcheck.graph.configs import IMPLEMENTATION, PerLayer, switch
from modelcheck.graph.core import Node
from modelcheck.graph.expressions import Expressions
from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import (
    MAYBE,
    AttributeOf,
    BoundExternal,
    ClassValue,
    Config,
    External,
    Instance,
    Interface,
    Stop,
    Submodule,
    Tensor,
    Unknown,
)
from modelcheck.source.classes import FileIndex
from modelcheck.source.models import config_of_type

INTERFACE = "ALL_ATTENTION_FUNCTIONS"


class Items(Expressions):
    """``value[key]``, loops, unpacking, and recording of operations."""

    def traced_operator(self, name: str, args: list[Any], node: ast.AST) -> Any:
        """An operator on traced values."""
        return self.traced_call("call_function", f"operator.{name}", args, {}, node)

    def traced_call(
        self, op: str, target: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> Any:
        """Record an operation of torch on traced values."""
        assert self.recorder is not None
        name = target.rpartition(".")[2]
        if name == "topk" and (kwargs.get("k", 0) is None or None in args[1:2]):
            raise Stop("topk is asked for None values", line_of(node))
        meta = self.recorder.call_meta(name, tuple(args), kwargs)
        return self.recorder.add(op, target, tuple(args), kwargs, node, meta)

    def materialise(self, value: Any, node: ast.AST) -> Any:
        """``x.shape`` as a node."""
        assert self.recorder is not None
        return self.recorder.argument(value, node)

    def item(self, value: Any, key: Any, node: ast.AST, file: FileIndex | None = None) -> Any:
        """``value[key]``."""
        if isinstance(value, Submodule):
            return self.submodule_item(value, key, node)
        if isinstance(value, External):
            if value.dotted.rpartition(".")[2] == INTERFACE:
                return Interface(opaque=False)
            if value.dotted.rpartition(".")[2] == "ACT2FN":
                return activation(key)
            if value.dotted.rpartition(".")[2] == "CONFIG_MAPPING" and file is not None:
                info = config_of_type(file, key)
                if info is not None:
                    return ClassValue(info)
            return Unknown(f"{value.dotted}[...] is not known", line_of(node))
        if is_traced(value) and not isinstance(value, tuple | list | dict):
            assert self.recorder is not None
            target = self.materialise(value, node)
            meta = metas.item(self.recorder.meta_of(target) or MAYBE, key)
            return self.recorder.add(
                "call_function", "operator.getitem", (target, key), {}, node, meta
            )
        if isinstance(value, tuple | list | str) and isinstance(key, int | slice):
            try:
                return value[key]
            except (IndexError, TypeError):
                return self.missing("an index is out of range", node)
        if isinstance(value, tuple | list) and value and isinstance(key, Sym):
            if all(isinstance(v, int | float) and v == value[0] for v in value):
                return value[0]
            if all(isinstance(v, int | float | Sym) for v in value):
                return Sym.name(f"{short(node)} at {key}")
        if isinstance(value, dict) and isinstance(key, str | int | float | type(None)):
            if key in value:
                return value[key]
            return self.missing(f"{key!r} is not in the dict", node)
        if isinstance(value, Tensor):
            if is_traced(key):
                return self.traced_call("call_function", "operator.getitem", [value, key], {}, node)
            return Tensor()
        if isinstance(value, PerLayer):
            return value.layer(key)
        if isinstance(value, Config):
            return Sym.name(f"{value.name}[{key}]")
        return Unknown(f"{short(node)} is not known", line_of(node))

    def missing(self, reason: str, node: ast.AST) -> Any:
        """An exception in a traced forward; in a constructor our values may just be incomplete."""
        if self.recorder is not None:
            raise Stop(reason, line_of(node))
        return Unknown(reason, line_of(node))

    def submodule_item(self, value: Submodule, key: Any, node: ast.AST) -> Any:
        """A member of a ModuleList or Sequential."""
        items = value.module.items
        if items is None:
            return Unknown(f"{short(node)} is not known", line_of(node))
        if isinstance(key, slice):
            return [Submodule(f"{value.path}.{i}", m) for i, m in enumerate(items)][key]
        if isinstance(key, int) and -len(items) <= key < len(items):
            return Submodule(f"{value.path}.{key % len(items)}", items[key])
        if items:
            return Submodule(f"{value.path}.0", items[0])
        return Unknown(f"{short(node)} is not known", line_of(node))

    def iterate(self, value: Any, node: ast.AST, count: int | None = None) -> list[Any]:
        """The elements of a value; ``count`` when as many are unpacked."""
        if isinstance(value, Node | AttributeOf):
            return self.iterate_traced(value, node, count)
        if isinstance(value, tuple | list):
            return list(value)
        if isinstance(value, dict | str):
            return list(value)
        if isinstance(value, set):
            return sorted(value, key=repr)
        if isinstance(value, Submodule) and value.module.items is not None:
            return [Submodule(f"{value.path}.{i}", m) for i, m in enumerate(value.module.items)]
        if count is not None:
            return [Unknown(f"{short(node)} is not known", line_of(node))] * count
        unseen = isinstance(value, BoundExternal) and self.recorder is None
        if unseen or isinstance(value, Sym | Unknown | Tensor):
            return [Unknown("an element of something that is not known", line_of(node))]
        raise Undecided(f"what {short(node)} loops over is not known", line_of(node))

    def iterate_traced(self, value: Any, node: ast.AST, count: int | None) -> list[Any]:
        """Unpacking always works; a splat or a loop needs a known length."""
        recorder = self.recorder
        assert recorder is not None
        if count is None:
            bare = isinstance(value, AttributeOf) and isinstance(node, ast.Starred)
            if bare and not self.contract.meta_execution:  # f(*x.shape) asks for its length
                raise Stop("the length of a shape is asked for", line_of(node))
            node_ = value.node if isinstance(value, AttributeOf) else value
            if self.contract.meta_execution and node_ is recorder.keywords:
                return []
            meta = recorder.meta_of(value)
            if meta is None or meta.kind == "maybe":
                raise Undecided(f"the length of {short(node)} is not known", line_of(node))
            if meta.kind == "none" or meta.kind == "scalar":
                raise Stop(
                    "the length of a shape is needed, and only an input named hidden_states "
                    "has a known shape",
                    line_of(node),
                )
            if meta.kind == "tensor":
                raise Undecided("a loop over a tensor", line_of(node))
            count = len(meta.items)
        return [self.item(value, i, node) for i in range(count)]

    def set_attribute(self, value: Any, name: str, new: Any, node: ast.AST) -> None:
        """``value.name = new``."""
        if isinstance(value, Instance):
            if isinstance(new, Submodule):
                new = new.module
            elif isinstance(new, Tensor):
                new = Tensor(new.rank, name)
            value.attributes[name] = new
        elif isinstance(value, Config):
            if name == IMPLEMENTATION and isinstance(new, str):
                switch(value, new)
            else:
                value.values[name] = new

    def set_item(self, value: Any, key: Any, new: Any, node: ast.AST) -> None:
        """``value[key] = new``: recorded on traced values since vLLM 0.30."""
        if isinstance(value, Node | AttributeOf):
            if not self.contract.item_assignment:
                raise Stop("an item of a traced value is assigned", line_of(node))
            self.traced_call("call_function", "operator.setitem", [value, key, new], {}, node)
        elif isinstance(value, dict):
            if isinstance(key, str | int | float):
                value[key] = new
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value[key] = new
