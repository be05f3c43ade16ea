"""Add one entry to ``auto_map`` in config.json, and leave every other byte as it is.

vLLM loads remote code through ``auto_map``: without an ``AutoModel`` entry the gate passes and
the build fails. The finding's data holds the entry: ``key`` and ``value``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from fixers import FixRefused
from modelcheck.findings import Finding

FIELD = "auto_map"
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class _Entry:
    """One member of an object: its key, and where key and value stand in the text."""

    key: str
    start: int
    value_start: int
    end: int


@dataclass(frozen=True)
class _Object:
    """An object in the text: where it opens and closes, and its members in order."""

    start: int
    end: int  # of the closing brace
    entries: tuple[_Entry, ...]

    def get(self, key: str) -> _Entry | None:
        """The member with this key. Raises `FixRefused` if there are several."""
        found = [entry for entry in self.entries if entry.key == key]
        if len(found) > 1:
            raise FixRefused(f'"{key}" is there more than once')
        return found[0] if found else None


def parsed_object(text: str) -> dict[str, Any]:
    """A configuration's values. Raises `FixRefused`."""
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise FixRefused(f"not valid JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise FixRefused("the configuration is no object")
    return parsed


def fix(text: str, finding: Finding) -> str:
    """``text`` with the entry. Raises `FixRefused`."""
    data = finding.fix.data if finding.fix else {}
    key, value = data.get("key", ""), data.get("value", "")
    if not key or not value:
        raise FixRefused("the finding names no entry")
    parsed = parsed_object(text)
    top = _object_at(text, _skip(text, 0))
    held = top.get(FIELD)
    if held is None:
        unit = _indent_unit(text, top)
        inner = json.dumps({key: value}, ensure_ascii=False)
        if unit is not None:
            lead, step = unit
            entry = f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
            inner = f"{{{lead}{step}{entry}{lead}}}"
        return _inserted(text, top, FIELD, inner)
    if not isinstance(parsed[FIELD], dict):
        raise FixRefused(f'"{FIELD}" is no object')
    auto_map = _object_at(text, held.value_start)
    present = auto_map.get(key)
    new = json.dumps(value, ensure_ascii=False)
    if present is None:
        return _inserted(text, auto_map, key, new, outer=_indent_unit(text, top))
    if parsed[FIELD][key] == value:
        raise FixRefused(f'"{key}" is "{value}" already')
    return text[: present.value_start] + new + text[present.end :]


def inserted_field(text: str, key: str, value: object) -> str:
    """The text of a JSON object with one more member, whose items stand on lines of their own."""
    top = _object_at(text, _skip(text, 0))
    unit = _indent_unit(text, top)
    inner = json.dumps(value, ensure_ascii=False)
    if unit is not None:
        lead, step = unit
        inner = json.dumps(value, ensure_ascii=False, indent=step).replace("\n", lead)
    return _inserted(text, top, key, inner)


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()


def _object_at(text: str, start: int) -> _Object:
    """Where the members of an object stand. The text is known to be valid JSON."""
    entries: list[_Entry] = []
    position = _skip(text, start + 1)
    while text[position] != "}":
        begin = position
        key, position = _DECODER.raw_decode(text, position)
        value_start = _skip(text, _skip(text, position) + 1)
        _, end = _DECODER.raw_decode(text, value_start)
        entries.append(_Entry(key, begin, value_start, end))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return _Object(start, position, tuple(entries))


def _indent_unit(text: str, top: _Object) -> tuple[str, str] | None:
    """Line end with indent of the first member, and one indent; None for one on one line."""
    if not top.entries:
        return None
    lead = text[top.start + 1 : top.entries[0].start]
    if "\n" not in lead:
        return None
    lead = lead[lead.rindex("\n") :] if "\r\n" not in lead else lead[lead.rindex("\r\n") :]
    return lead, lead.lstrip("\r\n")


def _inserted(
    text: str, into: _Object, key: str, value: str, outer: tuple[str, str] | None = None
) -> str:
    """``text`` with one more member: in order where the keys are sorted, else at the end."""
    member = f"{json.dumps(key)}: {value}"
    if not into.entries:
        if outer is None:
            return f"{text[: into.start + 1]}{member}{text[into.end :]}"
        lead, step = outer
        return f"{text[: into.start + 1]}{lead}{step}{member}{lead}{text[into.end :]}"
    keys = [entry.key for entry in into.entries]
    before = [i for i, name in enumerate(keys) if name < key]
    place = len(before) if keys == sorted(keys) else len(keys)
    if place == len(keys) and "architectures" in keys and keys != sorted(keys):
        place = keys.index("architectures") + 1
    if place:
        previous = into.entries[place - 1]
        gap = text[previous.end : into.entries[place].start] if place < len(keys) else None
        lead = text[into.start + 1 : into.entries[0].start]
        separator = gap if gap is not None else f",{lead or ' '}"
        return f"{text[: previous.end]}{separator}{member}{text[previous.end :]}"
    first = into.entries[0]
    gap = text[first.end : into.entries[1].start] if len(keys) > 1 else f",{_lead(text, into)}"
    return f"{text[: first.start]}{member}{gap}{text[first.start :]}"


def _lead(text: str, into: _Object) -> str:
    return text[into.start + 1 : into.entries[0].start] or " "
