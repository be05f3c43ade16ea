"""Is a model repository fit to be published? All the evidence there is, and one verdict.

    publication = check(BuildSpec("repo", trust_remote_code=True), [contract_for("0.33")])
    publication.fit, publication.line

``scan`` reads the source, ``dryrun`` builds the model without weights, ``load`` has an installed
vLLM build it. What could not be run is a part of the result like any other, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from modelcheck.dryrun.target import BUILT_BY, BuildSpec, auto_map, check_target
from modelcheck.errors import BuildError, ExitCode, MissingDependency, UsageError, WorkerError
from modelcheck.fusers.contract import Contract, contract_for
from modelcheck.fusers.results import ClassReport, Fires
from modelcheck.gate.measure import plain
from modelcheck.publish_result import UNKNOWN, Part, Publication
from modelcheck.releases import ReleaseScanner
from modelcheck.report.model import Report
from modelcheck.scan import ScanResult
from modelcheck.source.discovery import modeling_files
from modelcheck.source.repo import CONFIG, read_config
from modelcheck.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from modelcheck.vllm.load import LoadReport

REFUSES = "vLLM refuses the model"  # what `modelcheck.vllm.refusal` begins with


@dataclass(frozen=True)
class Ways:
    """Which evidence is wanted, and how. ``timeout`` is in seconds, for each process."""

    dryrun: bool = True
    load: bool = True
    python: str | None = None  # one that has vLLM
    timeout: float | None = None


def check(
    spec: BuildSpec,
    contracts: Sequence[Contract] = (),
    *,
    transformers: str | None = None,
    ways: Ways | None = None,
    strict: bool = False,
) -> Publication:
    """Check a repository by all evidence that can be had here.

    ``contracts`` are the releases to judge by: that of the vLLM that is asked by default, else
    the newest known. Raises a `ModelcheckError` of one line for a folder that is no model
    repository, for a Python that was named and has no vLLM, and for faults of modelcheck's own.
    """
    ways = ways or Ways()
    check_target(BuildSpec(spec.path, name=spec.name))  # its code is judged, not required
    untrusted = _untrusted(spec)
    python, release, reason = _vllm(ways, untrusted)
    contracts = contracts or (contract_for(release or None),)
    scanned, report = _scan(spec, contracts, transformers)
    dry = [_dryrun(spec, contract.version, ways, untrusted) for contract in contracts]
    if python:
        loaded, notes = _load(spec, python, release, ways)
    else:
        loaded, notes = Part("load", "", None, reason), ()
    releases = tuple(contract.version for contract in contracts)
    notes = (*map(str, report.unreadable), *notes)
    return Publication(spec.target, releases, (*scanned, *dry, loaded), report, strict, notes)


def _vllm(ways: Ways, untrusted: str) -> tuple[str, str, str]:
    """The Python with the vLLM to ask and its release, or "" twice and why there is none."""
    from modelcheck.vllm.load import find_python, require_vllm

    if reason := untrusted if ways.load else "--no-load":
        return "", "", reason
    try:
        python = find_python(ways.python)
    except MissingDependency as error:
        return "", "", str(error)
    return python, str(require_vllm(python)["vllm"]).partition("+")[0], ""


def _untrusted(spec: BuildSpec) -> str:
    """Why nothing of the model may run, "" where it may."""
    assert spec.folder is not None, "check_target has made sure"
    entries = auto_map(read_config(spec.folder / CONFIG)[1])
    own = any(entries.get(name) for name in BUILT_BY)
    if own and not spec.trust_remote_code:
        return "the model's own code runs with --trust-remote-code only"
    return ""


def _scan(
    spec: BuildSpec, contracts: Sequence[Contract], transformers: str | None
) -> tuple[list[Part], Report]:
    """The verdict on what lies in the folder itself, release by release, and the findings."""
    assert spec.folder is not None, "check_target has made sure"
    folder = str(spec.folder)
    config = os.path.join(folder, CONFIG)
    references = auto_map(read_config(spec.folder / CONFIG)[1]).values()
    files = modeling_files(folder, [r for r in references if isinstance(r, str)])
    scanner = ReleaseScanner(contracts, None, transformers)
    result = scanner.scan([config, *files])
    verdicts = scanner.verdicts(result)
    parts = [_judged(verdict) for verdict in verdicts]
    if not files:
        parts = [
            part if part.outcome is not UNKNOWN else _of_transformers(spec, contract, transformers)
            for part, contract in zip(parts, contracts, strict=True)
        ]
    return parts, _report(result, scanner)


def _judged(verdict: Verdict, whose: str = "") -> Part:
    detail = verdict.text.removeprefix(str(verdict.outcome)).removeprefix(": ")
    detail = f"{whose}: {detail}" if whose and detail else whose or detail
    open_fusions = bool(verdict.undecided) and verdict.outcome is UNKNOWN
    return Part("scan", verdict.vllm, verdict.outcome, detail, yields=open_fusions)


def _of_transformers(spec: BuildSpec, contract: Contract, transformers: str | None) -> Part:
    """For a repository without code: the verdict on the file of transformers that it uses."""
    from modelcheck.gate.source import ModelSource

    assert spec.folder is not None, "check_target has made sure"
    try:
        (file,) = ModelSource(spec.folder).repo.files
    except (UsageError, MissingDependency) as error:
        return Part("scan", contract.version, UNKNOWN, f"no code here: {error}", yields=True)
    scanner = ReleaseScanner([contract], None, transformers)
    result = scanner.scan([file.path])
    (verdict,) = scanner.verdicts(result)
    return _judged(verdict, f"{os.path.basename(file.path)} of transformers")


def _report(result: ScanResult, scanner: ReleaseScanner) -> Report:
    return Report(
        tuple(scanner.with_releases(f) for f in result.findings),
        result.unreadable,
        result.files,
        ", ".join(contract.version for contract in scanner.contracts),
    )


def _dryrun(spec: BuildSpec, release: str, ways: Ways, untrusted: str) -> Part:
    from modelcheck.dryrun.worker import TIMEOUT, run_dryrun
    from modelcheck.report.fusion import heading, summary

    if reason := untrusted if ways.dryrun else "--no-dryrun":
        return Part("dryrun", release, None, reason)
    try:
        report = run_dryrun(spec, vllm=release, timeout=ways.timeout or TIMEOUT)
    except MissingDependency as error:
        return Part("dryrun", release, None, str(error))
    except (BuildError, WorkerError) as error:
        return _failed("dryrun", release, error, spec)
    detail = f"{summary(report)} ({heading(report)})"
    return Part(
        "dryrun",
        release,
        outcome_of(report.classes),
        detail,
        tuple(remarks(report.classes)),
        report.classes,
    )


def _load(spec: BuildSpec, python: str, release: str, ways: Ways) -> tuple[Part, tuple[str, ...]]:
    from modelcheck.report.load import heading, summary
    from modelcheck.vllm.load import TIMEOUT, run_load

    try:
        report = run_load(spec, python=python, timeout=ways.timeout or TIMEOUT)
    except (BuildError, WorkerError) as error:
        return _failed("load", release, error, spec), ()
    outcome, said = _of_loaded(report)
    detail = f"{summary(report)} ({heading(report)})"
    notes = (*(f"vLLM warns: {text}" for text in report.warnings), *report.notes)
    return Part("load", release, outcome, detail, said, report.vllm), notes


def _of_loaded(report: LoadReport) -> tuple[Outcome, tuple[str, ...]]:
    """What vLLM's deed comes to; the reasons are dryrun's, as vLLM gives none."""
    fired = {(row.class_name, plain(fuser)) for row in report.comparisons for fuser in row.vllm}
    said = [
        (c, result)
        for c in report.dryrun
        for result in (*c.fusions, *c.missed)
        if bool(result.wrong) is ((c.class_name, result.fuser) in fired)
    ]
    wrong = [c for c, result in said if result.wrong]
    lost = [replace(c, fusions=(result,), missed=()) for c, result in said]
    lines = remarks(lost) + [
        f"{row.class_name}: {fuser}: dryrun said that it fuses, and vLLM does not"
        for row in report.comparisons
        for fuser in sorted(set(row.dryrun) - set(row.vllm) - set(row.undecided))
    ]
    if wrong:
        return Outcome.WRONG, tuple(lines)
    return Outcome.UNFUSED if lines else Outcome.FUSED, tuple(lines)


def _failed(command: str, release: str, error: BuildError | WorkerError, spec: BuildSpec) -> Part:
    """A part that came to no end, which leaves it open unless vLLM itself has refused."""
    if error.exit_code == ExitCode.INTERNAL:
        raise error
    text = str(error).removeprefix(f"{spec.target}: ")
    refused = command == "load" and REFUSES in text
    return Part(command, release, Outcome.REFUSED if refused else UNKNOWN, text)


def outcome_of(classes: Iterable[ClassReport]) -> Outcome:
    """What the fusers of a built model come to, for a model that vLLM takes."""
    results = [result for c in classes for result in (*c.fusions, *c.missed)]
    if any(result.wrong for result in results):
        return Outcome.WRONG
    if any(result.fires is Fires.NO for result in results):
        return Outcome.UNFUSED
    if any(result.fires is Fires.UNKNOWN for result in results):
        return UNKNOWN
    return Outcome.FUSED


def remarks(classes: Iterable[ClassReport]) -> list[str]:
    """``XMLP: GLU: line 12: the reason`` for what does not fuse, or fuses wrongly."""
    from modelcheck.report.fusion import outcome

    lines = [
        f"{c.class_name}: {result.fuser}: {result.wrong or outcome(result)}"
        for c in classes
        for result in (*c.fusions, *c.missed)
        if result.wrong or result.fires is not Fires.YES
    ]
    return list(dict.fromkeys(lines))
