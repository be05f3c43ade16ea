"""The names below a model: its modules, linear layers and parameters, as its constructors give.

Built from the trees of `modelcheck.rules.modules`. Where a constructor cannot be followed, the
path is *open*: anything may be below it, and nothing is said of names that begin with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from modelcheck.graph.attributes import external_attribute, module_arguments
from modelcheck.graph.values import (
    ClassValue,
    Config,
    External,
    Instance,
    Module,
    Parameter,
    Tensor,
    Unknown,
)
from modelcheck.rules.modules import Tree
from modelcheck.source.memory import remembered

LINEAR = "torch.nn.Linear"
MAX_DEPTH = 24

# Modules of torch without parameters, and those whose parameters are these.
_EMPTY = frozenset({"Dropout", "Identity", "Softmax", "Flatten", "Dropout1d", "Dropout2d"})
_WEIGHTS = {
    "Embedding": ("weight",),
    "RMSNorm": ("weight",),
    "Linear": ("weight", "bias"),
    "LayerNorm": ("weight", "bias"),
    "Conv1d": ("weight", "bias"),
    "Conv2d": ("weight", "bias"),
    "Conv3d": ("weight", "bias"),
}
_CONTAINERS = frozenset({"ModuleList", "Sequential", "ModuleDict"})


@dataclass(frozen=True, eq=False)
class Linear:
    """One ``nn.Linear``: where it is, in which module, and its sizes where they are known."""

    path: str
    name: str
    owner: Instance
    owner_path: str
    inputs: int | None
    outputs: int | None


@dataclass(frozen=True, eq=False)
class Names:
    """All paths of a model, relative to it ("layers.0.mlp"), without those below ``open``.

    ``modules`` has every module with the class it is of, as far as known, ``instances`` those of
    scanned classes. ``parameters`` are known to be there, ``optional`` may be (a bias that a
    setting decides, buffers). ``shapes`` are those of parameters, where known.
    """

    modules: dict[str, Module | Instance] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    linears: dict[str, Linear] = field(default_factory=dict)
    parameters: set[str] = field(default_factory=set)
    optional: set[str] = field(default_factory=set)
    shapes: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def everything(self) -> Iterator[str]:
        """Paths of modules, parameters and buffers."""
        yield from self.modules
        yield from self.parameters
        yield from self.optional


@remembered(maxsize=32)
def names_of(tree: Tree) -> Names:
    """The names below the tree's model."""
    found = Names()
    if tree.modules:
        _Walk(found).instance("", tree.modules[0].instance, 0)
    return found


class _Walk:
    def __init__(self, found: Names) -> None:
        self.found = found

    def instance(self, path: str, instance: Instance, depth: int) -> None:
        found = self.found
        found.instances[path] = instance
        if path:
            found.modules[path] = instance
        if instance.unknown or depth > MAX_DEPTH:
            found.open.add(path)
        for name, value in instance.attributes.items():
            here = f"{path}.{name}" if path else name
            if isinstance(value, Module):
                self.module(here, name, value, instance, path, depth + 1)
            elif isinstance(value, Parameter):
                found.parameters.add(here)
                if value.shape is not None:
                    found.shapes[here] = value.shape
            elif isinstance(value, Tensor) and value.name:
                found.optional.add(here)
            elif isinstance(value, Unknown | External | ClassValue):
                found.open.add(here)

    def module(
        self, path: str, name: str, module: Module, owner: Instance, owner_path: str, depth: int
    ) -> None:
        if is_linear(module):
            sizes = [_size(module, side) for side in ("in_features", "out_features")]
            self.found.linears[path] = Linear(path, name, owner, owner_path, *sizes)
        if module.info is not None:
            if isinstance(module.instance, Instance):
                self.instance(path, module.instance, depth)
            else:
                self.found.modules[path] = module
                self.found.open.add(path)
            if is_linear(module):
                self._leaf(path, "Linear", module)
        else:
            self.found.modules[path] = module
            self._external(path, module)
        for index, item in enumerate(module.items or ()):
            if isinstance(item, Module):
                self.module(f"{path}.{index}", str(index), item, owner, owner_path, depth + 1)
            else:
                self.found.open.add(f"{path}.{index}")

    def _external(self, path: str, module: Module) -> None:
        kind = module.class_name
        known = module.dotted.startswith("torch.nn.")
        if module.activation is not None or (known and kind in _EMPTY):
            return
        if known and kind in _WEIGHTS:
            self._leaf(path, kind, module)
        elif not (known and kind in _CONTAINERS and module.items is not None):
            self.found.open.add(path)

    def _leaf(self, path: str, kind: str, module: Module) -> None:
        arguments = module_arguments(module) if module.info is None else {}
        for name in _WEIGHTS[kind]:
            certain = name == "weight" and arguments.get("elementwise_affine", True) is True
            if name == "bias":
                bias = arguments.get("bias", True) if module.info is None else None
                if bias is False or arguments.get("elementwise_affine", True) is False:
                    continue
                certain = bias is True
            (self.found.parameters if certain else self.found.optional).add(f"{path}.{name}")


def is_linear(module: Module) -> bool:
    """An ``nn.Linear`` or a subclass."""
    if module.info is not None:
        return LINEAR in module.info.external_bases
    return module.dotted == LINEAR


def _size(module: Module, side: str) -> int | None:
    if module.info is not None:
        value = module.instance.attributes.get(side) if module.instance is not None else None
    else:
        value = external_attribute(module, side)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def config_of(tree: Tree) -> Config | None:
    """The configuration that the tree's model was built from."""
    if not tree.modules:
        return None
    value = tree.modules[0].instance.attributes.get("config")
    return value if isinstance(value, Config) else None
