"""How results are written in the probes' expected files."""

from __future__ import annotations

import re
from collections.abc import Iterable

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.results import Fires, FusionResult

CRASH = "EXC"
ABSENT = "n/a"  # a fuser that the release does not have
RENORMALISES = {"true": "True", "false": "False"}


def names(results: Iterable[FusionResult]) -> list[str]:
    """The fusers that fire, in vLLM's order."""
    return [r.fuser for r in results if r.fires is Fires.YES and r.fuser != "MoEBlock"]


def block(result: FusionResult, contract: Contract) -> str:
    """What vLLM's MoE fuser finds in a block, as the expected file has it."""
    details = dict(result.details)
    if "why_external" in details:
        return "none"
    renormalises = ABSENT
    if contract.moe_dataflow:
        renormalises = RENORMALISES.get(details.get("renormalises", ""), "None")
    return (
        f"score={details.get('scoring')} shared={details.get('shared')} "
        f"sgate={details.get('shared_gate')} dtype={details.get('router_dtype')} "
        f"renorm={renormalises}"
    )


def without_reason(text: str) -> str:
    """The expected outcome without vLLM's own reason in brackets."""
    return re.sub(r"\s*\[.*", "", text)
