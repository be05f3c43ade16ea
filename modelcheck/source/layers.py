"""Where attention classes are used: which layers of a text model have one that dispatches."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from modelcheck.source.attention import Attention, Dispatch, attention_classes, attention_of
from modelcheck.source.callpath import (
    Child,
    children,
    is_head_model,
    is_other_modality,
    text_models,
)
from modelcheck.source.classes import ClassInfo, FileIndex
from modelcheck.source.memory import remembered


class Role(enum.Enum):
    """Where an attention class is used."""

    TEXT = enum.auto()  # below a model that takes input_ids
    OTHER = enum.auto()  # in an image, sound or video tower: vLLM leaves it alone
    UNKNOWN = enum.auto()  # no model of this file reaches it


@remembered(maxsize=16)
def text_reach(file: FileIndex) -> frozenset[ClassInfo]:
    """The classes below the text models of a file, towers of other modalities left out."""
    found: set[ClassInfo] = set()
    stack: list[ClassInfo] = list(text_models(file))
    while stack:
        info = stack.pop()
        if info in found or is_other_modality(info):
            continue
        found.add(info)
        stack.extend(c.cls for c in children(info) if isinstance(c.cls, ClassInfo))
    return frozenset(found)


@remembered(maxsize=16)
def _built_classes(file: FileIndex) -> frozenset[ClassInfo]:
    return frozenset(
        child.cls
        for info in file.classes.values()
        if info.is_module
        for child in children(info)
        if isinstance(child.cls, ClassInfo)
    )


@remembered(maxsize=512)
def class_role(info: ClassInfo) -> Role:
    """Where a class is used, as far as its own file shows."""
    reached = text_reach(info.file)
    if info in reached or any(info in other.mro for other in reached):
        return Role.TEXT
    if is_other_modality(info) or (reached and info in _built_classes(info.file)):
        return Role.OTHER  # built by something, and by no text model
    return Role.OTHER if not reached and _has_models(info.file) else Role.UNKNOWN


def _has_models(file: FileIndex) -> bool:
    """Does the file define whole models (those with a forward)?"""
    return any(c.kind == "pretrained" and "forward" in c.methods for c in file.classes.values())


def serves_text(attention: Attention) -> bool:
    """Is it, or may it be, what a text model's layers attend with?

    Where no model of the file reaches the class, a KV cache among its parameters decides.
    """
    where = class_role(attention.info)
    return where is Role.TEXT or (where is Role.UNKNOWN and attention.has_cache)


@remembered(maxsize=16)
def undispatched(file: FileIndex) -> tuple[Attention, ...]:
    """The self-attention of layers in which nothing reaches the interface as vLLM reads it.

    Where one attention of a layer dispatches, or names the interface, the others of that
    layer are not what is missing.
    """
    found: dict[ClassInfo, Attention] = {}
    for model in text_models(file):
        if is_head_model(model):
            continue
        for _, group in layer_attentions(model):
            for attention in _missing(group):
                found[attention.info] = attention
    alone = [
        a for a in attention_classes(file) if class_role(a.info) is Role.UNKNOWN and a.has_cache
    ]
    known = any(a.dispatch is Dispatch.INTERFACE for a in attention_classes(file))
    for attention in () if known else _missing(alone):
        found[attention.info] = attention
    return tuple(
        sorted((a for a in found.values() if a.info.file is file), key=lambda a: a.info.node.lineno)
    )


def _missing(group: Iterable[Attention]) -> list[Attention]:
    own = [a for a in group if not a.is_cross]
    if any(a.dispatch is Dispatch.INTERFACE for a in own):
        return []
    named = [a for a in own if a.dispatch is Dispatch.UNRECOGNISED]
    return named or own


def dispatching(file: FileIndex) -> Iterator[Attention]:
    """The attention classes that vLLM recognises and may hand to its own attention."""
    for attention in attention_classes(file):
        if attention.dispatch is Dispatch.INTERFACE and serves_text(attention):
            yield attention


@remembered(maxsize=512)
def layer_attentions(model: ClassInfo) -> tuple[tuple[Child, tuple[Attention, ...]], ...]:
    """The repeated layers below a text model, each with the attention classes inside it."""
    return tuple(_layer_attentions(model))


def _layer_attentions(model: ClassInfo) -> Iterator[tuple[Child, tuple[Attention, ...]]]:
    seen: set[ClassInfo] = set()
    stack = [model]
    while stack:
        info = stack.pop()
        if info in seen or is_other_modality(info):
            continue
        seen.add(info)
        for child in children(info):
            if not isinstance(child.cls, ClassInfo) or is_other_modality(child.cls):
                continue
            if child.many:
                yield child, tuple(_attentions_below(child.cls))
            elif attention_of(child.cls) is None:
                stack.append(child.cls)


def _attentions_below(info: ClassInfo) -> Iterator[Attention]:
    seen: set[ClassInfo] = set()
    stack = [info]
    while stack:
        current = stack.pop()
        if current in seen or is_other_modality(current):
            continue
        seen.add(current)
        found = attention_of(current)
        if found is not None:
            yield found  # what is below an attention is part of it
        else:
            stack.extend(c.cls for c in children(current) if isinstance(c.cls, ClassInfo))
