"""What is made of the figures of both sides, before any vLLM runs."""

from __future__ import annotations

import json
import re
import xml.dom.minidom
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from modelcheck.ab.folder import has_tokenizer, has_weights, vocabulary, write_tokenizer
from modelcheck.ab.plot import page
from modelcheck.ab.process import cause
from modelcheck.ab.results import BACKEND, OWN, AbReport, Run
from modelcheck.cli.ab import ab
from modelcheck.errors import UsageError
from modelcheck.gate.logcheck import Missing
from modelcheck.report.ab import figures, lines

SLOW = Missing("XMLP", "GLU", "mlp")


def report(
    own: Sequence[float], backend: Sequence[float], bench: str = "latency", **more: str
) -> AbReport:
    key = {"latency": "avg_latency", "throughput": "tokens_per_second"}[bench]
    runs = [Run(pair, OWN, {key: value}) for pair, value in enumerate(own)]
    runs += [
        Run(pair, BACKEND, {key: value}, (SLOW,) if pair else (), 3)
        for pair, value in enumerate(backend)
    ]
    return AbReport("./<repo>", bench, (), tuple(reversed(runs)), "dry run", 4, **more)


def test_a_ratio_is_of_speeds_whichever_way_is_better() -> None:
    slower = report([1.0, 1.02, 0.99], [1.25, 1.26, 1.24])
    assert slower.comparisons[0].verdict == "the Transformers backend is slower"
    assert slower.comparisons[0].ratio.value == pytest.approx(0.803, abs=0.001)
    faster = report([1.0, 1.02, 0.99], [1.25, 1.26, 1.24], "throughput")
    assert faster.comparisons[0].verdict == "the Transformers backend is faster"


def test_pairs_take_out_what_both_sides_suffer() -> None:
    """The machine slows down to a half; within a pair one side is always 5 % behind."""
    load = [1.0, 1.3, 1.7, 2.0]
    found = report([0.1 * x for x in load], [0.105 * x for x in load]).comparisons[0]
    assert found.sides[OWN].mean.high > found.sides[BACKEND].mean.low  # apart they overlap
    assert found.verdict == "the Transformers backend is slower"


def test_an_interval_that_spans_1_is_said_plainly() -> None:
    found = report([1.0, 1.1, 0.9], [1.05, 1.0, 0.97])
    assert "no difference shown: the interval spans 1" in "\n".join(figures(found))
    assert found.to_json()["metrics"][0]["verdict"].endswith("spans 1")


def test_one_side_has_figures_and_no_ratio() -> None:
    found = report([], [1.0, 1.1], one_sided="vLLM has no implementation of its own of X")
    (metric,) = found.to_json()["metrics"]
    assert (metric["ratio"], metric[BACKEND]["median"]) == (None, 1.05)
    assert OWN not in metric
    assert any("only --model-impl transformers can run" in line for line in lines(found))


def test_missing_fusions_are_named_once() -> None:
    found = report([1.0] * 3, [1.0] * 3)
    assert found.missing == (SLOW,)
    assert [line for line in lines(found) if "not fused" in line] == ["not fused: XMLP: GLU (mlp)"]
    assert json.loads(json.dumps(found.to_json()))["fusions"]["missing"][0]["name"] == "mlp"


def test_the_page_is_whole_and_loads_nothing() -> None:
    text = page(report([1.0, 1.1, 0.9], [1.05, 1.0, 0.97]))
    drawings = re.findall("<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 2  # the runs, and the ratios
    for drawing in drawings:
        xml.dom.minidom.parseString(drawing)
    assert drawings[0].count("<circle") == 6
    assert "./&lt;repo&gt;" in text
    assert not re.search(r"(?:src|href)=|https?://", text)


LOG = """\
(APIServer pid=1) WARNING 11-30 10:15:53 [base.py:380] ValueError: Tokenizer not available
(Worker pid=3) ERROR 11-30 10:15:53 [multiproc_executor.py:1063] RuntimeError: head_dim=16
(EngineCore pid=2) ERROR 11-30 10:15:53 [core.py:1512] RuntimeError: Worker failed
Traceback (most recent call last):
vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace
"""


def test_the_first_error_is_the_cause() -> None:
    assert cause(LOG) == "RuntimeError: head_dim=16"
    assert cause("\n".join(LOG.splitlines()[-1:])).startswith("EngineDeadError: ")
    pydantic = "a.b.ValidationError: 1 validation error for X\n  Value error, too long [type=y]\n"
    assert cause(pydantic).endswith("1 validation error for X Value error, too long [type=y]")
    assert cause("x: error: unrecognized arguments: -y") == "x: error: unrecognized arguments: -y"
    assert cause("all is well") == ""


def test_stand_ins(tmp_path: Path) -> None:
    assert not has_weights(tmp_path) and not has_tokenizer(tmp_path)
    write_tokenizer(tmp_path, 50)
    (tmp_path / "model-00001-of-00002.safetensors").touch()
    assert has_weights(tmp_path) and has_tokenizer(tmp_path)
    assert vocabulary({"text_config": {"vocab_size": 7}}) == 7
    assert vocabulary({"vocab_size": "many"}) is None
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer("t5 t17")["input_ids"] == [5, 17]
    assert tokenizer("t5 t17").input_ids == tokenizer(tokenizer.decode([5, 17])).input_ids


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--plot", "x.png"], "not an .html file"),
        (["--plot", "/nonesuch/x.html"], "not an .html file in a folder that is there"),
        (["--engine-args", "'open"], "--engine-args: No closing quotation"),
        (["--", "--model", "other"], "--model is given by modelcheck itself"),
        (["--engine-args", "--model-impl=vllm"], "--model-impl is given by modelcheck itself"),
    ],
)
def test_wrong_use(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    done = CliRunner().invoke(ab, [str(tmp_path), *arguments], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert words in str(done.exception)
