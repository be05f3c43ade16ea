"""The window of transformers' old mask helper is one token wider than vLLM's: scan and emulator."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from modelcheck.dryrun.target import BuildSpec
from modelcheck.emulate import EmulateSpec, EmulationReport
from modelcheck.emulate.results import Outcome
from modelcheck.emulate.worker import job
from modelcheck.scan import Scanner, Selection

REMOTE = Path(__file__).resolve().parents[2] / "fixtures" / "models" / "remote_decoder"
pytestmark = pytest.mark.usefixtures("module_cache")
CODE = "MC118"
MASK = """causal_mask = create_causal_mask(
            config=self.config,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            position_ids=position_ids,
        )
"""
OLD = """causal_mask = _prepare_4d_causal_attention_mask(
            attention_mask,
            inputs_embeds.shape[:2],
            inputs_embeds,
            past_key_values.get_seq_length() if past_key_values is not None else 0,
            sliding_window=WINDOW,
        )
"""
IMPORT = "from transformers.masking_utils import create_causal_mask\n"
# transformers makes a non-persistent buffer anew; it fills this one only beside a copy of it
KEPT = ("base**steps), persistent=False)", "base**steps), persistent=True)")
OLD_IMPORT = """from transformers.modeling_attn_mask_utils import (
    AttentionMaskConverter,
    _prepare_4d_causal_attention_mask,
)
"""


def repo(tmp_path: Path, name: str, mask: str, window: int | None = 8) -> Path:
    """The sound model, with a window in its configuration and a mask of its own."""
    folder = Path(shutil.copytree(REMOTE, tmp_path / f"{name}_{tmp_path.name}"))
    model = folder / "modeling_tarn.py"
    text = model.read_text()
    for old, new in (KEPT, (MASK, mask), (IMPORT, OLD_IMPORT + IMPORT)):
        assert old in text, old
        text = text.replace(old, new)
    model.write_text(text)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "sliding_window": window}))
    return folder


def said(folder: Path, transformers: str | None = None) -> list[str]:
    scanner = Scanner(selection=Selection(select=(CODE,)), transformers=transformers)
    return [f.class_name for f in scanner.scan([str(folder)]).findings]


@pytest.mark.parametrize(
    ("window", "outcome"),
    [
        ("self.config.sliding_window", Outcome.DIFFERS),
        ("self.config.sliding_window - 1", Outcome.SAME),
    ],
)
def test_the_numbers_bear_it_out(tmp_path: Path, window: str, outcome: Outcome) -> None:
    folder = repo(tmp_path, "window", OLD.replace("WINDOW", window))
    assert said(folder) == (["TarnModel"] if outcome is Outcome.DIFFERS else [])
    spec = EmulateSpec(BuildSpec(path=str(folder), trust_remote_code=True))
    report = EmulationReport.from_answer(job({"spec": spec.to_json(), "record": None})["report"])
    assert report.outcome is outcome


def test_where_it_fires(tmp_path: Path) -> None:
    old = OLD.replace("WINDOW", "self.config.sliding_window")
    converter = OLD.replace("WINDOW", "None") + (
        "        AttentionMaskConverter(True, sliding_window=self.config.sliding_window)\n"
    )
    assert said(repo(tmp_path, "converter", converter)) == ["TarnModel"]
    assert said(repo(tmp_path, "without", old, window=None)) == []
    assert said(repo(tmp_path, "none", OLD.replace("WINDOW", "None"))) == []
    assert said(repo(tmp_path, "new", MASK)) == []
    folder = repo(tmp_path, "old", old)
    assert said(folder, transformers="4.38.2") == []  # the window had its own token in it
    assert said(folder, transformers="5.19") == ["TarnModel"]
