"""The counting behind benchmarks/refusals.py: which cause a message of vLLM's means."""

import json
import sys
from pathlib import Path

import pytest

from modelcheck.findings import Finding, Severity, Span

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import refusals
from refusals import Outcome

NO_POSITIONS = "x: vLLM refuses the model: Argument position_ids not found in the forward method"
DEFAULTS = "x: TypeError: None (modeling_x.py:1); built from the type's default values, a folder"
SWITCHED = "x: KeyError: 'vllm': attention is chosen from a dict of classes; built from the type's"


def finding(code, severity=Severity.ERROR):
    return Finding(code, severity, "modeling_x.py", Span(1), "X", "message", "advice")


@pytest.mark.parametrize(
    ("message", "said", "outcome"),
    [
        ("", [], Outcome.QUIET),
        ("", [finding("MC501", Severity.SLOW)], Outcome.QUIET),
        ("", [finding("MC110", Severity.WRONG)], Outcome.SAID),
        (NO_POSITIONS, [finding("MC302")], Outcome.RIGHT),
        (NO_POSITIONS, [finding("MC302"), finding("MC111")], Outcome.RIGHT),
        (NO_POSITIONS, [finding("MC111")], Outcome.OTHER),
        (NO_POSITIONS, [finding("MC302", Severity.INFO)], Outcome.NOTED),
        (NO_POSITIONS, [finding("MC203", Severity.WRONG)], Outcome.MISSED),
        (NO_POSITIONS, [], Outcome.MISSED),
        ("x: vLLM refuses the model: something new", [finding("MC302")], Outcome.OTHER),
        (DEFAULTS, [finding("MC302")], Outcome.UNJUDGED),
        (SWITCHED, [finding("MC102")], Outcome.RIGHT),
    ],
)
def test_outcomes(message, said, outcome):
    assert refusals.judge("x", message, said).outcome is outcome


def test_the_share_is_of_what_is_refused_and_judged():
    rows = [
        refusals.judge("a", "", [finding("MC110", Severity.WRONG)]),
        refusals.judge("b", DEFAULTS, []),
        refusals.judge("c", NO_POSITIONS, [finding("MC302")]),
        refusals.judge("d", NO_POSITIONS, [finding("MC302", Severity.INFO)]),
    ]
    assert refusals.share(rows) == 0.5


def test_every_cause_names_rules_that_exist():
    from modelcheck.rules.base import all_rules

    known = {rule.code for rule in all_rules()}
    assert {code for cause in refusals.CAUSES for code in cause.codes} <= known


def test_types_that_the_file_has_are_not_built_again(tmp_path):
    path = tmp_path / "truth.json"
    path.write_text(json.dumps({"vllm": "0.32.0", "transformers": "5", "types": {"x": ""}}))
    assert refusals.truth(path, ["x"], "/no/such/python")["types"] == {"x": ""}
