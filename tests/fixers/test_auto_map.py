"""The auto_map fixer: minimal edits of a config.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import fixers

HEADER = {
    "class": "",
    "at": "{",
    "data": {"key": "AutoModel", "value": "modeling_x.XModel"},
}
Run = Callable[[str, str, dict[str, Any]], str]

NEW = """{
  "architectures": ["XForCausalLM"],
  "auto_map": {
    "AutoModel": "modeling_x.XModel"
  },
  "model_type": "x"
}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{\n  "architectures": ["XForCausalLM"],\n  "model_type": "x"\n}\n', NEW),
        ("{}", '{"auto_map": {"AutoModel": "modeling_x.XModel"}}'),
        ('{"b": 1.50}\n', '{"auto_map": {"AutoModel": "modeling_x.XModel"}, "b": 1.50}\n'),
        ('{"a": 1e3}', '{"a": 1e3, "auto_map": {"AutoModel": "modeling_x.XModel"}}'),
        (
            '{\n\t"z": 1,\n\t"architectures": [],\n\t"a": 2\n}',
            '{\n\t"z": 1,\n\t"architectures": [],\n\t"auto_map": {\n\t\t"AutoModel": '
            '"modeling_x.XModel"\n\t},\n\t"a": 2\n}',
        ),
        (
            '{\n    "auto_map": {\n        "AutoConfig": "c.C"\n    }\n}\n',
            '{\n    "auto_map": {\n        "AutoConfig": "c.C",\n        "AutoModel": '
            '"modeling_x.XModel"\n    }\n}\n',
        ),
        (
            '{\n  "auto_map": {"AutoModelForCausalLM": "m.M"}\n}\n',
            '{\n  "auto_map": {"AutoModel": "modeling_x.XModel", '
            '"AutoModelForCausalLM": "m.M"}\n}\n',
        ),
        (
            '{\n  "auto_map": {\n    "AutoModelForCausalLM": "m.M"\n  }\n}\n',
            '{\n  "auto_map": {\n    "AutoModel": "modeling_x.XModel",\n    '
            '"AutoModelForCausalLM": "m.M"\n  }\n}\n',
        ),
        (
            '{\n  "auto_map": {}\n}\n',
            '{\n  "auto_map": {\n    "AutoModel": "modeling_x.XModel"\n  }\n}\n',
        ),
        (
            '{"auto_map": {"AutoModel": "modeling_x.Gone"}, "é": "\\u00e9"}',
            '{"auto_map": {"AutoModel": "modeling_x.XModel"}, "é": "\\u00e9"}',
        ),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_inserts_only_the_entry(text: str, expected: str, end: str, run_fix: Run) -> None:
    fixed = run_fix("auto_map", text.replace("\n", end), HEADER)
    assert fixed == expected.replace("\n", end)
    old, new = json.loads(text), json.loads(fixed)
    assert new["auto_map"]["AutoModel"] == "modeling_x.XModel"
    del new["auto_map"]["AutoModel"]
    if "auto_map" in old:
        old["auto_map"].pop("AutoModel", None)
        assert new == old
    else:
        assert new == {**old, "auto_map": {}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ("[]", "the configuration is no object"),
        ('{"auto_map": "x"}', '"auto_map" is no object'),
        ('{"auto_map": {}, "auto_map": {}}', '"auto_map" is there more than once'),
        ('{"auto_map": {"AutoModel": "modeling_x.XModel"}}', '"AutoModel" is '),
    ],
)
def test_refuses(text: str, reason: str, run_fix: Run) -> None:
    with pytest.raises(fixers.FixRefused, match=reason):
        run_fix("auto_map", text, HEADER)


def test_refuses_without_an_entry(run_fix: Run) -> None:
    with pytest.raises(fixers.FixRefused, match="names no entry"):
        run_fix("auto_map", "{}", {**HEADER, "data": {}})
