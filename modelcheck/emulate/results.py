"""What an emulation found, as plain data."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA_VERSION = 1


class Outcome(enum.Enum):
    """Would vLLM give what transformers gives?"""

    SAME = "same"
    DIFFERS = "differs"
    REFUSED = "refused"  # vLLM would stop, when it builds the model or at the first step


@dataclass(frozen=True)
class PromptResult:
    """One prompt of ``length`` tokens and the tokens generated after it.

    ``prefill`` and ``decode`` are the largest absolute differences of the outputs at the
    prompt's tokens and at the generated ones (None where nothing was generated). ``top1`` of
    ``tokens`` outputs have the same most likely token; ``greedy`` is how many of the first of
    ``steps`` generated tokens are the same, both None for a model without a head.
    """

    length: int
    tokens: int
    steps: int
    prefill: float
    decode: float | None
    top1: int | None
    greedy: int | None

    def differs(self, tolerance: float) -> bool:
        """Is a difference larger than rounding explains? NaN is."""
        return any(
            not value <= tolerance for value in (self.prefill, self.decode) if value is not None
        )


@dataclass(frozen=True)
class FirstDifference:
    """The first module that makes another output of equal input.

    ``phase`` is "prefill" or "decode", ``path`` its name in the base model ("" is the base model
    itself, "head" what comes after it), ``largest`` the difference of its output.
    """

    path: str
    class_name: str
    phase: str
    largest: float


def finite(data: Any) -> Any:
    """The same data without NaN and infinity, which JSON has not: they become null."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    return [finite(v) for v in data] if isinstance(data, list | tuple) else data


@dataclass(frozen=True)
class EmulationReport:
    """A model's outputs in vLLM's way of calling it, beside those of transformers.

    ``compared`` names the outputs: "log-probabilities", or "hidden states" without a head.
    ``lost_buffers`` are those that ``from_pretrained`` makes otherwise than the constructor:
    transformers computes with these, vLLM with the constructor's. ``causes`` are measured, the
    likeliest first. ``reduced`` says which values of the configuration were made smaller.
    """

    target: str
    model_class: str
    outcome: Outcome
    compared: str = ""
    tolerance: float = 0.0
    prompts: tuple[PromptResult, ...] = ()
    first: FirstDifference | None = None
    causes: tuple[str, ...] = ()
    lost_buffers: tuple[str, ...] = ()
    weights: str = "random"
    reduced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Nothing differs."""
        return self.outcome is Outcome.SAME

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, with the schema's version; a difference of NaN is null."""
        return {
            "schema_version": SCHEMA_VERSION,
            "evidence": "emulated",
            "same": self.same,
            **finite(self.answer()),
        }

    @classmethod
    def from_answer(cls, data: Mapping[str, Any]) -> EmulationReport:
        """Read what the worker answers (`answer`), NaN included."""
        first = data["first"]
        return cls(
            **{
                **data,
                "outcome": Outcome(data["outcome"]),
                "prompts": tuple(PromptResult(**p) for p in data["prompts"]),
                "first": None if first is None else FirstDifference(**first),
                **{k: tuple(data[k]) for k in ("causes", "lost_buffers", "reduced", "notes")},
            }
        )

    def answer(self) -> dict[str, Any]:
        """Plain data for `from_answer`."""
        return asdict(self) | {"outcome": self.outcome.value, "versions": dict(self.versions)}


@dataclass(frozen=True)
class VersionsReport:
    """The new version of a model's code in vLLM's way, beside the old one in transformers.

    ``new`` is the new version beside itself. ``missing`` and ``unexpected`` are state-dict keys
    that only the old or only the new version has, ``reshaped`` those of another shape;
    ``prompts`` and ``first`` compare with the old version, which ran under ``old_versions``.
    """

    old: str
    new: EmulationReport
    prompts: tuple[PromptResult, ...] = ()
    first: FirstDifference | None = None
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    reshaped: tuple[str, ...] = ()
    old_versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def same_keys(self) -> bool:
        """Do both versions read the same checkpoint?"""
        return not (self.missing or self.unexpected or self.reshaped)

    @property
    def same(self) -> bool:
        """The same keys and the same outputs: the new code may replace the old."""
        return (
            self.same_keys
            and self.new.outcome is not Outcome.REFUSED
            and bool(self.prompts)
            and not any(p.differs(self.new.tolerance) for p in self.prompts)
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, the new version's report inside."""
        data = asdict(self) | {"old_versions": dict(self.old_versions)}
        return {
            "schema_version": SCHEMA_VERSION,
            "evidence": "emulated",
            "same": self.same,
            **finite({key: value for key, value in data.items() if key != "new"}),
            "new": self.new.to_json(),
        }
