"""Add fields to config.json, and leave every other byte as it is.

The finding's data holds them: ``fields``, an object as JSON. One that has its value already stays.
"""

from __future__ import annotations

import json
from typing import Any

from fixers import FixRefused
from fixers.auto_map import inserted_field, parsed_object
from modelcheck.findings import Finding


def fix(text: str, finding: Finding) -> str:
    """``text`` with the fields. Raises `FixRefused`."""
    data = finding.fix.data if finding.fix else {}
    fields: dict[str, Any] = json.loads(data.get("fields", "{}"))
    parsed = parsed_object(text)
    for key, value in fields.items():
        if key in parsed and parsed[key] != value:
            raise FixRefused(f'"{key}" is {json.dumps(parsed[key])} already')
        if key not in parsed:
            text = inserted_field(text, key, value)
    return text
