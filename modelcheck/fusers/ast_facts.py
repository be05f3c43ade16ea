"""Facts about a module from its source alone."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.facts import ForwardSource
from modelcheck.fusers.match import Env, Undecided
from modelcheck.fusers.select import takes_rms_norm
from modelcheck.graph.ast_trace import find_forward, trace_instance
from modelcheck.graph.attributes import external_attribute, module_arguments
from modelcheck.graph.builtin import KERNELS
from modelcheck.graph.configs import IMPLEMENTATION
from modelcheck.graph.core import Graph
from modelcheck.graph.interpreter import Interpreter
from modelcheck.graph.symbolic import Sym, decide
from modelcheck.graph.values import (
    NAMESPACE,
    Config,
    Instance,
    Module,
    Parameter,
    Tensor,
    Unknown,
)
from modelcheck.source.bodies import body_of
from modelcheck.source.classes import FunctionNode, Signature

LINEAR = "torch.nn.Linear"
KERNEL_MODULES = {"torch.nn.SiLU": "silu"}
TORCH_ACTIVATIONS = {
    "torch.nn.SiLU": "silu",
    "torch.nn.GELU": "gelu",
    "torch.nn.ReLU": "relu",
    "torch.nn.Sigmoid": "sigmoid",
    "torch.nn.Tanh": "tanh",
}
STATELESS = frozenset({"Dropout", "Identity", "SiLU", "GELU", "ReLU", "Softmax", "Sigmoid", "Tanh"})


class AstFacts:
    """`Facts` and `ChildFacts` of a module that is only read."""

    def __init__(self, module: Module, contract: Contract) -> None:
        self.module = module
        self.contract = contract
        self._children: dict[str, AstFacts] = {}

    @property
    def class_name(self) -> str:
        """Name of its class."""
        return self.module.class_name

    @cached_property
    def instance(self) -> Instance:
        """What its constructor leaves on it. Raises `Undecided` outside the scanned files."""
        if self.module.info is None:
            raise Undecided(f"{self.class_name} is not defined in the scanned files")
        return Interpreter(self.contract).instance_of(self.module)

    @cached_property
    def child_names(self) -> tuple[str, ...]:
        """Direct children."""
        if self.module.items is not None:
            return tuple(str(i) for i in range(len(self.module.items)))
        if self.module.info is None:
            return ()
        if self.instance.unknown:
            raise Undecided(self.instance.unknown)
        return tuple(self.instance.children)

    @cached_property
    def _forward(self) -> tuple[Any, FunctionNode] | None:
        return find_forward(self.module.info) if self.module.info is not None else None

    @cached_property
    def source(self) -> ForwardSource | None:
        """The forward's own node: its lines are lines of the file."""
        if self._forward is None:
            return None
        function = self._forward[1]
        return ForwardSource(function=function, first_line=1, is_closure=_is_closure(function))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Fixed parameters of forward."""
        if self._forward is None:
            return ("?",)
        signature = Signature.of(self._forward[1])
        return (*signature.positional, *signature.keyword_only)

    @cached_property
    def inputs_by_position(self) -> tuple[str, ...]:
        """Parameters a positional argument may bind to."""
        if self._forward is None:
            raise Undecided(f"the forward of {self.class_name} is not in the scanned files")
        return Signature.of(self._forward[1]).positional

    def child(self, path: str) -> AstFacts:
        """A submodule by path."""
        known = self._children.get(path)
        if known is not None:
            return known
        module = self.module
        for part in path.split("."):
            if module.items is not None and part.isdigit():
                found = module.items[int(part)]
            else:
                found = Interpreter(self.contract).instance_of(module).attributes.get(part)
            if not isinstance(found, Module):
                raise Undecided(f"what {path} is cannot be told")
            module = found
        self._children[path] = child = AstFacts(module, self.contract)
        return child

    def as_module(self) -> AstFacts:
        """Itself."""
        return self

    def attribute(self, name: str) -> Any:
        """A plain attribute of the instance or class."""
        if self.module.info is None:
            return None
        value = self.instance.attributes.get(name)
        if value is None and name not in self.instance.attributes:
            found = self.module.info.find_attribute(name)
            if found is not None:
                return (
                    ast.literal_eval(found[1]) if isinstance(found[1], ast.Constant) else found[1]
                )
            if self.instance.unknown:
                raise Undecided(self.instance.unknown)
            return None
        if isinstance(value, Config) and value.name == NAMESPACE:
            return SimpleNamespace(**value.values)
        if isinstance(value, Config):
            return SimpleNamespace(_attn_implementation=value.values.get(IMPLEMENTATION))
        if isinstance(value, Unknown):
            raise Undecided(value.reason, value.line)
        if name == "config" and isinstance(value, Sym):
            raise Undecided(f"which configuration {value} is cannot be told")
        return value

    def has_parameter(self, name: str) -> bool:
        """A parameter of the module itself."""
        return isinstance(self.instance.attributes.get(name), Parameter)

    def method(self, name: str) -> ast.FunctionDef | None:
        """A method of the class."""
        found = self.module.info.find_method(name) if self.module.info is not None else None
        return found[1] if found is not None and isinstance(found[1], ast.FunctionDef) else None

    @cached_property
    def _graph(self) -> Graph:
        return trace_instance(self.instance, self.contract)

    def graph(self) -> Graph:
        """Interpreted once; of a module of torch nothing is told, no pattern is found in it."""
        if self.module.info is None and self.module.dotted.startswith("torch.nn."):
            return Graph(())
        return self._graph

    def attribute_behind(self, find: Callable[[Graph], Any]) -> str | None:
        """Each attribute with this value is given another one and the forward read again."""
        value = find(self._graph)
        attributes = self.instance.attributes
        candidates = {
            name: old
            for name, old in attributes.items()
            if isinstance(old, float | Sym) and not isinstance(old, bool) and _same(old, value)
        }
        if not candidates:
            return None
        markers = {float(-1 - i): name for i, name in enumerate(candidates)}
        try:
            attributes.update({name: marker for marker, name in markers.items()})
            seen = find(trace_instance(self.instance, self.contract))
        finally:
            attributes.update(candidates)
        return markers.get(seen) if isinstance(seen, float) else None

    # As a child ---------------------------------------------------------------------------

    @property
    def is_linear(self) -> bool:
        """An ``nn.Linear`` or a subclass."""
        info = self.module.info
        if info is None:
            return self.module.dotted == LINEAR
        return LINEAR in info.external_bases

    def _argument(self, name: str) -> Any:
        if self.module.info is not None:
            value = self.instance.attributes.get(name, Unknown(f"{self.class_name}.{name}"))
        else:
            value = external_attribute(self.module, name)
        if isinstance(value, Unknown):
            raise Undecided(f"{name} of a {self.class_name} is not known", value.line)
        if not isinstance(value, int | float | Sym):
            raise Undecided(f"{name} of a {self.class_name} is no number: {value!r}")
        return value

    @property
    def in_features(self) -> Any:
        """Of a Linear."""
        return self._argument("in_features")

    @property
    def out_features(self) -> Any:
        """Of a Linear."""
        return self._argument("out_features")

    @property
    def has_bias(self) -> bool:
        """Of a Linear."""
        value = module_arguments(self.module).get("bias", True)
        if isinstance(value, bool):
            return value
        if isinstance(value, Sym):
            return bool(value)
        if value is None:
            return False
        raise Undecided(f"whether a {self.class_name} has a bias is not known")

    @property
    def activation(self) -> str | None:
        """The fused kernel for an activation module."""
        module = self.module
        if module.activation is not None:
            if not module.activation_known:
                known = decide(f"{module.activation} has a fused kernel")
                return module.activation if known else None
            return KERNELS.get(module.activation)
        if module.dotted == "torch.nn.GELU":
            approximate = module_arguments(module).get("approximate", "none")
            return "gelu_pytorch_tanh" if approximate == "tanh" else "gelu"
        return KERNEL_MODULES.get(module.dotted)

    @property
    def activation_name(self) -> str | None:
        """The name of any activation module."""
        module = self.module
        if module.activation is not None:
            if not module.activation_known:
                raise Undecided(f"{module.activation} depends on the configuration")
            return module.activation
        return TORCH_ACTIVATIONS.get(module.dotted)

    @property
    def state(self) -> tuple[str, ...]:
        """Parameters and buffers, nested ones too."""
        module = self.module
        if module.info is None:
            if module.items is not None:
                return tuple(
                    f"{i}.{name}"
                    for i, item in enumerate(module.items)
                    for name in AstFacts(item, self.contract).state
                )
            if module.activation is not None or module.class_name in STATELESS:
                return ()
            if module.class_name == "Linear":
                return ("weight", "bias") if self.has_bias else ("weight",)
            if module.class_name in ("LayerNorm", "RMSNorm", "Embedding"):
                return ("weight",)
            raise Undecided(f"the parameters of {self.class_name} are not known")
        if self.instance.unknown:
            raise Undecided(self.instance.unknown)
        own = [
            name
            for name, value in self.instance.attributes.items()
            if isinstance(value, Parameter) or (isinstance(value, Tensor) and value.name)
        ]
        nested = [
            f"{name}.{inner}" for name in self.child_names for inner in self.child(name).state
        ]
        return (*own, *nested)

    @property
    def weight_size(self) -> Any:
        """Elements of ``weight``."""
        if self.module.info is None:
            value = external_attribute(self.module, "weight")
        else:
            value = self.instance.attributes.get("weight")
        if value is None:
            return None
        shape = value.shape if isinstance(value, Parameter) else None
        if shape is None or len(shape) != 1 or shape[0] is None:
            raise Undecided(f"the width of {self.class_name} is not known")
        return shape[0]

    def is_rms_norm(self, env: Env) -> bool:
        """Does it match the RMSNorm fuser?"""
        if self.module.info is not None:
            return takes_rms_norm(self, env)
        if self.module.class_name == "RMSNorm" and self.module.dotted.startswith("torch.nn"):
            return True
        if self.module.activation is not None or self.module.dotted.startswith("torch.nn."):
            return False
        raise Undecided(f"{self.class_name} is not defined in the scanned files")

    @property
    def is_scalar_gate(self) -> bool:
        """A Linear with one output."""
        return self.is_linear and bool(self.out_features == 1)

    @property
    def is_expert_store(self) -> bool:
        """A ModuleList, or all parameters 3-D."""
        module = self.module
        if module.class_name == "ModuleList" or module.items is not None:
            return True
        if module.info is None:
            return False
        if any(base.endswith("nn.ModuleList") for base in module.info.external_bases):
            return True
        parameters = [v for v in self.instance.attributes.values() if isinstance(v, Parameter)]
        if not parameters or any(self.child(name).state for name in self.child_names):
            return False
        if any(p.shape is None for p in parameters):
            raise Undecided(f"the shapes of {self.class_name}'s parameters are not known")
        return all(len(p.shape or ()) == 3 for p in parameters)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Sym):
        return a.same(b) is True
    return not isinstance(b, Sym) and bool(a == b)


def _is_closure(function: FunctionNode) -> bool:
    """Naming ``super`` makes a method a closure over its class."""
    return not body_of(function).names.isdisjoint(("super", "__class__"))
