"""What changed between two vLLM releases, in an author's words."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, dataclass
from typing import Any

from packaging.version import Version

from modelcheck.fusers.contract import Contract, Effect
from modelcheck.fusers.contract_data import FUSER_WORDS, TOPICS

PLAIN = ("version", "transformers", "torch", "python", "fusers")  # fields that are no behaviour


@dataclass(frozen=True)
class Difference:
    """One line: ``area`` is "fusers", "attention", "MoE routing", "versions" or another topic."""

    area: str
    effect: Effect
    sentence: str

    def to_json(self) -> dict[str, str]:
        """Plain data for JSON."""
        return {key: str(value) for key, value in asdict(self).items()}


def differences(old: Contract, new: Contract) -> tuple[Difference, ...]:
    """All that differs for an author who goes from ``old`` to ``new`` (either may be newer)."""
    return (*_versions(old, new), *matcher_differences(old, new), *_topics(old, new))


def matcher_differences(old: Contract, new: Contract) -> tuple[Difference, ...]:
    """What differs in the contract that matchers and rules judge by."""
    return (*_fusers(old, new), *_flags(old, new))


def behaviours() -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a contract that matchers and rules ask for."""
    return tuple(f for f in dataclasses.fields(Contract) if f.name not in PLAIN)


def _versions(old: Contract, new: Contract) -> list[Difference]:
    return [
        Difference("versions", Effect.CHANGED, f"{name} {after} (before: {before})")
        for name in ("transformers", "torch", "python")
        if (before := getattr(old, name)) != (after := getattr(new, name))
    ]


def _fusers(old: Contract, new: Contract) -> list[Difference]:
    return [
        Difference("fusers", effect, f"{name}: {FUSER_WORDS[name]}")
        for effect, here, there in (
            (Effect.FUSED, new, old),
            (Effect.UNFUSED, old, new),
        )
        for name in here.fusers
        if name not in there.fusers
    ]


def _flags(old: Contract, new: Contract) -> list[Difference]:
    changed = [f for f in behaviours() if getattr(old, f.name) != getattr(new, f.name)]
    lines = []
    for field in changed:
        value, words = getattr(new, field.name), field.metadata
        gained = _is_gain(getattr(old, field.name), value)
        shown = ", ".join(value) if isinstance(value, tuple) else value
        lines.append(
            Difference(
                words["about"],
                words["effect" if gained else "reverse"],
                words["gained" if gained else "lost"].format(new=shown),
            )
        )
    return lines


def _is_gain(old: Any, new: Any) -> bool:
    """Of a flag, being set; of a list, being longer; of a name, any change."""
    if isinstance(new, bool):
        return new
    return len(new) > len(old) if isinstance(new, tuple) else True


def _topics(old: Contract, new: Contract) -> list[Difference]:
    before, after = Version(old.version).release[:2], Version(new.version).release[:2]
    lines = []
    for topic in TOPICS:
        had, has = topic.holds(before), topic.holds(after)
        if has and not had:
            lines.append(Difference(topic.name, topic.effect, topic.gained))
        elif had and not has:
            lines.append(Difference(topic.name, topic.reverse, topic.lost))
    return lines
