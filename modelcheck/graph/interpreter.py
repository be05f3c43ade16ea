"""The interpreter of constructors (no recorder) and forwards (with one)."""

from __future__ import annotations

import ast
from typing import Any

from modelcheck.fusers.match import Undecided
from modelcheck.graph.attributes import Attributes
from modelcheck.graph.base import Frame, Raised
from modelcheck.graph.calls import Calls, bind
from modelcheck.graph.items import Items
from modelcheck.graph.sharing import copied
from modelcheck.graph.statements import Statements
from modelcheck.graph.values import Config, Function, Instance, Module, Stop
from modelcheck.source.classes import ClassInfo

RAISES = "its constructor raises"


class Interpreter(Statements, Calls, Attributes, Items):
    """Everything together, and the making of instances."""

    def instance_of(self, module: Module) -> Instance:
        """What a child of a scanned class has, by running its constructor."""
        if module.instance is None:
            assert module.info is not None
            if module.made is not None and module.made.instance is not None:
                module.instance = copied(module.made.instance)
                return module.instance  # type: ignore[no-any-return]
            module.instance = Instance(module.info, unknown="it refers to itself")
            module.instance = Interpreter(self.contract).instantiate(
                module.info, list(module.args), module.kwargs
            )
        found: Instance = module.instance
        return found

    def text_config(self, config: Config) -> Config:
        """What ``config.get_text_config()`` gives."""
        node, frame = ast.Constant(None), Frame(None, {}, None, 0)  # type: ignore[arg-type]
        try:
            method = self.attribute(config, "get_text_config", node, frame)
            found = self.call(method, [], {}, node, frame)
        except (Undecided, Stop, Raised):
            return config
        return found if isinstance(found, Config) else config

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
            instance.unknown = RAISES
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
            instance.unknown = f"its constructor cannot be followed: {error}"
        return instance


def _is_known_base(base: str) -> bool:
    return base.startswith("torch.nn.") or base.rpartition(".")[2] in (
        "BackboneMixin",
        "GradientCheckpointingLayer",
        "PreTrainedModel",
        "GenerationMixin",
        "ABC",
        "object",
        "Generic",
    )
