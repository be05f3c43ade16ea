"""Calls and attributes for the interpreter: modules, torch functions, builtins, config."""

from __future__ import annotations

import ast
import math
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Undecided
from modelcheck.graph import metas
from modelcheck.graph.core import Node
from modelcheck.graph.interp import Evaluator, Frame, Raised, is_traced
from modelcheck.graph.recorder import Recorder
from modelcheck.graph.symbolic import Sym, decide
from modelcheck.graph.values import (
    MAYBE,
    NONE,
    SCALAR,
    AttributeOf,
    BoundExternal,
    ClassValue,
    Config,
    External,
    Function,
    Instance,
    Interface,
    Module,
    Parameter,
    Stop,
    Submodule,
    SuperValue,
    Tensor,
    Unknown,
    sequence,
    tensor,
)
from modelcheck.source.classes import ClassInfo

INTERFACE = "ALL_ATTENTION_FUNCTIONS"
TORCH = ("torch.", "torch.nn.functional.")
CREATES = frozenset(
    """zeros ones empty full arange tensor rand randn linspace eye outer zeros_like ones_like
    empty_like full_like as_tensor from_numpy Tensor FloatTensor stack cat""".split()
)
NUMBERS = {
    "math.sqrt": math.sqrt,
    "math.log": math.log,
    "math.log2": math.log2,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.prod": math.prod,
    "math.pow": math.pow,
    "math.exp": math.exp,
}
# What a child does to the rank of its input, for the torch modules that keep it.
KEEPS_RANK = metas.TORCH_MODULES_SAME


class Interpreter(Evaluator):
    """Interprets constructors (no recorder) and forwards (with one)."""

    def __init__(self, contract: Contract, recorder: Recorder | None = None) -> None:
        super().__init__()
        self.contract = contract
        self.recorder = recorder
        self.constructed: list[Module] = []

    # Attributes ----------------------------------------------------------------------------

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
                return config_value(value, name)
            case SuperValue():
                return self.super_attribute(value, name)
            case ClassValue():
                method = value.info.find_method(name)
                if method is not None:
                    return Function(method[1], method[0].file, None, defined_in=method[0])
                found = value.info.find_attribute(name)
                if found is not None:
                    return self.expression(found[1], Frame(found[0].file, {}, None, 0))
                return External(f"{value.info.name}.{name}")
            case Tensor():
                if name in ("shape", "dtype", "device"):
                    return Unknown(f"{name} of a constant tensor", _line(node))
                return BoundExternal(value, name)
            case Unknown():
                return Unknown(value.reason, value.line)
            case Sym():
                return Unknown(f"{value}.{name} is not known", _line(node))
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
            info, function = method
            if any(_decorator(d) in ("property", "cached_property") for d in function.decorator_list):
                return self.call(
                    Function(function, info.file, owner, defined_in=info),
                    [],
                    {},
                    node,
                    Frame(info.file, {}, info, 0),
                )
            static = any(_decorator(d) == "staticmethod" for d in function.decorator_list)
            return Function(function, info.file, None if static else owner, defined_in=info)
        found = owner.info.find_attribute(name)
        if found is not None:
            value = self.expression(found[1], Frame(found[0].file, {}, None, 0))
            if isinstance(value, Function):
                return Function(value.node, value.file, owner, value.closure, value.defined_in)
            return value
        if owner.unknown:
            return Unknown(f"self.{name}: {owner.unknown}", _line(node))
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

    def super_attribute(self, value: SuperValue, name: str) -> Any:
        """``super().name``: the next class in the resolution order."""
        order = value.instance.info.mro
        index = next((i for i, c in enumerate(order) if c is value.after), -1)
        for info in order[index + 1 :]:
            if name in info.methods:
                return Function(info.methods[name], info.file, value.instance, defined_in=info)
        return BoundExternal(value, name)

    # Calls -------------------------------------------------------------------------------

    def call(
        self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
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
                raise Stop("a traced value is called", _line(node))
            case Module() if self.recorder is None:
                return Tensor()
            case Instance():
                forward = function.info.find_method("forward")
                if forward is not None:
                    bound = Function(forward[1], forward[0].file, function, defined_in=forward[0])
                    return self.call_function(bound, args, kwargs, node, frame)
        return self.opaque(f"{_short(node)} cannot be followed", [*args, *kwargs.values()], node)

    def opaque(self, reason: str, inputs: list[Any], node: ast.AST) -> Any:
        """A call that cannot be seen into: a doubtful node if it takes traced values."""
        if self.recorder is not None and is_traced(inputs):
            self.recorder.doubtful(reason, node)
            return self.recorder.add(
                "call_function", "unknown", tuple(inputs), {}, node, MAYBE
            )
        return Unknown(reason, _line(node))

    def call_function(
        self, function: Function, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        """A function of the scanned files: followed, as fx does."""
        names = dict(function.closure)
        definition = function.node
        if function.owner is not None:
            args = [function.owner, *args]
        if not bind(self, definition, args, kwargs, names, function):
            return self.opaque(
                f"the arguments of {_short(node)} do not fit", [*args, *kwargs.values()], node
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
            return Config(info.name)
        if not info.is_module and not info.find_method("forward"):
            return self.opaque(
                f"{info.name} is not a module", [*args, *kwargs.values()], node
            )
        items: list[Any] | None = None
        if any(base.endswith("ModuleList") for base in info.external_bases):
            items = []
        module = Module(tuple(args), kwargs, info=info, items=items)
        self.constructed.append(module)
        return module

    def call_module(
        self, function: Submodule, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        """``self.child(...)`` is one node."""
        if self.recorder is None:
            return Tensor()
        if not is_traced([args, kwargs]):
            return Tensor()
        kwargs = {k: v for k, v in kwargs.items()}
        meta = self.module_meta(function.module, args, kwargs)
        return self.recorder.add(
            "call_module", function.path, tuple(args), kwargs, node, meta
        )

    def module_meta(self, module: Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a child gives, by its class."""
        assert self.recorder is not None
        inputs = [self.recorder.meta_of(a) for a in (*args, *kwargs.values())]
        known = [m for m in inputs if m is not None]
        if not self.contract.meta_execution or any(m.kind == "none" for m in known):
            return NONE
        name = module.class_name
        if (name in KEEPS_RANK and not module.info) or module.activation is not None:
            return known[0] if known else MAYBE
        return MAYBE

    def call_interface(
        self, function: Interface, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> Any:
        """The attention interface: opaque when it came from get_interface."""
        if self.recorder is None or not is_traced(args):
            return (Tensor(), None)
        if not function.opaque or not self.contract.interface_leaf:
            raise Stop(
                "the attention function itself is entered (only get_interface(...) is opaque)",
                _line(node),
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
        if isinstance(receiver, SuperValue):
            return self.call_super(receiver, name, args, kwargs, node)
        if isinstance(receiver, Instance):
            return self.call_self(receiver, name, args, kwargs, node)
        if isinstance(receiver, Tensor):
            if is_traced([args, kwargs]):
                return self.traced_call("call_method", name, [receiver, *args], kwargs, node)
            if name in ("item", "tolist", "size", "dim", "numel"):
                return Unknown("the value of a tensor", _line(node))
            return Tensor(receiver.rank if name in metas.SAME else None)
        if isinstance(receiver, list) and name in ("append", "extend", "insert", "pop", "copy"):
            return _list_method(receiver, name, args, node)
        if isinstance(receiver, dict) and name in ("get", "items", "keys", "values", "pop", "copy", "update", "setdefault"):
            return _dict_method(receiver, name, args, kwargs, node)
        if isinstance(receiver, str) and not is_traced([args, kwargs]):
            try:
                return getattr(receiver, name)(*args, **kwargs)
            except (AttributeError, TypeError, ValueError):
                return Unknown("a text", _line(node))
        if isinstance(receiver, Config):
            return config_method(receiver, name, args)
        if isinstance(receiver, Submodule):
            module = receiver.module
            if name == "append" and module.items is not None and self.recorder is None:
                module.items += args
                return receiver
            if name in ("named_parameters", "parameters", "to", "requires_grad_", "eval", "train"):
                return receiver
        return self.opaque(
            f"{_short(node)} cannot be followed", [receiver, *args, *kwargs.values()], node
        )

    def call_super(
        self, receiver: SuperValue, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> Any:
        """A parent outside the scanned files."""
        instance = receiver.instance
        if name == "__init__":
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
        if name in ("__post_init__", "__init_subclass__", "__setattr__"):
            return None
        return self.opaque(f"super().{name} is outside the scanned files", [*args, *kwargs.values()], node)

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
            return Unknown(f"self.{name}()", _line(node))
        return self.opaque(f"self.{name}(...) is not defined in the scanned files", [*args, *kwargs.values()], node)

    # Calls of what is outside ----------------------------------------------------------------

    def call_external(
        self, dotted: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        """Functions and classes of torch, transformers, math, builtins."""
        from modelcheck.graph.builtin import builtin, construct_external

        name = dotted.rpartition(".")[2]
        if dotted.startswith("builtins."):
            return builtin(self, name, args, kwargs, node, frame)
        if f"{INTERFACE}." in f"{dotted}.":
            return Interface(opaque=name == "get_interface")
        if is_traced([args, kwargs]):
            if dotted.startswith(TORCH):
                return self.traced_call("call_function", torch_name(dotted), args, kwargs, node)
            if dotted.startswith("operator."):
                return self.traced_operator(name, args, node)
            return self.opaque(
                f"{dotted} is outside the scanned files", [*args, *kwargs.values()], node
            )
        if dotted in NUMBERS and args:
            return _number(dotted, args)
        if dotted.startswith("torch."):
            made = construct_external(dotted, args, kwargs)
            if made is not None:
                return made
            if name == "is_grad_enabled" or name.startswith("is_"):
                return Unknown(f"{name}()", _line(node))
            return _constant_tensor(name, args)
        made = construct_external(dotted, args, kwargs)
        return made if made is not None else Unknown(f"{dotted} is outside the scanned files", _line(node))

    # Traced operations -------------------------------------------------------------------------

    def traced_operator(self, name: str, args: list[Any], node: ast.AST) -> Any:
        """An operator on traced values."""
        return self.traced_call("call_function", f"operator.{name}", args, {}, node)

    def traced_call(
        self, op: str, target: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> Any:
        """Record an operation of torch on traced values."""
        assert self.recorder is not None
        name = target.rpartition(".")[2]
        meta = self.recorder.call_meta(name, tuple(args), kwargs)
        return self.recorder.add(op, target, tuple(args), kwargs, node, meta)

    def materialise(self, value: Any, node: ast.AST) -> Any:
        """``x.shape`` as a node."""
        assert self.recorder is not None
        return self.recorder.argument(value, node)

    def item(self, value: Any, key: Any, node: ast.AST) -> Any:
        """``value[key]``."""
        if isinstance(value, Submodule):
            return self.submodule_item(value, key, node)
        if isinstance(value, External):
            if value.dotted.rpartition(".")[2] == INTERFACE:
                return Interface(opaque=False)
            if value.dotted.rpartition(".")[2] == "ACT2FN":
                from modelcheck.graph.builtin import activation

                return activation(key)
            return Unknown(f"{value.dotted}[...] is not known", _line(node))
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
                raise Stop("an index is out of range", _line(node)) from None
        if isinstance(value, dict) and isinstance(key, str | int | float | type(None)):
            if key in value:
                return value[key]
            raise Stop(f"{key!r} is not in the dict", _line(node))
        if isinstance(value, Tensor):
            if is_traced(key):
                return self.traced_call("call_function", "operator.getitem", [value, key], {}, node)
            return Tensor()
        if isinstance(value, Config):
            return Sym.name(f"{value.name}[{key}]")
        return Unknown(f"{_short(node)} is not known", _line(node))

    def submodule_item(self, value: Submodule, key: Any, node: ast.AST) -> Any:
        """A member of a ModuleList or Sequential."""
        items = value.module.items
        if items is None:
            return Unknown(f"{_short(node)} is not known", _line(node))
        if isinstance(key, slice):
            return [Submodule(f"{value.path}.{i}", m) for i, m in enumerate(items)][key]
        if isinstance(key, int) and -len(items) <= key < len(items):
            return Submodule(f"{value.path}.{key % len(items)}", items[key])
        if items:
            return Submodule(f"{value.path}.0", items[0])
        return Unknown(f"{_short(node)} is not known", _line(node))

    def iterate(self, value: Any, node: ast.AST, count: int | None = None) -> list[Any]:
        """The elements of a value; ``count`` when as many are unpacked."""
        if isinstance(value, Node | AttributeOf):
            return self.iterate_traced(value, node, count)
        if isinstance(value, tuple | list):
            return list(value)
        if isinstance(value, dict):
            return list(value)
        if isinstance(value, str):
            return list(value)
        if isinstance(value, Submodule) and value.module.items is not None:
            return [Submodule(f"{value.path}.{i}", m) for i, m in enumerate(value.module.items)]
        if count is not None:
            return [Unknown(f"{_short(node)} is not known", _line(node))] * count
        if isinstance(value, Sym | Unknown):
            return [Unknown("an element of something that is not known", _line(node))]
        raise Undecided(f"what {_short(node)} loops over is not known", _line(node))

    def iterate_traced(self, value: Any, node: ast.AST, count: int | None) -> list[Any]:
        """Unpacking always works; a splat or a loop needs a known length."""
        recorder = self.recorder
        assert recorder is not None
        if count is None:
            node_ = value.node if isinstance(value, AttributeOf) else value
            if self.contract.meta_execution and node_ is recorder.keywords:
                return []
            meta = recorder.meta_of(value)
            if meta is None or meta.kind == "maybe":
                raise Undecided(f"the length of {_short(node)} is not known", _line(node))
            if meta.kind == "none" or meta.kind == "scalar":
                raise Stop(
                    "the length of a shape is needed, and only an input named hidden_states "
                    "has a known shape",
                    _line(node),
                )
            if meta.kind == "tensor":
                raise Undecided("a loop over a tensor", _line(node))
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
            value.values[name] = new

    def set_item(self, value: Any, key: Any, new: Any, node: ast.AST) -> None:
        """``value[key] = new``: recorded on traced values since vLLM 0.30."""
        if isinstance(value, Node | AttributeOf):
            if not self.contract.item_assignment:
                raise Stop("an item of a traced value is assigned", _line(node))
            self.traced_call("call_function", "operator.setitem", [value, key, new], {}, node)
        elif isinstance(value, dict) and isinstance(key, str | int | float):
            value[key] = new
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value[key] = new

    # Instances -------------------------------------------------------------------------------

    def instance_of(self, module: Module) -> Instance:
        """What a child of a scanned class has, by running its constructor."""
        if module.instance is None:
            assert module.info is not None
            module.instance = Instance(module.info, unknown="it refers to itself")
            module.instance = Interpreter(self.contract).instantiate(
                module.info, list(module.args), module.kwargs
            )
        found: Instance = module.instance
        return found

    def instantiate(
        self, info: ClassInfo, args: list[Any], kwargs: dict[str, Any], depth: int = 0
    ) -> Instance:
        """Interpret a constructor. What goes wrong in it leaves the instance partly unknown."""
        instance = Instance(info)
        opaque = [b for b in info.external_bases if not _is_known_base(b)]
        if opaque:
            instance.unknown = f"{info.name} inherits from {opaque[0]}, which is not scanned"
        found = info.find_method("__init__")
        if found is None:
            return instance
        owner, init = found
        names: dict[str, Any] = {}
        function = Function(init, owner.file, instance, defined_in=owner)
        if not bind(self, init, [instance, *args], kwargs, names, function):
            instance.unknown = f"the arguments of {info.name} do not fit its constructor"
            return instance
        try:
            self.run_function(init, owner.file, names, owner, depth + 1)
        except (Undecided, Stop) as error:
            instance.unknown = f"its constructor cannot be followed: {error.reason}"
        except Raised:
            instance.unknown = "its constructor raises"
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
            instance.unknown = f"its constructor cannot be followed: {error}"
        return instance


def bind(
    interpreter: Interpreter,
    definition: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    names: dict[str, Any],
    function: Function,
) -> bool:
    """Bind arguments to parameters as Python does; False when they do not fit."""
    parameters = definition.args
    positional = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    defaults = dict(zip(positional[len(positional) - len(parameters.defaults) :], parameters.defaults, strict=True))
    defaults |= {
        a.arg: d for a, d in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if d
    }
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
    if len(args) > len(positional):
        if parameters.vararg is None:
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


def config_value(config: Config, name: str) -> Any:
    """``config.name``: the known value, else a number known by name."""
    if name == "_attn_implementation":
        return "vllm"
    name = config.attribute_map.get(name, name)
    if name in config.values:
        return config.values[name]
    if name in ("get_text_config", "to_dict", "get"):
        return BoundExternal(config, name)
    return Sym.name(f"{config.name}.{name}")


def config_method(config: Config, name: str, args: list[Any]) -> Any:
    """Methods of a configuration."""
    if name == "get_text_config":
        return config
    return Unknown(f"{config.name}.{name}()")


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


def torch_name(dotted: str) -> str:
    """The name fx records a torch function under."""
    return dotted


def _is_known_base(base: str) -> bool:
    return base.startswith("torch.nn.") or base.rpartition(".")[2] in (
        "GradientCheckpointingLayer",
        "PreTrainedModel",
        "GenerationMixin",
        "ABC",
        "object",
        "Generic",
    )


def _constant_tensor(name: str, args: list[Any]) -> Any:
    if name in ("zeros", "ones", "empty", "rand", "randn", "full") and args:
        listed = isinstance(args[0], tuple | list)
        shape = tuple(args[0]) if listed else tuple(args[:1] if name == "full" else args)
        return Tensor(len(shape), shape=shape)
    if name in ("arange", "linspace"):
        return Tensor(1)
    if name in CREATES:
        return Tensor()
    if args and isinstance(args[0], Tensor):
        return Tensor(args[0].rank if name in metas.SAME else None)
    return Unknown(f"torch.{name}(...)")


def _number(dotted: str, args: list[Any]) -> Any:
    if all(isinstance(a, int | float) for a in args):
        try:
            return NUMBERS[dotted](*args)  # type: ignore[operator]
        except (ValueError, TypeError, OverflowError):
            return Unknown(f"{dotted}(...)")
    if all(isinstance(a, int | float | Sym) for a in args):
        return Sym.name(f"{dotted}({', '.join(map(str, args))})")
    return Unknown(f"{dotted}(...)")


def _list_method(receiver: list[Any], name: str, args: list[Any], node: ast.AST) -> Any:
    if name == "append" and args:
        receiver.append(args[0])
    elif name == "extend" and args and isinstance(args[0], list | tuple):
        receiver.extend(args[0])
    elif name == "pop" and receiver:
        return receiver.pop(*[a for a in args if isinstance(a, int)])
    elif name == "copy":
        return list(receiver)
    return None


def _dict_method(
    receiver: dict[Any, Any], name: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST
) -> Any:
    if name in ("get", "pop", "setdefault") and args:
        default = args[1] if len(args) > 1 else kwargs.get("default")
        if not isinstance(args[0], str | int | float | type(None)):
            return Unknown("an entry under a key that is not known", _line(node))
        if name == "pop":
            return receiver.pop(args[0], default)
        if name == "setdefault":
            return receiver.setdefault(args[0], default)
        return receiver.get(args[0], default)
    if name == "items":
        return [(k, v) for k, v in receiver.items()]
    if name == "keys":
        return list(receiver)
    if name == "values":
        return list(receiver.values())
    if name == "copy":
        return dict(receiver)
    if name == "update" and args and isinstance(args[0], dict):
        receiver.update(args[0])
    return None


def _is_generator(definition: ast.AST) -> bool:
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(definition))


def _decorator(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _line(node: ast.AST) -> int | None:
    return getattr(node, "lineno", None)


def _short(node: ast.AST) -> str:
    try:
        text = ast.unparse(node)
    except (AttributeError, ValueError, RecursionError):
        return type(node).__name__
    return text if len(text) <= 60 else text[:57] + "..."


__all__ = ["Interpreter", "bind", "config_value", "decide", "module_arguments", "SCALAR"]
