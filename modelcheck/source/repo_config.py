"""One view of a model's settings: config.json and the configuration class together.

``value(name)`` follows ``attribute_map`` as ``PreTrainedConfig`` does, and says where the value is
written.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modelcheck.graph.values import Config
from modelcheck.source.classes import ClassInfo
from modelcheck.source.memory import remembered

# Names that vLLM (0.23 to 0.33) tries in this order; the first that exists wins.
KV_HEADS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
EXPERT_COUNT = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
EXPERT_WIDTH = ("moe_intermediate_size", "intermediate_size")


class Origin(enum.Enum):
    """Where a setting's value comes from."""

    CONFIG_JSON = enum.auto()
    CLASS_DEFAULT = enum.auto()  # or computed by the configuration class
    ABSENT = enum.auto()  # there is certainly no such attribute
    UNKNOWN = enum.auto()


@dataclass(frozen=True)
class Setting:
    """A setting, what it is and where it is from. ``line`` is of config.json or the class."""

    name: str
    value: Any
    origin: Origin
    line: int | None = None

    @property
    def exists(self) -> bool:
        """Is it certainly an attribute of the configuration?"""
        return self.origin in (Origin.CONFIG_JSON, Origin.CLASS_DEFAULT)


@dataclass(frozen=True, eq=False)
class RepoConfig:
    """The settings of one (text) configuration.

    ``config`` holds what the class and config.json give together, ``given`` what config.json
    says itself, in ``text``.
    """

    config: Config
    given: Mapping[str, Any]
    text: str = ""

    @property
    def info(self) -> ClassInfo | None:
        """The configuration class."""
        return self.config.info

    def value(self, name: str) -> Setting:
        """A setting by the name that vLLM or the model asks for."""
        target = self.config.attribute_map.get(name, name)
        for written in (name, target):
            if written in self.given and target in self.config.values:
                return Setting(
                    name, self.config.values[target], Origin.CONFIG_JSON, self._at(written)
                )
        if target in self.config.values:
            return Setting(
                name, self.config.values[target], Origin.CLASS_DEFAULT, self._class_line(target)
            )
        if self.config.complete and not self._is_mentioned(target):
            return Setting(name, None, Origin.ABSENT)
        return Setting(name, None, Origin.UNKNOWN)

    def first(self, names: Iterable[str]) -> Setting:
        """The first of several names that exists; UNKNOWN as soon as one may."""
        for name in names:
            found = self.value(name)
            if found.origin is not Origin.ABSENT:
                return found
        return Setting("", None, Origin.ABSENT)

    def number(self, name: str) -> int | None:
        """A setting that is known to be a whole number."""
        value = self.value(name).value
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def head_size(self) -> int | None:
        """The size of one head as vLLM takes it, None where it is not known."""
        size = self.value("head_dim")
        if size.origin is Origin.UNKNOWN:
            return None
        if isinstance(size.value, int) and size.value > 0:
            return size.value
        other = self.value("hidden_size_per_head")
        if other.origin is not Origin.ABSENT:
            return other.value if isinstance(other.value, int) else None
        width, heads = self.number("hidden_size"), self.number("num_attention_heads")
        return width // heads if width and heads else None

    @property
    def kv_heads(self) -> Setting:
        """The number of key and value heads as vLLM takes it."""
        found = self.first(KV_HEADS)
        if found.origin is Origin.ABSENT or (found.exists and found.value is None):
            return self.value("num_attention_heads")
        return found

    def _at(self, key: str) -> int | None:
        position = self.text.find(f'"{key}"')
        return self.text.count("\n", 0, position) + 1 if position >= 0 else None

    def _class_line(self, name: str) -> int | None:
        found = self.info.find_attribute(name) if self.info is not None else None
        if found is not None:
            return found[1].lineno
        init = self.info.find_method("__init__") if self.info is not None else None
        for argument in (*init[1].args.args, *init[1].args.kwonlyargs) if init else ():
            if argument.arg == name:
                return argument.lineno
        return None

    def _is_mentioned(self, name: str) -> bool:
        """May the class set it in a way that was not followed?"""
        if self.info is None:
            return True
        texts = [text for text in map(_text, self.info.mro) if name in text]
        return any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts)


@remembered(maxsize=64)
def _text(info: ClassInfo) -> str:
    return info.file.source.lines_of(info.node)
