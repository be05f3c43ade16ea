"""The models of an emulation: one as transformers runs it, one as vLLM builds it.

Both have the same weights, and the buffers that their constructors make, as vLLM has them. A
third one, loaded by ``from_pretrained``, shows what transformers makes of the buffers.
"""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from modelcheck.dryrun import build as meta
from modelcheck.dryrun.causes import describe, one_line
from modelcheck.emulate import narrow
from modelcheck.emulate.attention import Refused, interface
from modelcheck.emulate.ordinary import base_of, build_ordinary
from modelcheck.emulate.spec import LARGEST, EmulateSpec
from modelcheck.errors import BuildError
from modelcheck.source.checkpoint import read_checkpoint
from modelcheck.vllm import folder

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PretrainedConfig, PreTrainedModel

SPREAD = 0.1  # of vectors (norms, biases) around the value that the constructor gives them


@dataclass(frozen=True)
class Models:
    """``whole`` is the ordinary model, with its head if it has one, ``base`` vLLM's.

    ``has_head`` says whether ``whole`` gives logits. ``changes`` are the values of the
    configuration that differ from the file's, ``reduced`` says so in words.
    """

    whole: PreTrainedModel
    base: PreTrainedModel
    config: PretrainedConfig
    has_head: bool
    weights: str
    changes: Mapping[str, Any]
    reduced: tuple[str, ...]
    notes: tuple[str, ...]


def prepare(spec: EmulateSpec) -> Models:
    """Build both. Raises `BuildError`, or `Refused` where only vLLM's own build fails."""
    weights = _weights(spec)
    build = spec.build
    if weights == "checkpoint":
        build = replace(build, full_depth=True)
    built = meta.build(build)
    whole_config, _ = meta.load_config(build)
    if weights == "random":
        config, narrowed, count = narrow.narrow(
            built.config, lambda c: narrow.parameters(c, spec.build)
        )
    else:
        narrowed = narrow.shorten_windows(built.config)
        config = narrow.changed(built.config, narrowed)
        count = sum(p.numel() for p in built.model.parameters())
    if count > narrow.MOST and weights == "random":
        raise BuildError(
            f"{spec.build.target}: {count / 1e6:.0f} million parameters after shrinking, too many "
            "to run; give smaller values with --set"
        )
    register()
    whole, has_head = _ordinary(config, spec, weights)
    base = _as_vllm(config, spec)
    missing = transfer(whole, base)
    if missing and type(whole).__name__ not in (config.architectures or ()):
        # Not the head that the configuration speaks of: go without.
        whole, has_head = _ordinary(config, spec, weights, head=False)
        missing = transfer(whole, base)
    if missing:
        raise Refused(f"weights that the base model needs are not in the checkpoint: {missing[0]}")
    reduced = [f"{d.name} {d.total} to {d.built}" for d in built.depths]
    reduced += [f"{name} to {value}" for name, value in narrowed]
    changes = dict(spec.build.overrides) | folder.changes(whole_config.to_dict(), config.to_dict())
    return Models(
        whole, base, config, has_head, weights, changes, tuple(reduced), tuple(built.notes)
    )


def _ordinary(
    config: PretrainedConfig, spec: EmulateSpec, weights: str, head: bool = True
) -> tuple[PreTrainedModel, bool]:
    """transformers' model with its weights, and whether it has a head."""
    trusted, source = spec.build.trust_remote_code, spec.build.folder
    try:
        whole, has_head = build_ordinary(_fresh(config), trusted, spec.seed, head=head)
        if weights == "checkpoint":
            load_checkpoint(whole, source)
        else:
            fill(whole, spec.seed)
    except Exception as error:
        raise BuildError(f"{spec.build.target}: {describe(error, source)}") from error
    return whole, has_head


def _weights(spec: EmulateSpec) -> str:
    if spec.weights == "random":
        return "random"
    source = spec.build.folder
    checkpoint = read_checkpoint(source) if source is not None else None
    if checkpoint is None or source is None:
        if spec.weights == "checkpoint":
            raise BuildError(f"{spec.build.target}: no safetensors in this folder")
        return "random"
    size = sum(path.stat().st_size for path in source.glob("*.safetensors"))
    return "checkpoint" if spec.weights == "checkpoint" or size <= LARGEST else "random"


def register() -> None:
    """Put the imitation in the place of vLLM's attention; no mask function, as vLLM has none."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    for name in meta.ATTENTION:
        ALL_ATTENTION_FUNCTIONS.register(name, interface)


def _fresh(config: PretrainedConfig) -> PretrainedConfig:
    """A copy that runs eager attention in float32."""
    fresh = copy.deepcopy(config)
    fresh._attn_implementation = "eager"
    fresh.dtype = torch.float32
    return fresh


def _as_vllm(config: PretrainedConfig, spec: EmulateSpec) -> PreTrainedModel:
    from transformers import AutoModel

    own = copy.deepcopy(config)
    own.get_text_config()._attn_implementation = meta.ATTENTION[0]
    own.dtype = torch.float32
    torch.manual_seed(spec.seed)
    try:
        model: PreTrainedModel = AutoModel.from_config(
            own, trust_remote_code=spec.build.trust_remote_code
        )
    except Exception as error:
        raise Refused(describe(error, spec.build.folder)) from error
    return model.eval()


def fill(model: nn.Module, seed: int) -> None:
    """Random weights of a spread that keeps activations near one.

    Matrices are anew; vectors (norms, biases) stay near what the constructor gave them, ones or
    zeros. What is left at transformers' own spread of 0.02 hardly attends to anything.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim > 1:
                parameter.copy_(noise * parameter.shape[-1] ** -0.5)
            else:
                kept = torch.nan_to_num(parameter.float()).clamp(-1, 1)
                parameter.copy_(kept + noise * SPREAD)


def load_checkpoint(model: PreTrainedModel, source: Path | None) -> None:
    """The folder's weights, through ``from_pretrained`` and its key mappings."""
    loaded = type(model).from_pretrained(source, config=_fresh(model.config), dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())


def transfer(whole: PreTrainedModel, base: PreTrainedModel) -> list[str]:
    """Give vLLM's model the weights. Returns the names of parameters that there are none for."""
    inner = base_of(whole, type(base).__name__)
    prefix = next((f"{name}." for name, m in whole.named_modules() if m is inner and name), "")
    own = {name.removeprefix(prefix): value for name, value in whole.state_dict().items()}
    wanted = base.state_dict()
    base.load_state_dict({n: v for n, v in own.items() if n in wanted}, strict=False)
    return sorted({name for name, _ in base.named_parameters()} - set(own))


def lost_buffers(model: PreTrainedModel) -> tuple[tuple[str, ...], str | None]:
    """Buffers that are others after saving and loading, and why that could not be tried."""
    with tempfile.TemporaryDirectory() as saved:
        try:
            model.save_pretrained(saved)
            with _poisoned():
                loaded = type(model).from_pretrained(
                    saved, config=_fresh(model.config), dtype=torch.float32
                )
        except Exception as error:
            return (), f"saving and loading fails: {type(error).__name__}: {one_line(str(error))}"
    after = dict(loaded.named_buffers())
    return tuple(n for n, value in model.named_buffers() if _lost(value, after.get(n))), None


@contextlib.contextmanager
def _poisoned() -> Iterator[None]:
    """Fill memory that nothing initialises with NaN: old memory may hold the right values."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def _lost(before: torch.Tensor, after: Any) -> bool:
    if after is None or after.shape != before.shape:
        return True
    return not torch.allclose(before.float(), after.float(), rtol=1e-5, atol=1e-7, equal_nan=True)
