"""Which classes are base models: the headless ones that vLLM builds with ``AutoModel``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from modelcheck.source.classes import (
    ClassInfo,
    FileIndex,
    FunctionNode,
    Signature,
    dotted_name,
)
from modelcheck.source.discovery import module_file
from modelcheck.source.repo import Repo

# transformers' `get_decoder` returns the first of these attributes that a model has.
DECODER_ATTRIBUTES = ("language_model", "text_model", "decoder", "text_decoder")
KNOWN_BASES = {"PreTrainedModel", "Module", "object", "ABC", "Generic"}
_HEAD = re.compile(r"For[A-Z]\w*$|LMHead|DoubleHeads|WithHeads")
_LANGUAGE_HEAD = re.compile(r"ForCausalLM|ForConditionalGeneration|LMHead")


@dataclass(frozen=True)
class BaseModel:
    """The class that vLLM builds, and the one in it that it compiles and runs as decoder.

    ``decoder`` is None when it cannot be told from the source.
    """

    info: ClassInfo
    decoder: ClassInfo | None


def is_head(info: ClassInfo) -> bool:
    """Is it a model with a head, by transformers' naming?"""
    return info.kind == "pretrained" and _HEAD.search(info.name) is not None


def is_root(info: ClassInfo) -> bool:
    """Is it the shared ``...PreTrainedModel`` of its family, which is never built itself?"""
    return info.kind == "pretrained" and info.name.endswith(("PreTrainedModel", "PretrainedModel"))


def base_models(file: FileIndex, repo: Repo | None = None) -> tuple[BaseModel, ...]:
    """The base models that a file defines; none when there are none or they cannot be told.

    The class that ``auto_map`` names wins, wherever it is, then those that the heads hold
    under ``base_model_prefix``, then the only headless model of the file.
    """
    if repo is not None and "AutoModel" in repo.auto_map:
        named = auto_map_class(repo, "AutoModel")
        chosen = [named] if named is not None and _may_be_base(named) else []
    else:
        models = [
            info
            for info in file.classes.values()
            if info.kind == "pretrained" and not is_root(info) and info.find_method("forward")
        ]
        chosen = _held_by_heads([info for info in models if is_head(info)])
        if not chosen:
            headless = [info for info in models if not is_head(info)]
            built = {name for info in headless for name in _constructed(info)}
            outer = [info for info in headless if info.name not in built]
            chosen = outer if len(outer) == 1 else []
    return tuple(BaseModel(info, decoder_of(info)) for info in chosen if info.file is file)


def _may_be_base(info: ClassInfo) -> bool:
    """A headless model, or a class of which too little is seen."""
    return (info.kind == "pretrained" or has_unknown_base(info)) and not is_head(info)


def is_encoder_decoder(base: BaseModel) -> bool:
    """Has it an encoder beside its decoder? vLLM's backend serves no such model."""
    return "encoder" in base.info.self_assignments and base.decoder is not base.info


def forward_of(info: ClassInfo) -> FunctionNode | None:
    """The forward of a class, if its source is known."""
    found = info.find_method("forward")
    return found[1] if found is not None else None


def reads_text(info: ClassInfo) -> bool:
    """Does its forward name ``input_ids`` or ``inputs_embeds``?"""
    forward = forward_of(info)
    if forward is None:
        return False
    signature = Signature.of(forward)
    return signature.names("input_ids") or signature.names("inputs_embeds")


def is_language_head(info: ClassInfo) -> bool:
    """Is it a causal language model with its head, by transformers' naming?"""
    return info.kind == "pretrained" and re.search(r"ForCausalLM|LMHead", info.name) is not None


def has_unknown_base(info: ClassInfo) -> bool:
    """Does it inherit model code that no scanned file shows?"""
    return any(
        base.rpartition(".")[2] not in KNOWN_BASES and not base.endswith("Mixin")
        for base in info.external_bases
    )


def auto_map_class(repo: Repo, key: str) -> ClassInfo | None:
    """The class that an auto_map entry of config.json names, if a scanned file defines it."""
    reference = repo.auto_map.get(key)
    if reference is None:
        return None
    name = reference.rpartition(".")[2]
    for file in repo.files:
        if file.path.rpartition("/")[2] == module_file(reference):
            return file.classes.get(name)
    return None


def decoder_of(base: ClassInfo) -> ClassInfo | None:
    """What transformers' ``get_decoder`` finds in a base model, or None when unknown."""
    override = base.find_method("get_decoder")
    assigned = base.self_assignments
    if override is not None:
        attribute = _returned_attribute(override[1])
        if attribute == "":
            return base  # `return self`
        return _class_of(base, assigned.get(attribute)) if attribute else None
    for name in DECODER_ATTRIBUTES:
        if name in assigned:
            return _class_of(base, assigned[name])
        if base.find_method(name) or base.find_attribute(name):
            return None
    return base


def _held_by_heads(heads: list[ClassInfo]) -> list[ClassInfo]:
    """The classes that the (language) heads hold under their base_model_prefix."""
    language = [info for info in heads if _LANGUAGE_HEAD.search(info.name)] or heads
    held: dict[str, ClassInfo] = {}
    for info in language:
        prefix = info.find_attribute("base_model_prefix")
        if prefix is None or not isinstance(prefix[1], ast.Constant):
            continue
        found = _class_of(info, info.self_assignments.get(str(prefix[1].value)))
        if found is not None and found.kind == "pretrained" and not is_head(found):
            held[found.name] = found
    return list(held.values())


def _class_of(
    owner: ClassInfo, assignment: tuple[ast.stmt, ast.expr | None] | None
) -> ClassInfo | None:
    """The class in ``self.x = Class(...)``, seen from the file that says so."""
    if assignment is None or not isinstance(assignment[1], ast.Call):
        return None
    name = dotted_name(assignment[1].func)
    for info in owner.mro:
        found = info.file.resolve(name)
        if isinstance(found, ClassInfo):
            return found
    return None


def _constructed(info: ClassInfo) -> Iterable[str]:
    for _, value in info.self_assignments.values():
        if isinstance(value, ast.Call):
            yield dotted_name(value.func)


def _returned_attribute(function: ast.AST) -> str | None:
    """ "x" for a getter that only does ``return self.x``, "" for ``return self``."""
    body = [s for s in getattr(function, "body", []) if not isinstance(s, ast.Expr)]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    parts = dotted_name(body[0].value).split(".")
    if parts[0] != "self" or len(parts) > 2:
        return None
    return parts[1] if len(parts) == 2 else ""
