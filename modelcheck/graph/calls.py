"""Calls for the interpreter: functions, modules, the attention interface, what is outside."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from modelcheck.graph import metas
from modelcheck.graph.attributes import external_attribute
from modelcheck.graph.base import Frame, is_traced, line_of, short
from modelcheck.graph.builtin import builtin, construct_external
from modelcheck.graph.configs import FROM_CONFIG, OPTIONS, config_method, switch
from modelcheck.graph.core import Node
from modelcheck.graph.expressions import Expressions
from modelcheck.graph.helpers import helper
from modelcheck.graph.items import INTERFACE
from modelcheck.graph.methods import NUMBERS, constant_tensor, dict_method, list_method, number
from modelcheck.graph.values import (
    MAYBE,
    NONE,
    AttributeOf,
    BoundExternal,
    ClassValue,
    Config,
    External,
    Function,
    Instance,
    Interface,
    Module,
    Stop,
    Submodule,
    SuperValue,
    Tensor,
    Unknown,
    sequence,
)
from modelcheck.source.bodies import body_of
from modelcheck.source.classes import ClassInfo
from modelcheck.source.memory import remembered
from modelcheck.source.models import model_for

DICT_METHODS = ("get", "items", "keys", "values", "pop", "copy", "update", "setdefault")
# What the forward of a torch module comes down to, for subclasses that call it.
PARENT_FORWARDS = {
    "torch.nn.Embedding": "torch.nn.functional.embedding",
    "torch.nn.LayerNorm": "torch.nn.functional.layer_norm",
    "torch.nn.GroupNorm": "torch.nn.functional.group_norm",
    "torch.nn.Linear": "torch.nn.functional.linear",
    "torch.nn.Conv1d": "torch.conv1d",
    "torch.nn.Conv2d": "torch.conv2d",
    "torch.nn.Conv3d": "torch.conv3d",
    "torch.nn.BatchNorm2d": "torch.nn.functional.batch_norm",
}
# Methods of ``nn.Module`` itself that a forward may call.
MODULE_METHODS = frozenset(
    {
        "children",
        "get_buffer",
        "get_parameter",
        "get_submodule",
        "modules",
        "named_children",
        "named_modules",
        "named_buffers",
        "named_parameters",
        "buffers",
        "parameters",
        "state_dict",
        "extra_repr",
        "to",
        "train",
        "eval",
        "type",
        "apply",
        "float",
        "half",
        "bfloat16",
        "zero_grad",
        "requires_grad_",
        "_gradient_checkpointing_func",
    }
)
PLAIN_BASES = ("torch.nn.Module", "torch.nn.modules.Module")
TORCH = ("torch.", "torch.nn.functional.")


class Calls(Expressions):
    """A call of any kind of value."""

    def call(
        self,
        function: Any,
        args: list[Any],
        kwargs: dict[str, Any],
        node: ast.AST,
        frame: Frame,
    ) -> Any:
        """Call a value."""
        match function:
            case AttributeOf():
                return self.traced_call(
                    "call_method", function.name, [function.node, *args], kwargs, node
                )
            case Function():
                return self.call_function(function, args, kwargs, node, frame)
            case ClassValue():
                return self.construct(function.info, args, kwargs, node)
            case Submodule():
                return self.call_module(function, args, kwargs, node, frame)
            case External():
                return self.call_external(function.dotted, args, kwargs, node, frame)
            case BoundExternal():
                return self.call_bound(function, args, kwargs, node, frame)
            case Interface():
                return self.call_interface(function, args, kwargs, node)
            case Node():
                raise Stop("a traced value is called", line_of(node))
            case Module():
                if self.recorder is not None and is_traced([args, kwargs]):
                    raise Stop("a module that is no submodule is called", line_of(node))
                return Tensor()
            case Instance():
                forward = function.info.find_method("forward")
                if forward is not None:
                    bound = Function(forward[1], forward[0].file, function, defined_in=forward[0])
                    return self.call_function(bound, args, kwargs, node, frame)
        return self.opaque(f"{short(node)} cannot be followed", [*args, *kwargs.values()], node)

    def opaque(self, reason: str, inputs: list[Any], node: ast.AST) -> Any:
        """A call that cannot be seen into: a doubtful node if it takes traced values."""
        if self.recorder is not None and is_traced(inputs):
            self.recorder.doubtful(reason, node)
            return self.recorder.add("call_function", "unknown", tuple(inputs), {}, node, MAYBE)
        return Unknown(reason, line_of(node))

    def call_function(
        self,
        function: Function,
        args: list[Any],
        kwargs: dict[str, Any],
        node: ast.AST,
        frame: Frame,
    ) -> Any:
        """A function of the scanned files: followed, as fx does."""
        names = dict(function.closure)
        definition = function.node
        if function.owner is not None:
            args = [function.owner, *args]
        if not bind(self, definition, args, kwargs, names, function):
            return self.opaque(
                f"the arguments of {short(node)} do not fit", [*args, *kwargs.values()], node
            )
        if isinstance(definition, ast.Lambda):
            inner = Frame(function.file, names, function.defined_in, frame.depth + 1)
            return self.expression(definition.body, inner)
        if _is_generator(definition):
            return self.opaque("a generator is not followed", [*args, *kwargs.values()], node)
        return self.run_function(
            definition, function.file, names, function.defined_in, frame.depth + 1
        )

    def construct(
        self, info: ClassInfo, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> Any:
        """A class of the scanned files is called."""
        if info.kind == "config":
            from modelcheck.source.config_defaults import read_config_class  # it needs us

            return read_config_class(info, self.contract, kwargs)
        if not info.is_module and not info.find_method("forward"):
            return self.opaque(f"{info.name} is not a module", [*args, *kwargs.values()], node)
        items: list[Any] | None = None
        if any(base.endswith("ModuleList") for base in info.external_bases):
            items = []
        module = Module(tuple(args), kwargs, info=info, items=items)
        self.constructed.append(module)
        return module

    def from_config(
        self, info: ClassInfo, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> Any:
        """``Model._from_config(config)``: the model, its configuration switched if so asked."""
        asked = kwargs.get("attn_implementation")
        config = args[0] if args else kwargs.get("config")
        if isinstance(config, Config) and isinstance(asked, str):
            switch(config, asked)
        return self.construct(
            info, args, {k: v for k, v in kwargs.items() if k not in OPTIONS}, node
        )

    def auto_model(
        self, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        """``AutoModel.from_config(config)``: a model of this file, or one that is not seen."""
        config = args[0] if args else kwargs.get("config")
        if isinstance(config, Config) and config.info is not None:
            info = model_for(frame.file, config.info)
            if info is not None:
                return self.from_config(info, args, kwargs, node)
        return Module(tuple(args), kwargs, dotted="transformers.AutoModel")

    def call_module(
        self,
        function: Submodule,
        args: list[Any],
        kwargs: dict[str, Any],
        node: ast.AST,
        frame: Frame,
    ) -> Any:
        """``self.child(...)`` is one node."""
        if self.recorder is None:
            return Tensor()
        if not is_traced([args, kwargs]):
            return Tensor()
        meta = self.module_meta(function.module, args, kwargs)
        return self.recorder.add("call_module", function.path, tuple(args), kwargs, node, meta)

    def module_meta(self, module: Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a child gives, by its class."""
        assert self.recorder is not None
        inputs = [self.recorder.meta_of(a) for a in (*args, *kwargs.values())]
        known = [m for m in inputs if m is not None]
        if not self.contract.meta_execution or any(m.kind == "none" for m in known):
            return NONE
        name = module.class_name
        if (name in metas.TORCH_MODULES_SAME and not module.info) or module.activation is not None:
            return known[0] if known else MAYBE
        return MAYBE

    def call_interface(
        self,
        function: Interface,
        args: list[Any],
        kwargs: dict[str, Any],
        node: ast.AST,
    ) -> Any:
        """The attention interface: opaque when it came from get_interface."""
        if self.recorder is None or not is_traced(args):
            return (Tensor(), None)
        if not function.opaque or not self.contract.interface_leaf:
            raise Stop(
                "the attention function itself is entered (only get_interface(...) is opaque)",
                line_of(node),
            )
        traced = tuple(a for a in args if isinstance(a, Node | AttributeOf))
        return self.recorder.add(
            "call_function",
            "attention_interface",
            traced,
            {},
            node,
            sequence(NONE, NONE),
            leaf=True,
        )

    def call_bound(
        self,
        function: BoundExternal,
        args: list[Any],
        kwargs: dict[str, Any],
        node: ast.AST,
        frame: Frame,
    ) -> Any:
        """Methods of plain values, of ``self`` and of children."""
        receiver, name = function.receiver, function.name
        if isinstance(receiver, ClassValue):
            return self.from_config(receiver.info, args, kwargs, node)
        if isinstance(receiver, SuperValue):
            return self.call_super(receiver, name, args, kwargs, node)
        if isinstance(receiver, Instance):
            return self.call_self(receiver, name, args, kwargs, node)
        if isinstance(receiver, Tensor):
            if is_traced([args, kwargs]):
                return self.traced_call("call_method", name, [receiver, *args], kwargs, node)
            if name in ("item", "tolist", "size", "dim", "numel"):
                return Unknown("the value of a tensor", line_of(node))
            return Tensor(receiver.rank if name in metas.SAME else None)
        if isinstance(receiver, list) and name in ("append", "extend", "insert", "pop", "copy"):
            return list_method(receiver, name, args, node)
        if isinstance(receiver, dict) and name in (
            "get",
            "items",
            "keys",
            "values",
            "pop",
            "copy",
            "update",
            "setdefault",
        ):
            return dict_method(receiver, name, args, kwargs, node)
        if isinstance(receiver, str) and not is_traced([args, kwargs]):
            try:
                return getattr(receiver, name)(*args, **kwargs)
            except (AttributeError, TypeError, ValueError):
                return Unknown("a text", line_of(node))
        if isinstance(receiver, Config):
            return config_method(receiver, name)
        if isinstance(receiver, Submodule):
            module = receiver.module
            if name == "append" and module.items is not None and self.recorder is None:
                module.items += args
                return receiver
            if name in ("named_parameters", "parameters", "to", "requires_grad_", "eval", "train"):
                return receiver
        return self.opaque(
            f"{short(node)} cannot be followed", [receiver, *args, *kwargs.values()], node
        )

    def call_super(
        self,
        receiver: SuperValue,
        name: str,
        args: list[Any],
        kwargs: dict[str, Any],
        node: ast.AST,
    ) -> Any:
        """A parent outside the scanned files."""
        instance = receiver.instance
        if name == "__init__":
            if instance.info.kind == "config":
                for key, value in kwargs.items():  # what PreTrainedConfig is given it keeps
                    instance.attributes.setdefault(key, value)
            if any("PreTrainedModel" in base for base in instance.info.external_bases) and args:
                instance.attributes.setdefault("config", args[0])
            for base in instance.info.external_bases:
                if base.endswith(("nn.Linear", "nn.Embedding", "nn.LayerNorm")):
                    shadow = Module(tuple(args), kwargs, dotted=base)
                    for attribute in ("in_features", "out_features", "weight", "bias"):
                        value = external_attribute(shadow, attribute)
                        if not isinstance(value, Unknown):
                            instance.attributes.setdefault(attribute, value)
            return None
        if name == "__post_init__" and isinstance(instance, Instance):
            for key, value in kwargs.items():
                instance.attributes.setdefault(key, value)
            return None
        if name in ("__init_subclass__", "__setattr__"):
            return None
        inputs = [*args, *kwargs.values()]
        if name == "forward" and self.recorder is not None and is_traced(inputs):
            for base in instance.info.external_bases:
                if base in PARENT_FORWARDS:
                    return self.traced_call("call_function", PARENT_FORWARDS[base], args, {}, node)
        return self.opaque(f"super().{name} is outside the scanned files", inputs, node)

    def call_self(
        self, owner: Instance, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> Any:
        """``nn.Module``'s own methods on ``self``."""
        if name in ("register_buffer", "register_parameter", "add_module", "register_module"):
            values = [*args, *kwargs.values()]
            if len(values) >= 2 and isinstance(values[0], str):
                value = values[1]
                if name == "register_buffer" and not isinstance(value, type(None)):
                    rank = value.rank if isinstance(value, Tensor) else None
                    value = Tensor(rank, values[0])
                owner.attributes[values[0]] = value
            else:
                owner.unknown = "a member is registered under a name that is not known"
            return None
        if name in ("append", "extend") and self.recorder is None:
            owner.unknown = owner.unknown or "modules are appended to self"
            return None
        if self.recorder is None:
            return Unknown(f"self.{name}()", line_of(node))
        if not owner.unknown and name not in MODULE_METHODS and is_plain_module(owner.info):
            raise Stop(f"self.{name} does not exist", line_of(node))
        return self.opaque(
            f"self.{name}(...) is not defined in the scanned files", [*args, *kwargs.values()], node
        )

    # Calls of what is outside ----------------------------------------------------------------

    def call_external(
        self, dotted: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        """Functions and classes of torch, transformers, math, builtins."""
        name = dotted.rpartition(".")[2]
        if dotted.startswith("builtins."):
            return builtin(self, name, args, kwargs, node, frame)
        if f"{INTERFACE}." in f"{dotted}.":
            return Interface(opaque=name == "get_interface")
        stand_in = helper(dotted)
        if stand_in is not None and self.recorder is not None:
            return stand_in(self, args, kwargs, node, frame)
        if is_traced([args, kwargs]):
            if dotted in ("torch.finfo", "torch.iinfo"):
                raise Stop(f"{dotted} of a traced value's dtype is asked for", line_of(node))
            if dotted.startswith(TORCH) or dotted in NUMBERS:  # torch.fx wraps math's functions
                return self.traced_call("call_function", dotted, args, kwargs, node)
            if dotted.startswith("operator."):
                return self.traced_operator(name, args, node)
            return self.opaque(
                f"{dotted} is outside the scanned files", [*args, *kwargs.values()], node
            )
        if dotted in ("copy.deepcopy", "copy.copy") and args:
            return copied(args[0], deep=name == "deepcopy")
        if name in FROM_CONFIG and dotted.rpartition(".")[0].rpartition(".")[2].startswith("Auto"):
            return self.auto_model(args, kwargs, node, frame)
        if dotted in NUMBERS and args:
            return number(dotted, args)
        if dotted.startswith("torch."):
            made = construct_external(dotted, args, kwargs)
            if made is not None:
                return made
            if name == "is_grad_enabled" or name.startswith("is_"):
                return Unknown(f"{name}()", line_of(node))
            return constant_tensor(name, args)
        made = construct_external(dotted, args, kwargs)
        if made is not None:
            return made
        return Unknown(f"{dotted} is outside the scanned files", line_of(node))


def copied(value: Any, deep: bool) -> Any:
    """A copy of a configuration or a module; anything else stays itself."""
    if isinstance(value, Config):
        return value.copy() if deep else replace(value, values=dict(value.values))
    if isinstance(value, Submodule):
        value = value.module
    return replace(value, instance=None) if isinstance(value, Module) else value


@remembered(maxsize=1024)
def _parameters(definition: Any) -> tuple[list[str], dict[str, ast.expr]]:
    """The names of positional parameters, and every default by the name of its parameter."""
    parameters = definition.args
    positional = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    optional = positional[len(positional) - len(parameters.defaults) :]
    defaults = dict(zip(optional, parameters.defaults, strict=True))
    keywords = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    return positional, defaults | {a.arg: d for a, d in keywords if d}


def bind(
    interpreter: Expressions,
    definition: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    names: dict[str, Any],
    function: Function,
) -> bool:
    """Bind arguments to parameters as Python does; False when they do not fit."""
    parameters = definition.args
    positional, defaults = _parameters(definition)
    left = dict(kwargs)
    frame = Frame(function.file, {}, function.defined_in, 0)
    for index, name in enumerate(positional):
        if index < len(args):
            names[name] = args[index]
        elif name in left:
            names[name] = left.pop(name)
        elif name in defaults:
            names[name] = interpreter.expression(defaults[name], frame)
        else:
            return False
    if len(args) > len(positional) and parameters.vararg is None:
        return False
    if parameters.vararg is not None:
        names[parameters.vararg.arg] = tuple(args[len(positional) :])
    for parameter in parameters.kwonlyargs:
        name = parameter.arg
        if name in left:
            names[name] = left.pop(name)
        elif name in defaults:
            names[name] = interpreter.expression(defaults[name], frame)
        else:
            return False
    if parameters.kwarg is not None:
        names[parameters.kwarg.arg] = left
    elif left:
        return False
    if function.owner is not None and function.defined_in is not None:
        names["__class__"] = SuperValue(function.owner, function.defined_in)
    return True


def is_plain_module(info: ClassInfo) -> bool:
    """Is all that it inherits seen, but for ``nn.Module``?"""
    return all(
        base in PLAIN_BASES or base.endswith(".GradientCheckpointingLayer")
        for base in info.external_bases
    )


def _is_generator(definition: ast.AST) -> bool:
    return not body_of(definition).kinds.isdisjoint((ast.Yield, ast.YieldFrom))
