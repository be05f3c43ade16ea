"""``modelcheck contract``: the known vLLM releases, and what changed between two."""

from __future__ import annotations

import json

import click

from modelcheck.cli.options import format_option
from modelcheck.errors import ExitCode, UsageError
from modelcheck.fusers.contract import Contract, contract_for, is_newer, known_releases

SCHEMA = 1


@click.command()
@click.option(
    "--diff",
    nargs=2,
    metavar="OLD NEW",
    help="Say what changed between two releases, e.g. --diff 0.29 0.33.",
)
@format_option
def contract(diff: tuple[str, str] | None, output_format: str) -> int:
    """List the vLLM releases that modelcheck knows, with their fusers and requirements."""
    if diff is not None:
        return _diff(_known(diff[0]), _known(diff[1]), output_format)
    if output_format == "json":
        releases = [_data(release) for release in known_releases()]
        print(json.dumps({"schema_version": SCHEMA, "releases": releases}, indent=2))
        return ExitCode.OK
    from rich.console import Console

    from modelcheck.report.contract import render_releases

    render_releases(known_releases(), Console(highlight=False))
    return ExitCode.OK


def _known(version: str) -> Contract:
    found = contract_for(version)
    if is_newer(version):
        raise UsageError(f"--diff: vLLM {version} is not known yet, the newest is {found.version}")
    return found


def _data(release: Contract) -> dict[str, object]:
    return {
        "vllm": release.version,
        "fusers": list(release.fusers),
        "transformers": release.transformers,
        "torch": release.torch,
        "python": release.python,
    }


def _diff(old: Contract, new: Contract, output_format: str) -> int:
    from modelcheck.fusers.contract_diff import differences

    found = differences(old, new)
    if output_format == "json":
        lines = [difference.to_json() for difference in found]
        whole = {"schema_version": SCHEMA, "old": old.version, "new": new.version}
        print(json.dumps({**whole, "differences": lines}, indent=2))
        return ExitCode.OK
    from rich.console import Console

    from modelcheck.report.contract import render_differences

    render_differences(old, new, found, Console(highlight=False))
    return ExitCode.OK
