"""A lock against what fuses now: what is lost, why, where, and since which vLLM release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from modelcheck.fusers import moe
from modelcheck.fusers.contract import Contract, contract_for, known_releases
from modelcheck.fusers.results import Evidence, Fires
from modelcheck.gate.lock import Expectation, Lock
from modelcheck.gate.measure import Measurement, Model, Seen, plain
from modelcheck.gate.source import Place
from modelcheck.releases import ReleaseScanner
from modelcheck.verdict import Outcome, Verdict

ATTENTION = "Attention"
GRAVE = (Outcome.TP1, Outcome.WRONG, Outcome.REFUSED)  # gravest last


@dataclass(frozen=True)
class Lost:
    """A fusion that is less than recorded.

    ``was`` and ``now`` count modules, None where the evidence only tells whether; ``names`` are
    the attributes whose modules no longer fuse. ``since`` says which vLLM release changed it, ""
    where the model did.
    """

    class_name: str
    fuser: str
    was: int | None
    now: int | None
    reason: str
    place: Place | None = None
    since: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gained:
    """A fusion that is more than recorded; ``was`` is 0 for a new one."""

    class_name: str
    fuser: str
    was: int | None
    now: int | None


@dataclass(frozen=True)
class Undecided:
    """A recorded fusion of which the evidence cannot tell whether it still is."""

    class_name: str
    fuser: str
    reason: str


@dataclass(frozen=True)
class Check:
    """What one vLLM release makes of a model, against a lock.

    ``worse`` says that the verdict has become a grave one, "" where not; ``fits`` whether the
    ``wanted`` range of this vLLM release has the transformers release that was looked at, or
    the one that the verdict is for (``transformers``, "" where none was asked for).
    """

    vllm: str
    transformers: str
    wanted: str
    fits: bool
    verdict: str
    expected: int
    lost: tuple[Lost, ...] = ()
    gained: tuple[Gained, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    worse: str = ""

    @property
    def fails(self) -> bool:
        """Is there less than recorded?"""
        return bool(self.lost or self.worse)


@dataclass(frozen=True)
class GateReport:
    """A lock and the releases that it was checked for, oldest first."""

    target: str
    lock: Lock
    evidence: Evidence
    transformers: str | None
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Does any release fuse less than recorded?"""
        return any(check.fails for check in self.checks)

    @property
    def undecided(self) -> bool:
        """Is there an expectation that could not be checked?"""
        return any(check.undecided for check in self.checks)


def record(model: Model, release: str) -> tuple[Lock, tuple[str, ...]]:
    """What is to be recorded of a model for a vLLM release, and notes on how it was found."""
    measured = model.measure([release])
    (seen,) = measured.seen.values()
    verdict = verdicts(model, [contract_for(seen.vllm)])[contract_for(seen.vllm).version]
    return (
        Lock(
            seen.vllm,
            measured.transformers,
            model.source.model_type,
            measured.layers,
            measured.evidence,
            str(verdict.outcome),
            tuple(sorted(seen.fused.values(), key=lambda e: e.key)),
        ),
        measured.notes,
    )


def check(
    model: Model, lock: Lock, releases: Sequence[str], transformers: Sequence[str] = ()
) -> GateReport:
    """Check a lock for several vLLM releases. Raises a `ModelcheckError` of one line.

    The verdict is given for each of the ``transformers`` releases too, none of which need be
    installed: the scan knows what each of them removed. What fuses is told from the one in use.
    """
    walks = {release: walk(lock.vllm, release) for release in releases}
    between = [r for path in walks.values() for r in path]
    asked = list(dict.fromkeys([*releases, *between]))
    measured = model.measure(asked)
    history = measured
    if model.load and any(walks.values()):
        # vLLM itself speaks for one release only; where a loss began, the contracts tell.
        history = Model(model.spec, static=model.static).measure(asked)
    contracts = [contract_for(release) for release in releases]
    judged = {other: verdicts(model, contracts, other) for other in transformers or (None,)}
    checks = tuple(
        _Comparison(model, lock, measured, measured.seen[release], history, walks[release]).check(
            judged[other][contract_for(release).version], other
        )
        for release in releases
        for other in judged
    )
    notes = [*measured.notes]
    if lock.evidence is not measured.evidence:
        notes.append(f"recorded as {lock.evidence}, now {measured.evidence}")
    return GateReport(
        model.spec.target, lock, measured.evidence, measured.transformers, checks, tuple(notes)
    )


def walk(start: str, end: str) -> tuple[str, ...]:
    """The known releases from one to another, both included; none when they are the same."""
    first, last = contract_for(start), contract_for(end)
    known = list(known_releases())
    a, b = known.index(first), known.index(last)
    if a == b:
        return ()
    step = 1 if b > a else -1
    return tuple(contract.version for contract in (*known[a:b:step], last))


def verdicts(
    model: Model, contracts: Sequence[Contract], transformers: str | None = None
) -> Mapping[str, Verdict]:
    """The scan's verdict on a model, by vLLM release."""
    ordered = sorted({c.version: c for c in contracts}.values(), key=lambda c: Version(c.version))
    scanner = ReleaseScanner(ordered, transformers=transformers)
    folder = str(model.spec.folder)
    result = scanner.scan([folder])
    found = {verdict.vllm: verdict for verdict in scanner.verdicts(result)}
    return {
        c.version: found.get(c.version) or Verdict(folder, c.version, Outcome.UNKNOWN)
        for c in ordered
    }


@dataclass(frozen=True)
class _Comparison:
    """One release: what is ``seen`` there, and what the releases of ``path`` fuse."""

    model: Model
    lock: Lock
    measured: Measurement
    seen: Seen
    history: Measurement
    path: tuple[str, ...]

    def check(self, verdict: Verdict, asked: str | None) -> Check:
        contract = contract_for(self.seen.vllm)
        transformers = asked or self.measured.transformers
        fits = transformers is None or SpecifierSet(contract.transformers).contains(
            transformers, prereleases=True
        )
        return Check(
            vllm=self.seen.vllm,
            transformers=asked or "",
            wanted=contract.transformers,
            fits=fits,
            verdict=str(verdict.outcome),
            expected=len(self.lock.expectations),
            lost=tuple(self.lost()),
            gained=tuple(self.gained()),
            undecided=tuple(self.undecided()),
            worse=self.worse(verdict),
        )

    def worse(self, verdict: Verdict) -> str:
        grave = list(map(str, GRAVE))
        before = grave.index(self.lock.verdict) if self.lock.verdict in grave else -1
        now = grave.index(str(verdict.outcome)) if verdict.outcome in GRAVE else -1
        return verdict.text if now > before else ""

    def lost(self) -> Iterator[Lost]:
        for expected in self.lock.expectations:
            now = self.seen.fused.get(expected.key)
            if self.seen.doubt(expected.key) is not None:
                continue
            if now is None or _less(now.count, expected.count):
                yield self._lost(expected, now)
            elif now.wrong and not expected.wrong:
                reason = f"it fuses with other numbers: {now.wrong}"
                place = self.model.source.place(expected.class_name, None)
                yield Lost(*expected.key, expected.count, now.count, reason, place)

    def gained(self) -> Iterator[Gained]:
        for key, now in self.seen.fused.items():
            expected = self.lock.expectation(key)
            if expected is None:
                yield Gained(*key, 0, now.count)
            elif _less(expected.count, now.count):
                yield Gained(*key, expected.count, now.count)

    def undecided(self) -> Iterator[Undecided]:
        for expected in self.lock.expectations:
            reason = self.seen.doubt(expected.key)
            if reason is not None:
                yield Undecided(*expected.key, reason)

    def _lost(self, expected: Expectation, now: Expectation | None) -> Lost:
        gone = set(expected.names) - set(now.names) if now is not None else set()
        reason, place = self._why(expected, now)
        instead = self._instead(expected) if now is None else ""
        return Lost(
            *expected.key,
            was=expected.count,
            now=now.count if now is not None else 0,
            reason=f"{reason}; {instead}" if instead else reason,
            place=place,
            since=self._since(expected),
            names=tuple(sorted(gone)),
        )

    def _why(self, expected: Expectation, now: Expectation | None) -> tuple[str, Place | None]:
        """Why a fusion is less, and the line that is to blame."""
        source, (name, fuser) = self.model.source, expected.key
        kind = plain(fuser)
        contract = contract_for(self.seen.vllm)
        place = source.place(name, None)
        modules = self.measured.modules
        if place is None and source.known:
            return f"the model has no class {name} any more", None
        if modules is not None and name not in modules:
            return f"the model builds no {name} any more", place
        if kind not in (*contract.fusers, moe.NAME):
            reason = f"vLLM {contract.version} has no {kind} fuser"
            if kind == ATTENTION and contract.state_in_kwargs:
                reason += "; its attention is reached through **kwargs instead"
            return reason, place
        if now is not None and modules is not None and now.count == modules[name]:
            return self._fewer(modules[name]), place
        said = source.result(name, kind, contract.version) if source.known else None
        if said is not None and said.fires is Fires.NO and said.reason:
            return said.reason, source.place(name, said.span.line if said.span else None)
        for miss in self.seen.missed:
            if (miss.class_name, miss.fuser) == (name, kind) and miss.reason:
                return miss.reason, source.place(name, miss.span.line if miss.span else None)
        reason = said.reason if said is not None else ""
        return reason or "it is not known why", place

    def _instead(self, expected: Expectation) -> str:
        """What else the class fuses as now."""
        mine = self.seen.of_class(expected.class_name)
        others = [e.fuser for e in mine if self.lock.expectation(e.key) is None]
        return f"it fuses as {', '.join(others)} instead" if others else ""

    def _fewer(self, modules: int) -> str:
        was, layers = self.lock.layers, self.measured.layers
        if was is not None and layers is not None and layers != was:
            return f"the model has {layers} layers, and {was} are recorded"
        return f"the model has only {modules} of them, and all fuse"

    def _since(self, expected: Expectation) -> str:
        """The release that changed it, on the way from the lock's to the one asked for."""
        fused = [self._fuses(expected, release) for release in self.path]
        if not fused or not fused[0] or all(fused):
            return ""  # not even the lock's own release fuses it: the model changed
        lost = fused.index(False)
        if Version(self.path[-1]) > Version(self.path[0]):
            return f"lost since vLLM {self.path[lost]}"
        return f"vLLM fuses it since {self.path[lost - 1]}"

    def _fuses(self, expected: Expectation, release: str) -> bool:
        now = self.history.seen[release].fused.get(expected.key)
        return now is not None and not _less(now.count, expected.count)


def _less(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def to_json(report: GateReport) -> dict[str, Any]:
    """Plain data for JSON, with the schema's version."""
    lock = report.lock
    return {
        "schema_version": 1,
        "target": report.target,
        "ok": not report.fails and not report.undecided,
        "evidence": str(report.evidence),
        "transformers": report.transformers,
        "lock": {
            "path": lock.path,
            "vllm": lock.vllm,
            "transformers": lock.transformers,
            "model_type": lock.model_type,
            "layers": lock.layers,
            "evidence": str(lock.evidence),
            "verdict": lock.verdict,
        },
        "releases": [_check_json(check) for check in report.checks],
        "notes": list(report.notes),
    }


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "vllm": check.vllm,
        "transformers": check.transformers or None,
        "transformers_wanted": check.wanted,
        "transformers_fits": check.fits,
        "verdict": check.verdict,
        "verdict_worse": check.worse or None,
        "expected": check.expected,
        "lost": [
            {
                "class_name": lost.class_name,
                "fuser": lost.fuser,
                "was": lost.was,
                "now": lost.now,
                "names": list(lost.names),
                "reason": lost.reason,
                "path": lost.place.path if lost.place else None,
                "line": lost.place.line if lost.place else None,
                "since": lost.since or None,
            }
            for lost in check.lost
        ],
        "gained": [vars(gained) for gained in check.gained],
        "undecided": [vars(undecided) for undecided in check.undecided],
    }
