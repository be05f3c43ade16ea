"""Attributes for the interpreter: of instances, submodules, configurations and what is outside."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from modelcheck.graph.base import Frame, Raised, line_of
from modelcheck.graph.configs import FROM_CONFIG, config_value
from modelcheck.graph.core import Node
from modelcheck.graph.expressions import Expressions
from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import (
    NONE,
    AttributeOf,
    BoundExternal,
    ClassValue,
    Config,
    External,
    Function,
    Instance,
    Module,
    Parameter,
    Submodule,
    SuperValue,
    Tensor,
    Unknown,
    tensor,
)
from modelcheck.source.classes import ClassInfo, FunctionNode


class Attributes(Expressions):
    """``value.name`` for every kind of value."""

    def attribute(self, value: Any, name: str, node: ast.AST, frame: Frame) -> Any:
        """``value.name``."""
        match value:
            case Node():
                return AttributeOf(value, name)
            case AttributeOf():
                return AttributeOf(self.materialise(value, node), name)
            case External():
                return External(f"{value.dotted}.{name}")
            case Instance():
                return self.instance_attribute(value, name, node, "")
            case Submodule():
                return self.submodule_attribute(value, name, node)
            case Config():
                return self.config_attribute(value, name, node)
            case SuperValue():
                return self.super_attribute(value, name)
            case ClassValue():
                method = value.info.find_method(name)
                if method is not None:
                    return Function(method[1], method[0].file, None, defined_in=method[0])
                found = value.info.find_attribute(name)
                if found is not None:
                    return self.expression(found[1], Frame(found[0].file, {}, None, 0))
                if name in FROM_CONFIG and value.info.kind == "pretrained":
                    return BoundExternal(value, name)
                return External(f"{value.info.name}.{name}")
            case Tensor():
                if name in ("shape", "dtype", "device"):
                    return Unknown(f"{name} of a constant tensor", line_of(node))
                return BoundExternal(value, name)
            case Unknown():
                return Unknown(value.reason, value.line)
            case None if self.recorder is None:
                raise Raised(f"None.{name}")
            case Sym():
                return Unknown(f"{value}.{name} is not known", line_of(node))
        return BoundExternal(value, name)

    def instance_attribute(self, owner: Instance, name: str, node: ast.AST, prefix: str) -> Any:
        """``self.name``, in a constructor or a forward."""
        if name == "training":
            return owner.training
        if name in owner.attributes:
            value = owner.attributes[name]
            path = f"{prefix}{name}"
            if isinstance(value, Module):
                return Submodule(path, value)
            if isinstance(value, Parameter) and self.recorder is not None:
                return self.parameter(path, value)
            if isinstance(value, Tensor):
                return Tensor(value.rank, path)
            return value
        if name == "__class__":
            return ClassValue(owner.info)
        method = owner.info.find_method(name)
        if method is not None:
            return self.method_of(owner, method, node)
        found = owner.info.find_attribute(name)
        if found is not None:
            value = self.expression(found[1], Frame(found[0].file, {}, None, 0))
            if isinstance(value, Function):
                return Function(value.node, value.file, owner, value.closure, value.defined_in)
            return value
        if owner.unknown:
            return Unknown(f"self.{name}: {owner.unknown}", line_of(node))
        return BoundExternal(owner, name)

    def has_attribute(self, owner: Instance, name: str) -> bool | None:
        """``hasattr(self, name)``; None when it cannot be told."""
        if (
            name in owner.attributes
            or owner.info.find_method(name)
            or owner.info.find_attribute(name)
            or name in ("training", "forward", "named_parameters", "modules")
        ):
            return True
        return None if owner.unknown else False

    def parameter(self, path: str, value: Parameter) -> Node:
        """``self.weight`` in a forward: one get_attr node for all mentions."""
        assert self.recorder is not None
        if path not in self.recorder.parameters:
            known = self.contract.parameters_known and value.shape is not None
            meta = tensor(len(value.shape or ())) if known else NONE
            self.recorder.parameters[path] = self.recorder.add("get_attr", path, (), {}, None, meta)
        return self.recorder.parameters[path]

    def submodule_attribute(self, owner: Submodule, name: str, node: ast.AST) -> Any:
        """``self.child.name``."""
        module = owner.module
        if module.items is not None and name.isdigit():
            return Submodule(f"{owner.path}.{name}", module.items[int(name)])
        if module.info is not None:
            instance = self.instance_of(module)
            return self.instance_attribute(instance, name, node, f"{owner.path}.")
        known = external_attribute(module, name)
        if isinstance(known, Parameter):
            if self.recorder is not None:
                return self.parameter(f"{owner.path}.{name}", known)
            return known
        if isinstance(known, Unknown):
            return BoundExternal(owner, name)
        return known

    def config_attribute(self, config: Config, name: str, node: ast.AST) -> Any:
        """``config.name``: the known value, a method or property, else a number known by name."""
        mapped = config.attribute_map.get(name, name)
        if mapped not in config.values and config.info is not None:
            method = config.info.find_method(name)
            if method is not None:
                return self.method_of(config, method, node)
        return config_value(config, name)

    def method_of(self, owner: Any, method: tuple[ClassInfo, FunctionNode], node: ast.AST) -> Any:
        """A method bound to its owner; of a property its value."""
        info, function = method
        decorators = [_decorator(d) for d in function.decorator_list]
        bound = Function(function, info.file, owner, defined_in=info)
        if "property" in decorators or "cached_property" in decorators:
            return self.call(bound, [], {}, node, Frame(info.file, {}, info, 0))
        return replace(bound, owner=None) if "staticmethod" in decorators else bound

    def super_attribute(self, value: SuperValue, name: str) -> Any:
        """``super().name``: the next class in the resolution order."""
        order = value.instance.info.mro
        index = next((i for i, c in enumerate(order) if c is value.after), -1)
        for info in order[index + 1 :]:
            if name in info.methods:
                return Function(info.methods[name], info.file, value.instance, defined_in=info)
        return BoundExternal(value, name)


def external_attribute(module: Module, name: str) -> Any:
    """Attributes of torch's own modules, from how they were made."""
    arguments = module_arguments(module)
    if name in ("in_features", "out_features", "num_embeddings", "embedding_dim", "eps", "p"):
        return arguments.get(name, Unknown(f"{module.class_name}.{name}"))
    if name == "weight":
        if module.class_name == "Linear":
            return Parameter((arguments.get("out_features"), arguments.get("in_features")))
        if module.class_name == "Embedding":
            return Parameter((arguments.get("num_embeddings"), arguments.get("embedding_dim")))
        if module.class_name in ("LayerNorm", "RMSNorm"):
            return Parameter((arguments.get("normalized_shape"),))
    if name == "bias" and module.class_name == "Linear":
        has = arguments.get("bias", True)
        if has is True:
            return Parameter((arguments.get("out_features"),))
        if has is False:
            return None
    return Unknown(f"{module.class_name}.{name}")


PARAMETERS = {
    "Linear": ("in_features", "out_features", "bias"),
    "Embedding": ("num_embeddings", "embedding_dim", "padding_idx"),
    "LayerNorm": ("normalized_shape", "eps", "elementwise_affine", "bias"),
    "RMSNorm": ("normalized_shape", "eps", "elementwise_affine"),
    "Dropout": ("p",),
    "GELU": ("approximate",),
}


def module_arguments(module: Module) -> dict[str, Any]:
    """Constructor arguments of a torch module by name."""
    names = PARAMETERS.get(module.class_name, ())
    return dict(zip(names, module.args, strict=False)) | module.kwargs


def _decorator(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
