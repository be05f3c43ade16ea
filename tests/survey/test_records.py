"""The file of a survey: whole lines, taken over when they are up to date."""

import json
from dataclasses import replace

import pytest

from modelcheck.errors import UsageError
from modelcheck.survey.records import Record, Store


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path, records):
    path = tmp_path / "survey.jsonl"
    with Store(path) as store:
        for record in records:
            store.append(record)
    return path


def test_there_and_back(records):
    for record in records:
        assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_line_has_what_the_schema_says(path):
    first = lines(path)[0]
    assert first["schema_version"] == 1
    assert (first["model_type"], first["evidence"]) == ("one", "predicted")
    assert {"vllm", "transformers", "classes", "error", "seconds"} <= first.keys()
    assert first["classes"][0]["fusions"][0]["fuser"] == "QKV"


def test_all_is_taken_over(path, records):
    before = path.read_bytes()
    with Store(path) as store:
        kept, dropped = store.take_over(lambda record: True)
    assert kept == {record.key: record for record in records}
    assert dropped == 0
    assert path.read_bytes() == before


def test_a_torn_last_line_is_cut_off_and_the_next_one_is_whole(path, records):
    path.write_bytes(path.read_bytes()[:-40])
    with Store(path) as store:
        kept, dropped = store.take_over(lambda record: True)
        assert len(kept) == 2
        assert dropped == 1
        store.append(records[2])
    assert [line["model_type"] for line in lines(path)] == ["one", "one", "gone"]


def test_lines_that_are_not_wanted_or_of_another_schema_go(path, records):
    with path.open("a") as stream:
        stream.write(json.dumps(records[1].to_json() | {"schema_version": 99}) + "\n")
    with Store(path) as store:
        kept, dropped = store.take_over(lambda record: record.error is None)
        store.append(records[2])
    assert len(kept) == 2
    assert dropped == 2
    assert len(lines(path)) == 3


def test_a_file_of_another_kind_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    with pytest.raises(UsageError, match="not the file of a survey"), Store(path) as store:
        store.take_over(lambda record: True)
    assert path.read_text() == "my notes\n"


def test_two_surveys_cannot_write_one_file(path):
    with Store(path), pytest.raises(UsageError, match="another survey"), Store(path):
        pass


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="No such file"), Store(tmp_path / "no" / "x.jsonl"):
        pass


def test_releases_are_part_of_a_line(records):
    other = replace(records[0].releases, transformers="5.20.0")
    assert Record.from_json(replace(records[0], releases=other).to_json()).releases == other
