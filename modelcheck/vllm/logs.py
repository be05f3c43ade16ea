"""What vLLM's log says about fusers, as data.

The shapes are those of vLLM 0.25 to 0.33. A record is reduced to (level, message) first, so
nothing here needs vLLM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from modelcheck.fusers.results import Fires, FusionResult

_FUSED = re.compile(
    r"^(?P<verb>Fused|Found): (?P<sources>.+?)"
    r" \((?:(?P<child>[^:()]+): )?(?P<cls>[^()]+)\) -> (?P<dst>.+)$"
)
_LOOKALIKE = re.compile(r"^(?P<cls>\w+) looks like an RMSNorm\b")
_NO_REWRITE = re.compile(
    r"^Attempted to fuse <class '(?P<cls>[^']+)'> using (?P<fuser>\w+) but failed"
    r" to update its forward method: (?P<reason>.*)$",
    re.DOTALL,
)
_AMBIGUOUS = re.compile(r"^(?P<cls>\w+) has (?P<reason>\d+ fusable sibling-linear groups)")
_INVALID = re.compile(
    r"^<class '(?P<cls>[^']+)'> is not compatible with (?P<packed>packed )?QKV fusion"
)


@dataclass(frozen=True)
class LogLine:
    """One record of vLLM's log: the level's name and the message."""

    level: str
    message: str


@dataclass(frozen=True)
class FusedLine:
    """A ``Fused:`` or ``Found:`` line: which fuser, on which class.

    ``child`` is the attribute name in the parent ("" for MoE blocks, whose line has none),
    ``becomes`` the vLLM class, ``routing`` "internal" or "external" for MoE.
    """

    fuser: str
    class_name: str
    child: str
    becomes: str
    routing: str = ""


def fused_line(message: str) -> FusedLine | None:
    """Read one line, or None if it is no such line or of an unknown shape."""
    found = _FUSED.match(message.split("; ", 1)[0])
    if found is None:
        return None
    sources, child, cls, dst = found.group("sources", "child", "cls", "dst")
    target, _, role = dst.partition(" (")
    role = role.rstrip(")")
    if found["verb"] == "Found":
        return FusedLine("Attention", cls, child or sources, target)
    if role.endswith(" routing"):
        return FusedLine("MoEBlock", cls, "", target, role.removesuffix(" routing"))
    if role == "CustomOp":
        return FusedLine("RMSNorm", cls, sources, target)
    if target == "MLAAttention":
        return FusedLine("MLA", cls, sources, target)
    if target == "QKVParallelLinear":
        return FusedLine("PackedQKV", cls, child or "", target)
    if role == "QKVParallelLinear":
        return FusedLine("QKV", cls, child or "", role)
    if role == "MergedColumnParallelLinear":
        name = "MergedColumnParallel" if target.startswith("merged_proj_") else "GLU"
        return FusedLine(name, cls, child or "", role)
    return None


def fused_lines(log: Iterable[LogLine]) -> tuple[FusedLine, ...]:
    """All the ``Fused:``/``Found:`` lines of a log, in order."""
    return tuple(line for entry in log if (line := fused_line(entry.message)) is not None)


def misses(log: Iterable[LogLine]) -> tuple[FusionResult, ...]:
    """The classes that vLLM itself says it left unfused, with its reason.

    Needs vLLM's debug lines, but for the RMSNorm look-alikes, which are warnings.
    """
    found = (_miss(entry.message) for entry in log)
    return tuple(dict.fromkeys(miss for miss in found if miss is not None))


def _miss(message: str) -> FusionResult | None:
    if match := _LOOKALIKE.match(message):
        reason = "looks like an RMSNorm, but its computation is not the pattern"
        return _no("RMSNorm", match["cls"], reason)
    if match := _NO_REWRITE.match(message):
        fuser = match["fuser"].removesuffix("Fuser")
        reason = " ".join(match["reason"].split())
        return _no(fuser, match["cls"], f"its forward cannot be rewritten: {reason}")
    if match := _AMBIGUOUS.match(message):
        return _no("MergedColumnParallel", match["cls"], match["reason"])
    if match := _INVALID.match(message):
        fuser = "PackedQKV" if match["packed"] else "QKV"
        return _no(fuser, match["cls"], "its widths or biases do not allow one projection")
    return None


def _no(fuser: str, qualified: str, reason: str) -> FusionResult:
    return FusionResult(fuser, Fires.NO, qualified.rpartition(".")[2], reason)


def warnings(log: Iterable[LogLine]) -> tuple[str, ...]:
    """vLLM's warnings about fusion and attention, once each.

    Only those of the Transformers backend: what vLLM says of the machine is not the model's.
    """
    marks = ("looks like an RMSNorm", "MLAFuser", "could be fused but", "does not define a ")
    found = (e.message for e in log if e.level in ("WARNING", "ERROR"))
    return tuple(dict.fromkeys(" ".join(m.split()) for m in found if any(k in m for k in marks)))
