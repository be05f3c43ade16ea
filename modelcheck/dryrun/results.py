"""What a dry run found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelcheck.errors import UsageError
from modelcheck.fusers.results import ClassReport

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class DryrunReport:
    """The fusers of one model, class by class, as traced on the meta device.

    ``vllm`` is the release whose contract was used. Counts and paths are those of the built
    model: ``built_depth`` of ``total_depth`` layers of the text model, both None where its
    configuration names no depth.
    """

    target: str
    model_class: str
    vllm: str
    transformers: str
    torch: str
    classes: tuple[ClassReport, ...]
    built_depth: int | None = None
    total_depth: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def missed(self) -> tuple[ClassReport, ...]:
        """The classes that look like a pattern and do not match it."""
        return tuple(report for report in self.classes if report.missed)

    @property
    def wrong(self) -> tuple[ClassReport, ...]:
        """The classes that fuse with other numbers."""
        return tuple(r for r in self.classes if any(f.wrong for f in r.fusions))

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "evidence": "traced",
            "target": self.target,
            "model_class": self.model_class,
            "vllm": self.vllm,
            "transformers": self.transformers,
            "torch": self.torch,
            "built_depth": self.built_depth,
            "total_depth": self.total_depth,
            "notes": list(self.notes),
            "classes": [report.to_json() for report in self.classes],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DryrunReport:
        """The inverse of `to_json`. Raises `UsageError` for another schema version."""
        version = data.get("schema_version")
        if version != SCHEMA_VERSION:
            raise UsageError(f"dryrun report: schema {version!r}, not {SCHEMA_VERSION}")
        return cls(
            target=data["target"],
            model_class=data["model_class"],
            vllm=data["vllm"],
            transformers=data["transformers"],
            torch=data["torch"],
            classes=tuple(ClassReport.from_json(report) for report in data["classes"]),
            built_depth=data["built_depth"],
            total_depth=data["total_depth"],
            notes=tuple(data["notes"]),
        )
