"""Cutting the depth of a model so that every kind of layer is left.

What is a depth is found by name *and* by measure (a list of modules of that length); what
must be left is measured on the whole model. Widths are never touched.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig

LEAST = 2  # a second layer shows what the first one's neighbours depend on
DEPTH = re.compile(r"^(num_|n_)?(\w+_)?(layers?|blocks?|depth)$")
# A period, an offset or a first index: the kind of a layer follows from it.
HINT = re.compile(r"(^|_)(first|every|step|period|offset|interval|freq|pattern|dense)(_|$)")

Kind = tuple[object, ...]


@dataclass(frozen=True)
class Depth:
    """One depth of a configuration: ``name`` ("text_config.num_hidden_layers")."""

    name: str
    built: int
    total: int


Plan = Mapping[str, int]  # name of a depth to the number of layers to build


def configs(config: PretrainedConfig, prefix: str = "") -> Iterator[tuple[str, PretrainedConfig]]:
    """A configuration and the ones nested in it, with the prefix of their attributes' names."""
    yield prefix, config
    for key, value in vars(config).items():
        if hasattr(value, "to_diff_dict"):  # duck-typed: transformers need not be imported
            yield from configs(value, f"{prefix}{key}.")


def depths_of(config: PretrainedConfig) -> dict[str, int]:
    """Every attribute that is named like a depth and larger than `LEAST`."""
    return {
        prefix + key: value
        for prefix, part in configs(config)
        for key, value in vars(part).items()
        if DEPTH.match(key) and type(value) is int and value > LEAST
    }


def kinds(model: nn.Module) -> frozenset[Kind]:
    """The kinds of modules: class, child names, flags, and widths inside a list of layers.

    Widths outside of lists are left out, as some depend on the depth (one projection for
    all layers) without making another kind of anything.
    """
    return frozenset(_kinds(model, False))


def needed(model: nn.Module) -> dict[int, int]:
    """For each length of a list of modules: how many of its first entries show all kinds."""
    from torch import nn

    found: dict[int, int] = {}
    for module in model.modules():
        if not isinstance(module, nn.ModuleList):
            continue
        seen: set[Kind] = set()
        least = 0
        for index, child in enumerate(module):
            new = set(_kinds(child, True))
            if not new <= seen:
                least = index + 1
                seen |= new
        found[len(module)] = max(least, found.get(len(module), 0))
    return found


def _kinds(module: nn.Module, in_list: bool) -> Iterator[Kind]:
    from torch import nn

    is_list = isinstance(module, nn.ModuleList)
    if not is_list:
        yield _kind(module, in_list)
    for child in module.children():
        yield from _kinds(child, in_list or is_list)


def _kind(module: nn.Module, in_list: bool) -> Kind:
    cls = type(module)
    names = tuple(name for name, _ in module.named_children())
    if not in_list:
        return (cls.__module__, cls.__qualname__, names)
    shapes = tuple((name, tuple(p.shape)) for name, p in module.named_parameters(recurse=False))
    flags = tuple(
        (name, _flag(value))
        for name, value in sorted(vars(module).items())
        if not name.startswith("_") and isinstance(value, bool | int | float | str | None)
    )
    return (cls.__module__, cls.__qualname__, names, shapes, flags)


def _flag(value: object) -> object:
    """What of an attribute makes a kind: switches and names, but no numbers (layer_idx)."""
    if isinstance(value, str):
        return re.sub(r"\d+", "#", value)
    return value if value is None or isinstance(value, bool) else type(value).__name__


def plans(config: PretrainedConfig, lengths: Mapping[int, int]) -> Iterator[Plan]:
    """Cuts to try, the deepest cut first; ``lengths`` is what `needed` found.

    A model may need more layers than show all kinds (two that share their weights, say): the
    second plan has twice as many. The last one leaves all but the hidden layers whole.
    """
    totals = depths_of(config)
    least = {
        name: max(lengths[total], _listed(config, name, total))
        for name, total in totals.items()
        if total in lengths
    }
    once, twice = (
        {n: factor * least[n] for n in least if factor * least[n] < totals[n]} for factor in (1, 2)
    )
    text = {n: built for n, built in once.items() if n.endswith("num_hidden_layers")}
    yield from filter(None, [once, twice, text if text != once else {}])


def _listed(config: PretrainedConfig, name: str, total: int) -> int:
    """How many layers show every value of the per-layer lists beside a depth; not under `LEAST`."""
    prefix, dot, _ = name.rpartition(".")
    part = dict(configs(config))[prefix + dot]
    return max([LEAST, *(_shown(values) for _, values in _per_layer(part, total))])


def _shown(values: list[Any]) -> int:
    """How many first entries of a per-layer list show all its values.

    A list of all indices (of the layers that have experts, say) says nothing of kinds.
    """
    if values == list(range(len(values))):
        return 0
    first: dict[str, int] = {}
    for index, value in enumerate(values):
        first.setdefault(repr(value), index)
    return max(first.values(), default=0) + 1


def _per_layer(part: PretrainedConfig, total: int) -> Iterator[tuple[str, list[Any]]]:
    for key, value in vars(part).items():
        if isinstance(value, list) and len(value) == total:
            yield key, value


def hinted(config: PretrainedConfig) -> int:
    """A depth to begin with when the whole cannot be measured: past every period and offset."""
    depths = depths_of(config)
    most = max(depths.values(), default=LEAST)
    hints = [
        value + 1
        for _, part in configs(config)
        for key, value in vars(part).items()
        if HINT.search(key) and type(value) is int and value < most
    ]
    listed = [_listed(config, name, total) for name, total in depths.items()]
    return min(most, max([LEAST, *hints, *listed]))


def uniform(config: PretrainedConfig, depth: int) -> Plan:
    """The plan that cuts every depth to ``depth``."""
    return {name: depth for name, total in depths_of(config).items() if total > depth}


def apply(config: PretrainedConfig, plan: Plan) -> tuple[PretrainedConfig, tuple[Depth, ...]]:
    """A copy of a configuration with its depths, and the lists that go with them, cut."""
    cut = copy.deepcopy(config)
    depths: list[Depth] = []
    for prefix, part in list(configs(cut)):
        for key, total in list(vars(part).items()):
            built = plan.get(prefix + key)
            if built is None:
                continue
            setattr(part, key, built)
            for name, values in list(_per_layer(part, total)):
                setattr(part, name, values[:built])
            depths.append(Depth(prefix + key, built, total))
    return cut, tuple(depths)
