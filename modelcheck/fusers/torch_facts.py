"""Facts about a real module, on any device."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cached_property
from typing import Any

from torch import nn
from transformers.activations import ACT2CLS

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.facts import ForwardSource
from modelcheck.fusers.match import Env
from modelcheck.fusers.select import takes_rms_norm
from modelcheck.graph.core import Graph
from modelcheck.graph.fx import trace_module

# Names under which vLLM registers an activation-and-multiply kernel (contract section 2.6).
KERNELS = frozenset({"silu", "swish", "gelu", "gelu_pytorch_tanh", "geglu", "swigluoai"})
_FIXED = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


class TorchFacts:
    """`Facts` and `ChildFacts` of an ``nn.Module``."""

    def __init__(self, module: nn.Module, contract: Contract) -> None:
        self.module = module
        self.contract = contract

    @property
    def class_name(self) -> str:
        """Name of its class."""
        return type(self.module).__name__

    @cached_property
    def child_names(self) -> tuple[str, ...]:
        """Direct children."""
        return tuple(name for name, _ in self.module.named_children())

    @cached_property
    def source(self) -> ForwardSource | None:
        """The text of the unwrapped forward."""
        return function_source(type(self.module).forward)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Fixed parameters of forward, self left out."""
        try:
            parameters = list(inspect.signature(type(self.module).forward).parameters.values())
        except (TypeError, ValueError):
            return ("?",)  # vLLM assumes one input
        return tuple(p.name for p in parameters[1:] if p.kind in _FIXED)

    @cached_property
    def inputs_by_position(self) -> tuple[str, ...]:
        """Parameters that a positional argument may bind to, self left out."""
        return tuple(
            p.name
            for p in list(inspect.signature(type(self.module).forward).parameters.values())[1:]
            if p.kind in _FIXED[:2]
        )

    def child(self, path: str) -> TorchFacts:
        """A submodule by path."""
        return TorchFacts(self.module.get_submodule(path), self.contract)

    def as_module(self) -> TorchFacts:
        """Itself."""
        return self

    def attribute(self, name: str) -> Any:
        """``getattr(module, name, None)``."""
        return getattr(self.module, name, None)

    def has_parameter(self, name: str) -> bool:
        """A parameter of the module itself."""
        return isinstance(getattr(self.module, name, None), nn.Parameter)

    def method(self, name: str) -> ast.FunctionDef | None:
        """A method of the class."""
        found = getattr(type(self.module), name, None)
        source = function_source(found) if found is not None else None
        if source is None or not isinstance(source.function, ast.FunctionDef):
            return None
        return source.function

    @cached_property
    def _graph(self) -> Graph:
        return trace_module(self.module, self.contract)

    def graph(self) -> Graph:
        """Traced once."""
        return self._graph

    def attribute_behind(self, find: Callable[[Graph], Any]) -> str | None:
        """See `Facts.attribute_behind`: each candidate is given a value of its own."""
        value = find(self._graph)
        candidates = {
            name: old
            for name, old in vars(self.module).items()
            if isinstance(old, float) and old == value
        }
        markers = {float(-1 - i): name for i, name in enumerate(candidates)}
        try:
            for marker, name in markers.items():
                setattr(self.module, name, marker)
            seen = find(trace_module(self.module, self.contract)) if markers else None
        finally:
            for name, old in candidates.items():
                setattr(self.module, name, old)
        return markers.get(seen) if seen is not None else None

    # As a child ---------------------------------------------------------------------------

    @property
    def is_linear(self) -> bool:
        """An ``nn.Linear`` or a subclass."""
        return isinstance(self.module, nn.Linear)

    @property
    def in_features(self) -> int:
        """Of a Linear."""
        return int(self.module.in_features)

    @property
    def out_features(self) -> int:
        """Of a Linear."""
        return int(self.module.out_features)

    @property
    def has_bias(self) -> bool:
        """Of a Linear."""
        return self.module.bias is not None

    @property
    def activation(self) -> str | None:
        """By the exact type, as vLLM looks it up."""
        for name, entry in ACT2CLS.items():
            cls = entry[0] if isinstance(entry, tuple) else entry
            if cls is type(self.module) and name in KERNELS:
                return str(name)
        if type(self.module) is nn.GELU:
            return "gelu_pytorch_tanh" if self.module.approximate == "tanh" else "gelu"
        return None

    @property
    def activation_name(self) -> str | None:
        """The name of any activation module."""
        for name, entry in ACT2CLS.items():
            if (entry[0] if isinstance(entry, tuple) else entry) is type(self.module):
                return str(name)
        return "gelu" if type(self.module) is nn.GELU else None

    @property
    def state(self) -> tuple[str, ...]:
        """Parameters and buffers."""
        named = (*self.module.named_parameters(), *self.module.named_buffers())
        return tuple(name for name, _ in named)

    @property
    def weight_size(self) -> int | None:
        """Elements of ``weight``."""
        weight = getattr(self.module, "weight", None)
        return None if weight is None else int(weight.numel())

    def is_rms_norm(self, env: Env) -> bool:
        """Does it match the RMSNorm fuser?"""
        return takes_rms_norm(self, env)

    @property
    def is_scalar_gate(self) -> bool:
        """A Linear with one output."""
        return self.is_linear and self.out_features == 1

    @property
    def is_expert_store(self) -> bool:
        """A ModuleList, or all parameters 3-D."""
        parameters = list(self.module.parameters())
        return isinstance(self.module, nn.ModuleList) or (
            bool(parameters) and all(p.ndim == 3 for p in parameters)
        )


def function_source(function: Any) -> ForwardSource | None:
    """The parsed text of a function below its ``functools.wraps`` decorators."""
    try:
        inner = inspect.unwrap(function)
        lines, first = inspect.getsourcelines(inner)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, ValueError, SyntaxError):
        return None
    code = getattr(inner, "__code__", None)
    return ForwardSource(
        function=tree.body[0],
        first_line=first,
        is_closure=bool(code is not None and code.co_freevars),
    )
