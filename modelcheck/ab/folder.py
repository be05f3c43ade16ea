"""What a benchmark needs beside a model's configuration: weights, a tokenizer, or stand-ins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
)


def has_weights(folder: Path) -> bool:
    """Is there any file of weights?"""
    return any(next(folder.glob(pattern), None) is not None for pattern in WEIGHTS)


def has_tokenizer(folder: Path) -> bool:
    """Is there any file of a tokenizer?"""
    return any((folder / name).exists() for name in TOKENIZERS)


def vocabulary(config: Mapping[str, Any]) -> int | None:
    """``vocab_size`` of a parsed config.json, or of the text model in it."""
    for part in (config, config.get("text_config")):
        size = part.get("vocab_size") if isinstance(part, Mapping) else None
        if isinstance(size, int) and size > 0:
            return size
    return None


def write_tokenizer(folder: Path, size: int) -> None:
    """A tokenizer of ``size`` tokens in an empty folder: "t5 t17" is [5, 17]."""
    words = {f"t{number}": number for number in range(size)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "t0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
