"""``modelcheck gate``: what fuses, against what is recorded in modelcheck.lock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelcheck.cli.options import (
    chosen_contract,
    chosen_contracts,
    chosen_transformers,
    note,
    split_codes,
)
from modelcheck.cli.targets import Target, repository
from modelcheck.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from modelcheck.gate.lock import Lock
    from modelcheck.gate.measure import Model


@click.command()
@click.argument("target", metavar="FOLDER")
@click.option("--update", is_flag=True, help="Record what fuses now.")
@click.option("--lock", metavar="FILE", help="[default: modelcheck.lock in FOLDER]")
@click.option(
    "--vllm",
    metavar="VERSION",
    help="Judge by this vLLM release. [default: the installed one, else the lock's]",
)
@click.option(
    "--matrix", metavar="VERSIONS", help="Judge by each of these vLLM releases: 0.28,0.30,0.33."
)
@click.option(
    "--transformers",
    metavar="VERSIONS",
    help="Give the verdict for each of these transformers releases too: 5.16,5.19.",
)
@click.option(
    "--trust-remote-code",
    is_flag=True,
    help="Run the model's own code, in a separate process and offline; without, it is read only.",
)
@click.option("--static", is_flag=True, help="Judge by the source alone, even where torch is.")
@click.option("--load", is_flag=True, help="Ask vLLM itself.")
@click.option(
    "--python",
    metavar="PATH",
    help="For --load: a Python that has vLLM. [default: $MODELCHECK_VLLM_PYTHON, else this one]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds after which a process is stopped. [default: 300, with --load 900]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@repository
def gate(
    target: Target,
    update: bool,
    lock: str | None,
    vllm: str | None,
    matrix: str | None,
    transformers: str | None,
    trust_remote_code: bool,
    static: bool,
    load: bool,
    python: str | None,
    timeout: float | None,
    as_json: bool,
) -> int:
    """Fail when a class fuses less than modelcheck.lock says.

    FOLDER has a config.json, or is hf://org/name[@revision] on the Hugging Face Hub. Exits with 1
    when something is lost, with 2 when a recorded fusion could not be checked; what fuses more is
    only noted.
    """
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.gate import lock as locks
    from modelcheck.gate.measure import Model

    for wrong, message in (
        (load and static, "--load and --static exclude each other"),
        (load and vllm, "--load asks the installed vLLM, not --vllm"),
        (load and matrix, "--load asks the installed vLLM, not --matrix"),
        (vllm and matrix, "--vllm and --matrix exclude each other"),
        (update and matrix, "--update records one vLLM release, not --matrix"),
        (update and transformers, "--update records what is in use, not --transformers"),
        (python and not load, "--python needs --load"),
    ):
        if wrong:
            raise UsageError(message)
    if target.snapshot is not None and lock is None:
        raise UsageError(f"{target.snapshot.uri} needs --lock FILE, which names a file here")
    spec = BuildSpec(target.path, None, trust_remote_code, full_depth=True, name=target.name)
    known = _releases(vllm, matrix)
    path = Path(lock) if lock is not None else (spec.folder or Path()) / locks.NAME
    model = Model(spec, load, static, python, timeout)
    recorded = None if update else locks.read(path)
    if recorded is None:
        return _update(model, path, known, as_json)
    return _check(model, recorded, known, _transformers(transformers), as_json)


def _releases(vllm: str | None, matrix: str | None) -> list[str]:
    """The releases asked for, oldest first; none when none is named."""
    if matrix is not None:
        named = split_codes((matrix,))
        if not named:
            raise UsageError("--matrix names no vLLM release, try 0.28,0.30,0.33")
        return [contract.version for contract in chosen_contracts(named)]
    return [chosen_contract(vllm).version] if vllm is not None else []


def _transformers(named: str | None) -> list[str]:
    """The transformers releases asked for, oldest first."""
    from packaging.version import Version

    if named is None:
        return []
    found = {str(chosen_transformers(part)) for part in split_codes((named,))}
    if not found:
        raise UsageError("--transformers names no release, try 5.16,5.19")
    return sorted(found, key=Version)


def _default(model: Model, recorded: Lock | None) -> str:
    """The release to judge by when none is named."""
    from modelcheck.fusers.contract import newest
    from modelcheck.gate.measure import installed_vllm

    if model.load:
        return model.loaded_by
    installed = installed_vllm()
    if installed is not None:
        return chosen_contract(installed).version
    return chosen_contract(recorded.vllm if recorded is not None else newest().version).version


def _update(model: Model, path: Path, known: list[str], as_json: bool) -> int:
    from modelcheck.gate import lock as locks
    from modelcheck.gate.check import record
    from modelcheck.report.model import plural

    (release,) = known or [_default(model, None)]
    recorded, notes = record(model, release)
    locks.write(path, recorded)
    for message in notes:
        note(message)
    count = len(recorded.expectations)
    if as_json:
        facts = {"vllm": recorded.vllm, "evidence": str(recorded.evidence), "fusions": count}
        print(json.dumps({"schema_version": 1, "lock": str(path), **facts}, indent=2))
    else:
        many = plural(count, "fusion")
        print(f"{path}: {many} recorded for vLLM {recorded.vllm}; {recorded.evidence}")
    return ExitCode.OK


def _check(
    model: Model, recorded: Lock, known: list[str], transformers: list[str], as_json: bool
) -> int:
    from modelcheck.gate.check import check, to_json

    report = check(model, recorded, known or [_default(model, recorded)], transformers)
    if as_json:
        print(json.dumps(to_json(report), indent=2))
    else:
        from rich.console import Console

        from modelcheck.report.gate import render_text

        render_text(report, Console(highlight=False))
    for message in report.notes:
        note(message)
    if report.fails:
        return ExitCode.FINDINGS
    return ExitCode.USAGE if report.undecided else ExitCode.OK
