"""What vLLM refuses is told with its real cause, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from modelcheck.errors import BuildError

# The model's own fault is named with its file and line, vLLM's refusal in vLLM's words.
REFUSED = {
    "misspelt": ("AttributeError", "'TarnAttention'", "'head_dims'", "/misspelt/modeling_tarn.py:"),
    "item": ("item() cannot be called on meta tensors", "/item/modeling_tarn.py:"),
    "no_position_ids": (
        "vLLM refuses",
        "position_ids not found in the forward method of TarnModel",
    ),
    "no_config": ("vLLM refuses", "Layer 0 does not dispatch"),
    "inline_scaling": ("vLLM refuses", "Cannot resolve attention scaling", "TarnAttention"),
    "one_index": ("vLLM refuses", "Layer 0 dispatches attention from more than one module"),
    "no_embedding": ("vLLM refuses", "get_input_embeddings"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_cause_in_one_line(outcomes: Mapping[str, Any], name: str) -> None:
    error = outcomes[name]
    assert isinstance(error, BuildError), error
    message = str(error)
    assert "\n" not in message
    assert [words for words in REFUSED[name] if words not in message] == [], message
    assert "transformers_modules" not in message
