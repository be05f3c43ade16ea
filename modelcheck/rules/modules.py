"""The modules of a model as its constructors make them: interpreted, never executed.

vLLM finds attention by walking the modules of the built model. Where the configuration is known
(config.json, or the defaults of the configuration class), the same walk is done here.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Undecided
from modelcheck.graph.configs import config_value, switch, text_config
from modelcheck.graph.interpreter import Interpreter
from modelcheck.graph.sharing import construction
from modelcheck.graph.symbolic import Sym, all_answers
from modelcheck.graph.values import Config, Instance, Module, Stop, Unknown
from modelcheck.rules.backend.text_models import text_models
from modelcheck.rules.base import Context
from modelcheck.source.attention import Dispatch, attention_of
from modelcheck.source.basemodel import BaseModel, base_models, is_encoder_decoder
from modelcheck.source.bodies import body, reached_methods, self_name
from modelcheck.source.callpath import takes_input_ids
from modelcheck.source.classes import ClassInfo, FileIndex, is_self_attribute
from modelcheck.source.config_defaults import default_config
from modelcheck.source.memory import remembered
from modelcheck.source.models import config_class
from modelcheck.source.repo import Repo

MAX_ANSWERS = 8
MAX_DEPTH = 12
MOST_LAYERS = 16  # a longer range is one unknown member to the interpreter
LAYERS = "num_hidden_layers"


@dataclass(frozen=True, eq=False)
class Built:
    """A module in the tree.

    ``dispatches`` says that vLLM sees its attention call and its configuration; ``index`` is
    then its layer_idx, None when that is no number.
    """

    path: str
    instance: Instance
    dispatches: bool = False
    index: int | None = None

    @property
    def info(self) -> ClassInfo:
        """Its class."""
        return self.instance.info


@dataclass(frozen=True, eq=False)
class Tree:
    """All modules of a model. ``doubt`` says why there may be others, "" when these are all."""

    model: ClassInfo
    layers: int  # how many of the model's layers were built
    config: Config  # the text part
    modules: tuple[Built, ...]
    doubt: str

    @property
    def layer_types(self) -> tuple[Any, ...]:
        """The configuration's layer_types, () without."""
        kinds = config_value(self.config, "layer_types")
        return tuple(kinds) if isinstance(kinds, list | tuple) else ()

    def attention(self) -> dict[int, list[Built]]:
        """The modules that dispatch attention, by layer."""
        found: dict[int, list[Built]] = {}
        for module in self.modules:
            if module.index is not None:
                found.setdefault(module.index, []).append(module)
        return found


def trees(context: Context) -> tuple[tuple[Tree, ...], ...]:
    """For each text model of the file, its module tree under every answer to what is open.

    Nothing for a model whose configuration does not tell the number of layers.
    """
    return _trees(context.file, context.repo, context.contract)


def configuration(context: Context, info: ClassInfo) -> Config | None:
    """The configuration of a model class: config.json over the defaults of its class."""
    return _config_of(info, context.repo, context.contract)


@remembered(maxsize=8)
def _trees(file: FileIndex, repo: Repo | None, contract: Contract) -> tuple[tuple[Tree, ...], ...]:
    context = Context(file, repo, contract)
    bases = {b.info: b.info for b in text_models(context)}
    bases |= {b.info: b.info for b in base_models(file, repo) if _translates(b)}
    found = []
    for info in bases:
        config = _config_of(info, repo, contract)
        if config is not None:
            found.append(_build(info, config, contract))
    return tuple(f for f in found if f)


def _translates(base: BaseModel) -> bool:
    """Is it an encoder and a decoder of text?"""
    if base.decoder is None or not is_encoder_decoder(base):
        return False
    return takes_input_ids(base.decoder)  # DETR's reads embeddings, but no text


def _config_of(info: ClassInfo, repo: Repo | None, contract: Contract) -> Config | None:
    """The configuration of a model, with no more layers than the interpreter counts."""
    source = config_class(info)
    return _read(source, repo, contract) if source is not None else None


@remembered(maxsize=16)
def _read(source: ClassInfo, repo: Repo | None, contract: Contract) -> Config:
    given = dict(repo.config) if repo is not None else {}
    kind = source.find_attribute("model_type")
    own = getattr(kind[1], "value", None) if kind is not None else None
    inner = given.get("text_config")
    if isinstance(inner, dict) and own != given.get("model_type"):
        given = inner

    def read(values: dict[str, Any]) -> Config:
        return all_answers(lambda: default_config(source, contract, values), 1)[0][0]

    config = read(given)
    total = config_value(config, LAYERS)
    if not isinstance(total, int) or isinstance(total, bool) or total <= MOST_LAYERS:
        return config
    name = config.attribute_map.get(LAYERS, LAYERS)
    if not given and not _computes_with(source, {LAYERS, name}):
        return dataclasses.replace(config, values=config.values | {name: MOST_LAYERS})
    short = {k: _cut(v, total) for k, v in given.items()}
    return read(short | {LAYERS: MOST_LAYERS})


def _computes_with(source: ClassInfo, names: Iterable[str]) -> bool:
    """Does a method of a configuration class say one of the names?"""
    return any(
        name in info.file.source.lines_of(method)
        for info in source.mro
        for method in info.methods.values()
        for name in names
    )


def _cut(value: Any, total: int) -> Any:
    per_layer = isinstance(value, list) and len(value) == total
    return value[:MOST_LAYERS] if per_layer else value


def _build(info: ClassInfo, config: Config, contract: Contract) -> tuple[Tree, ...]:
    text = text_config(config)
    name = text.attribute_map.get(LAYERS, LAYERS)
    total = text.values.get(name)
    if not isinstance(total, int) or isinstance(total, bool) or not total > 0:
        return ()
    depth = _depth(text, total)

    def run() -> Tree:
        values = dict(text.values) | {name: depth}
        cut = dataclasses.replace(text, values=values)
        switch(cut)
        interpreter = Interpreter(contract)
        root = interpreter.instantiate(info, [cut], {})
        walk = _Walk(interpreter, cut)
        modules = tuple(walk.below("", root))
        return Tree(info, depth, cut, modules, walk.doubt)

    try:
        results, complete = all_answers(run, MAX_ANSWERS)
    except (Undecided, Stop, RecursionError):
        return ()
    return tuple(results) if complete else ()


def _depth(config: Config, total: int) -> int:
    """Enough layers to see every kind that the configuration names."""
    depth = 2
    for value in config.values.values():
        if isinstance(value, list | tuple) and len(value) == total:
            firsts: dict[str, int] = {}
            for index, item in enumerate(value):
                firsts.setdefault(str(item), index)
            if len(firsts) <= MAX_DEPTH:
                depth = max(depth, max(firsts.values()) + 1)
    return min(depth, total)


class _Walk:
    """Goes through the modules and notes what it could not see."""

    def __init__(self, interpreter: Interpreter, config: Config) -> None:
        self.interpreter = interpreter
        self.config = config
        self.doubt = ""
        self._made: dict[str, Instance] = {}

    def below(self, path: str, instance: Instance) -> Iterator[Built]:
        """The module and everything in it, in order of construction."""
        self._note(instance)
        yield Built(path, instance, *self._dispatch(instance))
        for name, value in instance.attributes.items():
            yield from self._member(f"{path}.{name}" if path else name, value)

    def _member(self, path: str, value: Any) -> Iterator[Built]:
        if not isinstance(value, Module):
            return
        if value.info is not None:
            yield from self.below(path, self._instance(value))
        for index, item in enumerate(value.items or ()):
            if isinstance(item, Unknown):
                self.doubt = self.doubt or item.reason
            yield from self._member(f"{path}.{index}", item)

    def _instance(self, module: Module) -> Instance:
        """What its constructor leaves on it; the same for modules that are constructed alike."""
        key, comparable = construction(module)
        if not comparable:
            return self.interpreter.instance_of(module)
        if module.instance is None:
            module.instance = self._made.get(key)
        self._made[key] = instance = self.interpreter.instance_of(module)
        return instance

    def _note(self, instance: Instance) -> None:
        self.doubt = self.doubt or instance.unknown
        for name, value in instance.attributes.items():
            if isinstance(value, Unknown) and not self.doubt and _is_used(instance.info, name):
                self.doubt = value.reason

    def _dispatch(self, instance: Instance) -> tuple[bool, int | None]:
        """Does vLLM serve this module, and as which layer?"""
        attention = attention_of(instance.info)
        if attention is None or attention.dispatch is not Dispatch.INTERFACE:
            return False, None
        config = instance.attributes.get("config")
        index = instance.attributes.get("layer_idx")
        if isinstance(config, Unknown) or isinstance(index, Unknown | Sym):
            self.doubt = self.doubt or f"what {instance.info.name} is given"
            return False, None
        if not isinstance(config, Config) or config.values is not self.config.values:
            return False, None
        plain = isinstance(index, int) and not isinstance(index, bool)
        return True, index if plain else None


@remembered(maxsize=4096)
def _is_used(info: ClassInfo, name: str) -> bool:
    """Does a forward call an attribute, go through it, or take an element of it?"""
    for owner, function in reached_methods(info):
        first = self_name(function)
        nodes = body(owner.file, function)
        used: list[ast.expr] = [c.func for c in nodes.all(ast.Call)]
        used += [f.iter for f in nodes.all(ast.For)]
        for node in used:
            if is_self_attribute(node, first) and getattr(node, "attr", "") == name:
                return True
    return False
