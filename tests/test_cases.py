"""Whole models with one planted fault each: it is found, on its class, and nothing else is.

``fixtures/cases/expected.json`` has every finding as code, class, severity and line, the rule of
the planted fault, and what transformers or vLLM was seen to do with the model. A model without
``fixed`` has no repair.
"""

import json
from pathlib import Path

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.scan import Scanner

CASES = Path(__file__).resolve().parent.parent / "fixtures" / "cases"
ROWS = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])


def findings(row, name="modeling_case.py", vllm="0.33", transformers=None):
    scanner = Scanner(contract_for(vllm), transformers=transformers)
    found = scanner.scan([str(CASES / row["case"] / name)]).findings
    return [[f.code, f.class_name, str(f.severity), f.span.line] for f in found]


def test_no_folder_is_left_out():
    assert {row["case"] for row in ROWS} == {path.name for path in CASES.iterdir() if path.is_dir()}


@rows
def test_the_fault_and_nothing_else(row):
    found = findings(row)
    assert found == row["findings"]
    assert row["fault"] in {code for code, *_ in found}


@rows
def test_the_repaired_twin(row):
    assert ("fixed" in row) == (CASES / row["case"] / "modeling_fixed.py").exists()
    if "fixed" in row:
        found = findings(row, "modeling_fixed.py")
        assert found == row["fixed"]
        assert row["fault"] not in {code for code, *_ in found}


@rows
def test_an_older_vllm(row):
    assert findings(row, vllm="0.29") == row.get("vllm 0.29", row["findings"])


@rows
def test_a_known_transformers(row):
    found = findings(row, transformers="5.19")
    assert found == row.get("transformers 5.19", row["findings"])
