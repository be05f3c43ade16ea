"""Where the classes of a file are looked at from: the models that vLLM builds, and their parts.

vLLM builds the class that transformers' ``AutoModel`` has for a configuration: one of its own
table, or what ``auto_map`` of config.json names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Env
from modelcheck.graph.configs import switch
from modelcheck.graph.interpreter import Interpreter
from modelcheck.graph.symbolic import Sym, all_answers
from modelcheck.graph.values import Config, Module
from modelcheck.source.classes import ClassInfo, FileIndex
from modelcheck.source.config_defaults import default_config
from modelcheck.source.models import auto_models, config_class


@dataclass(frozen=True)
class Variant:
    """One construction of a class, in the deployment of the model that leads to it."""

    module: Module
    env: Env
    is_root: bool = False


class Roots:
    """The constructions that nothing in the file makes; every configuration is read once."""

    def __init__(
        self, file: FileIndex, contract: Contract, given: Mapping[str, Any] | None, tp: int
    ) -> None:
        self.file = file
        self.contract = contract
        self.given = given
        self.tp = tp
        self._read: dict[int, tuple[Config, Env]] = {}

    @property
    def pretrained(self) -> list[ClassInfo]:
        """The file's models."""
        return [info for info in self.file.classes.values() if info.kind == "pretrained"]

    def built(self) -> list[ClassInfo]:
        """The models that ``AutoModel`` is known to build; empty where it is not known."""
        auto_map = (self.given or {}).get("auto_map")
        named = auto_map.get("AutoModel") if isinstance(auto_map, dict) else None
        names = {str(named).rpartition(".")[2]} if named else auto_models(self.file.path)
        return [info for info in self.pretrained if info.name in names]

    def root(self, info: ClassInfo) -> Variant:
        """A class with its own configuration and no known caller."""
        config, env = self._configuration(info)
        return Variant(Module((), _unknown_arguments(info, config), info=info), env, True)

    def _configuration(self, info: ClassInfo) -> tuple[Config, Env]:
        source = config_class(info) or self._only_config()
        key = id(source.node) if source is not None else 0
        if key not in self._read:
            results, _ = all_answers(lambda: self._deploy(source), 1)
            self._read[key] = results[0]
        return self._read[key]

    def _only_config(self) -> ClassInfo | None:
        """The configuration of a file's models, when they share one."""
        classes = {
            id(found.node): found
            for info in self.pretrained
            if (found := config_class(info)) is not None
        }
        return next(iter(classes.values())) if len(classes) == 1 else None

    def _deploy(self, source: ClassInfo | None) -> tuple[Config, Env]:
        """A model's configuration as vLLM leaves it: the text part has vLLM's attention."""
        if source is None:
            config = Config("config", dict(self.given or {}), complete=False)
        else:
            config = default_config(source, self.contract, self.given)
        text = Interpreter(self.contract).text_config(config)
        switch(text)
        return config, self._env(text)

    def _env(self, text: Config) -> Env:
        def read(name: str) -> Any:
            return text.values.get(text.attribute_map.get(name, name))

        head = read("head_dim")
        if not isinstance(head, int) or head <= 0:
            width, heads = read("hidden_size"), read("num_attention_heads")
            plain = isinstance(width, int) and isinstance(heads, int) and heads > 0
            head = width // heads if plain else Sym.name("the model's head size")
        latent = read("kv_lora_rank")
        # Without a configuration, a file that never names the rank has no latent attention.
        use_mla = "MLA" in self.contract.fusers and (
            latent is not None if text.complete else "kv_lora_rank" in self.file.source.text
        )
        known = read if text.complete else None
        return Env(
            contract=self.contract, tp=self.tp, head_size=head, use_mla=use_mla, config=known
        )


def _unknown_arguments(info: ClassInfo, config: Config) -> dict[str, Any]:
    """Arguments for a constructor nobody is seen to call."""
    found = info.find_method("__init__")
    if found is None:
        return {}
    arguments = found[1].args
    positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1:]
    required = positional[: len(positional) - len(arguments.defaults)]
    values: dict[str, Any] = {
        name: config if "config" in name else Sym.name(name) for name in required
    }
    if "config" in positional:
        values.setdefault("config", config)
    return values
