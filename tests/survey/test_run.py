"""A survey of a small package: what it finds, and how it is resumed."""

import importlib.util
import json
import time
from dataclasses import replace

import pytest

from modelcheck.errors import MissingDependency, UsageError
from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.results import Evidence
from modelcheck.survey import run as survey
from modelcheck.survey.catalogue import read_catalogue
from modelcheck.survey.records import MODEL, STOPPED, Record, Store

NEEDS_TORCH = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None,
    reason="no torch and transformers",
)


def by_type(records):
    return {record.model_type: record for record in records}


def places(record):
    return {c.report.class_name: (c.file, c.line) for c in record.classes}


def fired(record):
    return {c.report.class_name: c.report.fired for c in record.classes if c.report.fired}


def test_every_type_has_a_record_and_its_own_classes(plan):
    records = by_type(survey.run(plan))
    assert list(records) == ["gone", "late", "one", "two-part", "two-text"]
    assert fired(records["one"]) == {"OneNorm": ("RMSNorm",)}
    # TwoMLP is constructed by TwoModel through a table, and by TwoTextModel not at all.
    assert fired(records["two-part"]) == {"TwoMLP": ("GLU",)}
    assert fired(records["two-text"]) == {}
    assert records["late"].error == survey.NO_AUTO_MODEL
    assert "GoneModel" in records["gone"].error
    assert {r.failed for r in records.values()} == {None, MODEL}


def test_places_are_those_in_the_package(plan):
    [norm] = by_type(survey.run(plan))["one"].classes
    assert (norm.file, norm.line) == ("models/one/modeling_one.py", 6)
    assert set(norm.sources.values()) == {"return self.weight * hidden_states"}


def test_a_file_that_cannot_be_read_is_a_row(plan, package):
    (package / "models/one/modeling_one.py").write_text("class OneModel(:\n")
    records = by_type(survey.run(plan))
    assert "modeling_one.py:1: syntax error" in records["one"].error
    assert records["two-part"].error is None


def test_an_older_release_has_its_fusers(plan):
    old = replace(plan, contract=contract_for("0.25"))
    [record] = [r for r in survey.run(old) if r.model_type == "one"]
    assert record.releases.vllm == "0.25.1"


class Counting:
    def __init__(self):
        self.made, self.taken = [], None

    def run(self, plan, path, **options):
        self.made = []
        return survey.run(
            plan,
            path,
            started=lambda taken: setattr(self, "taken", taken),
            progress=lambda record: self.made.append(record.model_type),
            **options,
        )


def test_a_second_run_makes_nothing_and_answers_the_same(plan, tmp_path):
    path, counting = tmp_path / "s.jsonl", Counting()
    first = counting.run(plan, path)
    assert len(counting.made) == 5
    assert counting.run(plan, path) == first
    assert counting.made == []
    assert counting.taken == survey.Taken(5, 0)
    assert len(path.read_text().splitlines()) == 5


def test_an_interrupted_run_goes_on(plan, tmp_path):
    path, counting = tmp_path / "s.jsonl", Counting()

    def interrupt(record: Record) -> None:
        if record.model_type.startswith("two"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        survey.run(plan, path, progress=interrupt)
    there = {json.loads(line)["model_type"] for line in path.read_text().splitlines()}
    assert 0 < len(there) < 5
    assert {r.model_type for r in counting.run(plan, path)} == {t.name for t in plan.types}
    assert set(counting.made) == {t.name for t in plan.types} - there


@pytest.mark.parametrize(
    "change",
    [
        {"contract": contract_for("0.29")},
        {"tp": 2},
        {"catalogue": "5.20.0"},
    ],
    ids=str,
)
def test_what_is_out_of_date_is_made_again(plan, package, tmp_path, change):
    path, counting = tmp_path / "s.jsonl", Counting()
    counting.run(plan, path)
    if "catalogue" in change:
        change = {"catalogue": read_catalogue(package, change["catalogue"])}
    counting.run(replace(plan, **change), path)
    assert len(counting.made) == 5
    assert counting.taken == survey.Taken(0, 5)
    assert len(path.read_text().splitlines()) == 5


def test_evidence_that_is_not_asked_for_goes(plan, records, tmp_path):
    path = tmp_path / "s.jsonl"
    with Store(path) as store:
        store.append(records[1])
    counting = Counting()
    counting.run(plan, path)
    assert counting.taken == survey.Taken(0, 1)
    assert {json.loads(x)["evidence"] for x in path.read_text().splitlines()} == {"predicted"}


def test_what_was_stopped_is_tried_again(plan, tmp_path):
    path, counting = tmp_path / "s.jsonl", Counting()
    records = survey.run(plan)
    with Store(path) as store:
        for record in records:
            one = record.model_type == "one"
            store.append(replace(record, error="hung", failed=STOPPED) if one else record)
    counting.run(plan, path)
    assert counting.made == ["one"]


def test_no_resume(plan, tmp_path):
    path, counting = tmp_path / "s.jsonl", Counting()
    counting.run(plan, path)
    counting.run(plan, path, resume=False)
    assert len(counting.made) == 5
    assert len(path.read_text().splitlines()) == 5


def test_a_python_without_vllm(plan):
    import sys

    if importlib.util.find_spec("vllm") is not None:
        pytest.skip("vLLM is installed here")
    with pytest.raises(MissingDependency, match="has no vLLM"):
        survey.make_plan(plan.catalogue, evidence=[Evidence.LOADED], python=sys.executable)


def test_loaded_has_no_tensor_parallel_size(plan):
    with pytest.raises(UsageError, match="--tp"):
        survey.make_plan(plan.catalogue, evidence=[Evidence.LOADED], tp=2)


@NEEDS_TORCH
@pytest.mark.slow
def test_traced_and_predicted_of_the_installed_transformers_agree_on_llama():
    from modelcheck.survey.catalogue import installed

    both = (Evidence.PREDICTED, Evidence.TRACED)
    plan = survey.make_plan(installed(), model_types=["llama"], evidence=both, jobs=1)
    predicted, traced = survey.run(plan)
    assert fired(predicted) == fired(traced)
    assert fired(traced)["LlamaMLP"] == ("GLU",)
    places = [
        {c.report.class_name: (c.file, c.line) for c in r.classes} for r in (predicted, traced)
    ]
    assert places[0].items() >= places[1].items()
    assert all(c.report.count for c in traced.classes)


@NEEDS_TORCH
@pytest.mark.slow
def test_a_type_that_cannot_be_built_is_a_row_and_a_limit_of_time_holds():
    from modelcheck.survey.catalogue import installed

    types = [t.name for t in installed().types if not t.base][:1]
    plan = survey.make_plan(
        installed(), model_types=[*types, "llama"], evidence=[Evidence.TRACED], jobs=1
    )
    start = time.monotonic()
    refused, llama = survey.run(replace(plan, timeout=60))
    assert refused.error == survey.NO_AUTO_MODEL
    assert refused.failed == MODEL
    assert llama.error is None
    stopped = by_type(survey.run(replace(plan, timeout=0.001)))["llama"]
    assert stopped.failed == STOPPED
    assert time.monotonic() - start < 240
