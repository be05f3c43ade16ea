"""Modules that are constructed alike are alike: one run of the constructor does for all.

A model makes its norms and MLPs again for every layer, from the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from modelcheck.graph.symbolic import Sym
from modelcheck.graph.values import Config, Instance, Module

Alike = Callable[[int | str, Any], bool]


@dataclass(eq=False, slots=True)
class Made:
    """What every module of one construction has, once its constructor was followed.

    ``comparable`` says that modules with this key are indeed made alike; ``instance`` is what
    holds whatever the answers to open questions are.
    """

    key: str
    comparable: bool
    instance: Instance | None = None


def told_apart(value: Any) -> str | None:
    """A text that two arguments share only when they cannot be told apart; None without one."""
    match value:
        case Config():
            return f"{value.name}@{id(value.values)}"
        case str():
            return repr(value)
        case Sym() | int() | float() | None:
            return str(value)
        case _:
            return None


def construction(module: Module, alike: Alike = lambda where, value: False) -> tuple[str, bool]:
    """A text for how a module of a scanned class is constructed, and whether it says all.

    Two modules of which it says all are constructed alike when they share it, as long as their
    arguments live; of an argument that cannot be compared only the kind is in it. Arguments that
    are ``alike`` by their place and value are not told apart.
    """
    arguments: list[tuple[int | str, Any]] = [*enumerate(module.args)]
    arguments += sorted(module.kwargs.items())
    comparable = True
    parts = [str(id(module.info))]
    for where, value in arguments:
        text = "alike" if alike(where, value) else told_apart(value)
        comparable = comparable and text is not None
        parts.append(f"{where}={text or type(value).__name__}")
    return ", ".join(parts), comparable


def fresh(module: Module) -> Module:
    """The same construction, not yet looked into."""
    items = module.items
    if items is not None:
        items = [fresh(item) if isinstance(item, Module) else item for item in items]
    return Module(
        module.args,
        dict(module.kwargs),
        module.dotted,
        module.info,
        items,
        module.activation,
        module.activation_known,
        made=module.made,
    )


def copied(instance: Instance) -> Instance:
    """An instance that may be changed without changing this one."""
    attributes = {name: _own(value) for name, value in instance.attributes.items()}
    return replace(instance, attributes=attributes)


def _own(value: Any) -> Any:
    if isinstance(value, Module):
        return fresh(value)
    return value.copy() if isinstance(value, list | dict | set) else value
