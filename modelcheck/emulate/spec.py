"""What to emulate, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelcheck.dryrun.target import BuildSpec

STEPS = 6  # tokens generated after every prompt
TOLERANCE = 1e-3  # of a log-probability; float32 gives 1e-5, the mildest fault seen 1e-2
PROMPTS = (11, 29, 17)  # tokens; different, and longer than `WINDOW`
WINDOW = 8  # tokens; larger windows would cover the whole prompt and never be seen

WEIGHTS = ("auto", "random", "checkpoint")
LARGEST = 4_000_000_000  # bytes of a checkpoint that "auto" still reads


@dataclass(frozen=True)
class EmulateSpec:
    """A model to emulate.

    ``weights``: "random" (from ``seed``, in float32), "checkpoint" (the folder's safetensors) or
    "auto": the checkpoint where there is one of up to `LARGEST` bytes. ``steps`` tokens are
    generated after every prompt; outputs that differ by more than ``tolerance`` differ.
    """

    build: BuildSpec
    weights: str = "auto"
    seed: int = 0
    steps: int = STEPS
    tolerance: float = TOLERANCE

    def to_json(self) -> dict[str, Any]:
        """Plain data for the worker."""
        return {
            "build": self.build.to_json(),
            "weights": self.weights,
            "seed": self.seed,
            "steps": self.steps,
            "tolerance": self.tolerance,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EmulateSpec:
        """The inverse of `to_json`."""
        return cls(**{**data, "build": BuildSpec(**data["build"])})
