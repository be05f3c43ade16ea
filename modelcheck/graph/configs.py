"""Configuration objects: their values, their text part, and whose attention vLLM switches.

Source: transformers 5.19 ``PreTrainedConfig`` (``get_text_config``, the setter of
``_attn_implementation``), vLLM 0.25 to 0.33 (the base class of its transformers models).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import BoundExternal, Config, Unknown

IMPLEMENTATION = "_attn_implementation"
SWITCHED = "vllm"
# Where transformers looks for the text part of a configuration: the one that is there.
TEXT_CONFIGS = ("text_encoder", "decoder", "generator", "text_config")
# The ways to make a model of a configuration, and what they take for themselves.
FROM_CONFIG = ("_from_config", "from_config")
OPTIONS = (
    "dtype",
    "torch_dtype",
    "attn_implementation",
    "experts_implementation",
    "trust_remote_code",
)
PER_LAYER = "per_layer_config"
METHODS = ("get_text_config", "to_dict", "get")


def config_value(config: Config, name: str) -> Any:
    """``config.name``: the known value, else a number known by name."""
    name = config.attribute_map.get(name, name)
    if name in config.values:
        value = config.values[name]
        if name == PER_LAYER:
            return PerLayer(config, value) if isinstance(value, dict) else PerLayer(config, {})
        return value.named(f"{config.name}.{name}") if isinstance(value, Config) else value
    if name == IMPLEMENTATION:
        return Unknown("the attention implementation of a configuration")
    if name == PER_LAYER:
        return PerLayer(config, {})
    if name in METHODS:
        return BoundExternal(config, name)
    return Sym.name(f"{config.name}.{name}")


@dataclass(frozen=True, eq=False)
class PerLayer:
    """``config.per_layer_config``: for every layer the configuration, some values overridden."""

    config: Config
    overrides: dict[Any, Any]

    def layer(self, index: Any) -> Config:
        """One layer's; where it cannot be told which, what any layer overrides is not known."""
        values = dict(self.config.values)
        if isinstance(index, int):
            own = self.overrides.get(index, self.overrides.get(str(index)))
            values |= own if isinstance(own, dict) else {}
        else:
            for own in self.overrides.values():
                for name in own if isinstance(own, dict) else ():
                    values.pop(name, None)
        return replace(self.config, values=values)


def text_config(config: Config) -> Config:
    """The text part, as ``PreTrainedConfig.get_text_config`` finds it."""
    for name in TEXT_CONFIGS:
        found = config.values.get(config.attribute_map.get(name, name))
        if isinstance(found, Config):
            return found.named(f"{config.name}.{name}")
    return config


def switch(config: Config, implementation: str = SWITCHED) -> None:
    """``config._attn_implementation = implementation``: of its sub-configurations too."""
    config.values[IMPLEMENTATION] = implementation
    names = config.values.get("sub_configs")
    for name in names if isinstance(names, dict) else ():
        part = config.values.get(name)
        if isinstance(part, Config):
            switch(part, implementation)


def config_method(config: Config, name: str) -> Any:
    """A call of a method of ``PreTrainedConfig``."""
    if name == "get_text_config":
        return text_config(config)
    return Unknown(f"{config.name}.{name}()")
