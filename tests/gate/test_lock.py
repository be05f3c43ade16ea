"""The lock file: written, read again, edited by people, and broken in every way."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelcheck.errors import UsageError
from modelcheck.fusers.results import Evidence
from modelcheck.gate.lock import Expectation, Lock, read, write

MLP = Expectation("TarnMLP", "GLU", 4, ("mlp",))
MOE = Expectation("TarnBlock", "MoEBlock (internal routing)", 3, ("mlp",), "the scale is dropped")
NORM = Expectation("TarnNorm", "RMSNorm")
LOCK = Lock("0.33.0", "5.19.0", "tarn", 4, Evidence.TRACED, "serves fused", (MLP, MOE, NORM))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "modelcheck.lock"


def test_what_is_written_is_read(path: Path) -> None:
    write(path, LOCK)
    again = read(path)
    assert again.path == str(path)
    assert again.expectations == LOCK.expectations
    assert (again.vllm, again.transformers, again.model_type) == ("0.33.0", "5.19.0", "tarn")
    assert (again.layers, again.evidence, again.verdict) == (4, Evidence.TRACED, "serves fused")


def test_an_update_keeps_what_people_wrote(path: Path) -> None:
    write(path, LOCK)
    text = path.read_text()
    text = "# Ask the serving team before lowering these.\n" + text
    text = text.replace("count = 4", "count = 4  # every layer")
    text = text.replace("[classes.TarnNorm.RMSNorm]", "# the norms\n[classes.TarnNorm.RMSNorm]")
    path.write_text(text)
    write(path, LOCK)
    assert path.read_text() == text  # nothing has changed: not a byte

    more = Expectation("TarnMLP", "GLU", 6, ("mlp",))
    new = Expectation("TarnAttention", "QKV", 6, ("self_attn",))
    write(path, Lock("0.34.0", None, "tarn", 6, Evidence.TRACED, "serves fused", (more, new, NORM)))
    text = path.read_text()
    assert "# Ask the serving team" in text
    assert "count = 6  # every layer" in text
    assert "# the norms\n[classes.TarnNorm.RMSNorm]" in text
    again = read(path)
    assert set(again.expectations) == {more, new, NORM}  # the MoE block is gone
    assert (again.vllm, again.transformers, again.layers) == ("0.34.0", None, 6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema = 1\nlayers = = 4", "not a lock: .*line 2"),
        ("", "no schema number"),
        ("schema = true", "no schema number"),
        ("schema = 2", r"newer modelcheck \(schema 2, this one knows 1\)"),
        ('schema = 1\nvllm = "0.33"', "evidence is None"),
        (
            'schema = 1\nvllm = "0.33"\nevidence = "guessed"',
            "evidence is 'guessed', none of predicted",
        ),
        ('schema = 1\nevidence = "traced"\nvllm = 0.33', "vllm is not a text"),
        ('schema = 1\nevidence = "traced"\nvllm = "0.33"\nclasses = 3', "classes is not a table"),
        ('schema = 1\nevidence = "traced"\nvllm = "0.33"\n[classes]\nX = 1', "X is not a table"),
        (
            'schema = 1\nevidence = "traced"\nvllm = "0.33"\n[classes.X.GLU]\ncount = "4"',
            "count is not a number",
        ),
        (
            'schema = 1\nevidence = "traced"\nvllm = "0.33"\n[classes.X.GLU]\nnames = "mlp"',
            "X.GLU.names is not a list of texts",
        ),
        ('schema = 1\nevidence = "traced"', "vllm is '', not a release"),
        ('schema = 1\nevidence = "traced"\nvllm = "new"', "vllm is 'new', not a release"),
        ('schema = 1\nevidence = "traced"\nvllm = "0.11"', "vllm is '0.11', not a release"),
    ],
)
def test_a_broken_lock_is_one_line(path: Path, text: str, words: str) -> None:
    path.write_text(text)
    with pytest.raises(UsageError, match=words) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError):
        write(path, LOCK)  # it may be somebody's file: it is not written over
    assert path.read_text() == text


def test_no_file_and_no_text(path: Path) -> None:
    with pytest.raises(UsageError, match="no such file; modelcheck gate --update writes it"):
        read(path)
    path.write_bytes(b"schema = 1 # \xff")
    with pytest.raises(UsageError, match="not valid utf-8"):
        read(path)
    with pytest.raises(UsageError, match="Is a directory"):
        read(path.parent)
