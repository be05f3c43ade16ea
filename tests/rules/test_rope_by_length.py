"""The rule about rotary tables that are cut to the length of a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import rule_named
from modelcheck.scan import Scanner

EXAMPLE = rule_named("MC206").sections["Example"].split("```")[1].removeprefix("python\n")


def codes(text: str, folder: Path) -> list[str]:
    path = folder / "modeling_my.py"
    path.write_text(text)
    return [f.code for f in Scanner(contract_for("0.33")).check(str(path)) if f.code == "MC206"]


def test_it_fires(tmp_path: Path) -> None:
    assert codes(EXAMPLE, tmp_path) == ["MC206"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the whole table, whatever the length
        ("[:seq_len], self.sin_cached[:seq_len]", ", self.sin_cached"),
        # as long as the positions need
        ("kv_seq_len = query.shape[-2]", "kv_seq_len = max(query.shape[-2], position_ids.max() + 1)"),  # noqa: E501
        # a length that is not that of the call
        ("kv_seq_len = query.shape[-2]", "kv_seq_len = self.longest"),
        # another module of the same name
        ("= MyRotaryEmbedding(config.head_dim)", "= nn.Linear(1, 1)\n        MyRotaryEmbedding(1)"),
        # no positions: nothing is indexed
        ("position_ids", "steps"),
    ],
)  # fmt: skip
def test_near_misses(old: str, new: str, tmp_path: Path) -> None:
    text = EXAMPLE.replace(old, new)
    assert text != EXAMPLE
    assert codes(text, tmp_path) == []
