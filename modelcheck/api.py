"""modelcheck for other tools: what fires for a module, or for source that is only read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelcheck.errors import MissingDependency, UnreadableFile
from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.results import FusionResult

if TYPE_CHECKING:
    from torch import nn


def trace(
    module: nn.Module, vllm: str | None = None, tp: int = 1, head_size: int | None = None
) -> list[FusionResult]:
    """Which fusers of a vLLM release take this module, by torch.fx; one result per fuser.

    ``module`` is any module, on any device, in the mode vLLM would see it in (training);
    ``vllm`` a release ("0.33.0", default the newest known), ``tp`` the tensor-parallel size,
    ``head_size`` the model's where the module has no ``head_dim`` of its own.
    Raises `MissingDependency` without torch and transformers, `UsageError` for a bad release.
    """
    contract = contract_for(vllm)
    try:
        from modelcheck.fusers.traced import trace_one
    except ImportError as error:
        raise MissingDependency(
            f"{error.name} is not installed: pip install 'modelcheck[dryrun]'"
        ) from None
    return trace_one(module, contract, tp, head_size)


def predict(
    path: str | PathLike[str],
    vllm: str | None = None,
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    tp: int = 1,
) -> list[FusionResult]:
    """Which fusers take the classes of a modeling file, from its text alone.

    ``path`` is a file, or a folder with a config.json and modeling files; ``config`` a
    config.json or its values, default the one beside the file. Nothing is imported or run.
    One result per class and fuser. Raises `UnreadableFile` and `UsageError`.
    """
    from modelcheck.fusers.predicted import predict_file
    from modelcheck.source.classes import ProjectIndex
    from modelcheck.source.discovery import discover
    from modelcheck.source.text import read_source

    contract = contract_for(vllm)
    target = Path(path)
    given = _values(config, target)
    files = [target] if target.is_file() else [Path(p) for p in discover([str(target)]).modeling]
    project = ProjectIndex()
    results: list[FusionResult] = []
    for file in files:
        for prediction in predict_file(project.add(read_source(file)), contract, given, tp):
            results += prediction.results
    return results


def _values(
    config: str | PathLike[str] | Mapping[str, Any] | None, target: Path
) -> Mapping[str, Any] | None:
    if isinstance(config, Mapping):
        return config
    folder = target if target.is_dir() else target.parent
    path = Path(config) if config is not None else folder / "config.json"
    if config is None and not path.is_file():
        return None
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UnreadableFile(path, str(error)) from None
    return value if isinstance(value, dict) else None
