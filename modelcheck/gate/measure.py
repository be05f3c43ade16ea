"""What fuses in a model now, for one or several vLLM releases, by the evidence there is."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from modelcheck.dryrun.target import BuildSpec, auto_map, check_target
from modelcheck.fusers.results import ClassReport, Evidence, Fires, FusionResult
from modelcheck.gate.lock import Expectation, Key
from modelcheck.gate.source import ModelSource

TIMEOUT = 300.0  # seconds


@dataclass(frozen=True)
class Seen:
    """What one vLLM release fuses.

    ``unknown`` are the classes and (plain) fusers of which the evidence cannot tell, ``missed``
    the results of those that do not fire, where the evidence has any.
    """

    vllm: str
    fused: Mapping[Key, Expectation]
    unknown: Mapping[Key, str] = field(default_factory=dict)
    missed: tuple[FusionResult, ...] = ()

    def doubt(self, key: Key) -> str | None:
        """Why it is not known whether a class takes a fuser, whoever routes; None if it is."""
        class_name, fuser = key
        if any(e.class_name == class_name and plain(e.fuser) == plain(fuser) for e in self):
            return None
        return self.unknown.get((class_name, plain(fuser)))

    def __iter__(self) -> Iterator[Expectation]:
        return iter(self.fused.values())

    def of_class(self, class_name: str) -> list[Expectation]:
        """All that fuses in a class."""
        return [e for e in self.fused.values() if e.class_name == class_name]


@dataclass(frozen=True)
class Measurement:
    """What fuses in a model.

    ``seen`` is by release, as it was asked for. ``modules`` counts the modules of each class,
    None where the source alone was read. ``layers`` is the text model's depth.
    """

    evidence: Evidence
    transformers: str | None
    layers: int | None
    seen: Mapping[str, Seen]
    modules: Mapping[str, int] | None = None
    notes: tuple[str, ...] = ()


@dataclass
class Model:
    """A model folder, and how it may be looked at.

    ``load`` asks vLLM itself, ``static`` only reads the source; neither: torch where it is
    installed and the model's own code, if it has any, may run. ``python`` is an interpreter
    that has vLLM, ``timeout`` in seconds.
    """

    spec: BuildSpec
    load: bool = False
    static: bool = False
    python: str | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_target(self.spec)

    @cached_property
    def source(self) -> ModelSource:
        """The text of the model. Raises `UsageError` where it has none."""
        folder = self.spec.folder
        assert folder is not None, "check_target has made sure"
        return ModelSource(folder)

    @cached_property
    def loaded_by(self) -> str:
        """The vLLM release that ``load`` asks. Raises `MissingDependency` or `UsageError`."""
        from modelcheck.vllm.load import find_python, require_vllm

        return str(require_vllm(find_python(self.python))["vllm"]).partition("+")[0]

    def measure(self, releases: Sequence[str]) -> Measurement:
        """What each of the releases fuses; with ``load`` the one that is installed.

        Raises a `ModelcheckError` of one line for whatever goes wrong.
        """
        if self.load:
            return self._loaded()
        reason = self._why_static
        if not reason:
            return self._traced(releases)
        notes = () if self.static else (f"judged by the source alone: {reason}",)
        return self._predicted(releases, notes)

    @cached_property
    def _why_static(self) -> str:
        """Why the model is not built, "" where it is."""
        if self.static:
            return "as asked"
        missing = [n for n in ("torch", "transformers") if importlib.util.find_spec(n) is None]
        if missing:
            return f"{' and '.join(missing)} is not installed"
        if auto_map(self.source.config).get("AutoModel") and not self.spec.trust_remote_code:
            return "the model's own code does not run without --trust-remote-code"
        return ""

    def _traced(self, releases: Sequence[str]) -> Measurement:
        from modelcheck.dryrun.worker import MEMORY_MB, QUIET
        from modelcheck.gate.worker import JOB
        from modelcheck.worker import run_job

        answer = run_job(
            JOB,
            {"spec": self.spec.to_json(), "releases": list(releases)},
            about=self.spec.target,
            timeout=self.timeout or TIMEOUT,
            memory_mb=MEMORY_MB,
            env=QUIET,
        )
        seen = {
            release: seen_in(release, map(ClassReport.from_json, answer["classes"][release]))
            for release in releases
        }
        return Measurement(
            Evidence.TRACED,
            answer["transformers"],
            answer["layers"],
            seen,
            answer["modules"],
            tuple(answer["notes"]),
        )

    def _predicted(self, releases: Sequence[str], notes: tuple[str, ...]) -> Measurement:
        seen = {release: self._predicted_by(release) for release in releases}
        transformers = _installed("transformers")
        return Measurement(Evidence.PREDICTED, transformers, self.source.layers, seen, None, notes)

    def _predicted_by(self, release: str) -> Seen:
        fused: dict[Key, Expectation] = {}
        unknown: dict[Key, str] = {}
        for prediction in self.source.predict(release):
            for result in prediction.results:
                key = prediction.info.name, fuser_of(result)
                if result.fires is Fires.YES:
                    fused[key] = Expectation(*key, wrong=result.wrong)
                elif result.fires is Fires.UNKNOWN:
                    unknown[prediction.info.name, result.fuser] = result.reason
        return Seen(release, fused, unknown)

    def _loaded(self) -> Measurement:
        from modelcheck.vllm.load import TIMEOUT as LONG
        from modelcheck.vllm.load import run_load

        report = run_load(self.spec, python=self.python, timeout=self.timeout or LONG)
        release = str(report.versions["vllm"]).partition("+")[0]  # without the build's own mark
        said = [miss for c in report.dryrun for miss in c.missed]
        seen = seen_in(release, report.vllm)
        seen = Seen(release, seen.fused, {}, (*said, *seen.missed))
        return Measurement(
            Evidence.LOADED,
            report.versions["transformers"],
            self.source.layers,
            {release: seen},
            None,
            report.notes,
        )


def seen_in(release: str, reports: Iterable[ClassReport]) -> Seen:
    """The fusions of a built model, by class and fuser."""
    fused: dict[Key, Expectation] = {}
    unknown: dict[Key, str] = {}
    missed: list[FusionResult] = []
    for report in reports:
        names = {path.rpartition(".")[2] for path in report.paths}
        for result in report.fusions:
            key = report.class_name, fuser_of(result)
            if result.fires is not Fires.YES:
                unknown[report.class_name, result.fuser] = result.reason
                continue
            known = fused.get(key)
            fused[key] = Expectation(
                *key,
                count=report.count + (known.count or 0 if known else 0),
                names=tuple(sorted(names.union(known.names if known else ()))),
                wrong=result.wrong or (known.wrong if known else ""),
            )
        for result in report.missed:
            if result.fires is Fires.UNKNOWN:
                unknown.setdefault((report.class_name, result.fuser), result.reason)
            missed.append(result)
    return Seen(release, fused, unknown, tuple(missed))


def fuser_of(result: FusionResult) -> str:
    """The fuser's name, an MoE block's with who routes, which makes it another fusion."""
    _, routed, how = result.becomes.partition(" (")
    return f"{result.fuser} ({how}" if routed and how.endswith(" routing)") else result.fuser


def plain(fuser: str) -> str:
    """A fuser's own name: "MoEBlock (internal routing)" is "MoEBlock"."""
    return fuser.partition(" (")[0]


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_vllm() -> str | None:
    """The release of the vLLM beside this modelcheck, if there is one."""
    for name in importlib.metadata.packages_distributions().get("vllm", ()):
        return importlib.metadata.version(name)
    return None
