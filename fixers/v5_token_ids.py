"""Read a config attribute with the default that every transformers 4 configuration had.

``config.pad_token_id`` becomes ``getattr(config, "pad_token_id", None)``, wherever the file reads
it: the value is the same where the attribute exists, and the old one where it does not.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.versions.configs import is_config


def fix(text: str, finding: Finding) -> str:
    """``text`` with a default at every read of the attribute. Raises `FixRefused`."""
    data = finding.fix.data if finding.fix else {}
    name, default = data.get("name", ""), data.get("default", "")
    splice = Splice(document(text, finding))
    reads = [
        node
        for node in nodes_of(splice.tree)
        if isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Load)
        and is_config(node.value)
    ]
    if not reads:
        raise FixRefused(f"config.{name} is not read here", finding.span.line)
    for node in reads:
        splice.replace(node, f'getattr({splice.code(node.value)}, "{name}", {default})')
    return splice.text()
