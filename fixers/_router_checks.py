"""Would vLLM route a block as its own router does? Asked of modelcheck's own matchers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fixers import FixRefused
from fixers.splice import Splice
from fixers.toolkit import parsed
from modelcheck.errors import UnreadableFile
from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.moe import NAME
from modelcheck.fusers.predicted import Predictions
from modelcheck.fusers.results import Fires
from modelcheck.source.repo import CONFIG, read_config

RELEASES = ("0.32.0", None)  # the config decides until 0.32, the code from 0.33


def check_routing(splice: Splice, path: str, name: str, text: str) -> None:
    """Raise `FixRefused` if vLLM would route with other numbers, or still not at all."""
    info = parsed(path, text).class_info(name)
    given = _given(path)
    for release in RELEASES:
        contract = contract_for(release)
        prediction = Predictions(info.file, contract, given).of(info)
        result = prediction.result(NAME) if prediction is not None else None
        if result is None or result.fires is Fires.UNKNOWN:
            continue
        if result.wrong:
            raise FixRefused(f"vLLM would route otherwise: {result.wrong}", info.node.lineno)
        reason = dict(result.details).get("why_external", "")
        if reason:
            raise FixRefused(f"vLLM would still not route: {reason}", info.node.lineno)


def _given(path: str) -> dict[str, Any] | None:
    file = Path(path).parent / CONFIG
    try:
        return read_config(file)[1] if file.is_file() else None
    except UnreadableFile:
        return None
