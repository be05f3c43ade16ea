"""What a verdict needs to know of a file besides its findings."""

from __future__ import annotations

from modelcheck.fusers.results import Fires
from modelcheck.rules.backend.text_models import text_models
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import predictions
from modelcheck.source.attention import attention_classes
from modelcheck.source.basemodel import (
    KNOWN_BASES,
    base_models,
    has_unknown_base,
    is_encoder_decoder,
    is_root,
)
from modelcheck.source.repo import Repo
from modelcheck.verdict import FileFacts

ATTENTION = "Attention"


def facts(context: Context, repo: str) -> FileFacts:
    """The facts of a modeling file; ``repo`` is the model repository around it, "" without."""
    bases = base_models(context.file, context.repo)
    judged = {base.info.name for base in text_models(context)}
    return FileFacts(
        path=context.file.path,
        repo=repo,
        holds_model=bool(bases),
        gap=_gap(context),
        undecided=_undecided(context),
        unjudged=tuple(base.info.name for base in bases if base.info.name not in judged),
        beside=_beside(context.repo) if repo else (),
    )


def _beside(repo: Repo | None) -> tuple[str, ...]:
    """All that there is to check in a model repository."""
    if repo is None or repo.config_path is None:
        return ()
    return (repo.config_path, *(file.path for file in repo.files))


def _gap(context: Context) -> str:
    """Why the source does not tell whether vLLM takes the model, "" where it does."""
    models = [c for c in context.file.classes.values() if c.kind == "pretrained" and not is_root(c)]
    if not models:
        return "no model class in this file"
    bases = base_models(context.file, context.repo)
    if not bases:
        return "which class vLLM builds, the source does not tell"
    for base in bases:
        if has_unknown_base(base.info):
            unknown = [
                name
                for name in base.info.external_bases
                if name.rpartition(".")[2] not in KNOWN_BASES and not name.endswith("Mixin")
            ]
            return f"{base.info.name} inherits from {unknown[0]}, which was not read"
        if is_encoder_decoder(base):
            return f"{base.info.name} has an encoder beside its decoder, which is not judged"
    if not text_models(context):
        return f"{bases[0].info.name} is no text-only decoder, and is judged in part only"
    files = context.repo.files if context.repo is not None else ()
    if not any(attention_classes(file) for file in (context.file, *files)):
        return "no attention was found in the source"
    return ""


def _undecided(context: Context) -> tuple[str, ...]:
    """The classes that may take a fuser, or may not, and surely take no other."""
    names = []
    for prediction in predictions(context):
        decided = any(r.fires is Fires.YES and r.fuser != ATTENTION for r in prediction.results)
        if not decided and any(r.fires is Fires.UNKNOWN for r in prediction.results):
            names.append(prediction.info.name)
    return tuple(names)
