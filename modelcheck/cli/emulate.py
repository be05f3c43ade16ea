"""``modelcheck emulate``: would vLLM give the tokens that transformers gives?"""

from __future__ import annotations

import json
from typing import Any

import click

from modelcheck.cli.options import (
    format_option,
    json_option,
    model_type_option,
    note,
    timeout_option,
    trust_option,
)
from modelcheck.cli.targets import Target, repository
from modelcheck.errors import ExitCode, UsageError


@click.command()
@click.argument("target", required=False, metavar="[FOLDER]")
@model_type_option
@trust_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of the configuration; the value is JSON. Repeatable.",
)
@click.option(
    "--weights",
    type=click.Choice(["auto", "random", "checkpoint"]),
    default="auto",
    show_default=True,
    help="auto: the folder's safetensors up to 4 GB, else random ones.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of weights and prompts.")
@click.option(
    "--steps",
    type=click.IntRange(min=0),
    default=6,
    show_default=True,
    help="Tokens to generate after every prompt.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, min_open=True),
    default=1e-3,
    show_default=True,
    help="What a log-probability may differ by.",
)
@click.option(
    "--against",
    metavar="OLD",
    help="Compare with the code in this folder, run by transformers on the same weights.",
)
@click.option(
    "--python",
    metavar="PATH",
    help="A Python for OLD, one with an older transformers. [default: this one]",
)
@timeout_option(300.0, "Seconds after which a process is stopped.")
@click.option("--verbose", is_flag=True, help="Show what the processes print, on stderr.")
@format_option
@json_option
@repository
def emulate(
    target: Target,
    model_type: str | None,
    trust_remote_code: bool,
    settings: tuple[str, ...],
    weights: str,
    seed: int,
    steps: int,
    tolerance: float,
    against: str | None,
    python: str | None,
    timeout: float,
    verbose: bool,
    output_format: str,
    as_json: bool,
) -> int:
    """Call a model as vLLM does, without vLLM, and compare with transformers' own run.

    FOLDER has a config.json, or is hf://org/name[@revision] on the Hugging Face Hub. All
    sequences are in one row, with positions that begin anew, without a mask or a cache; first the
    prompts, then the generated tokens. Norms, experts and projections that vLLM replaces are not
    looked at: `dryrun --numerics` does that.

    Exits with 0 when the outputs are the same, with 1 when they differ or vLLM would refuse,
    with 2 when the model cannot be built or run.
    """
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.emulate import EmulateSpec, compare_runs, run

    if python is not None and against is None:
        raise UsageError("--python needs --against")
    overrides = _overrides(settings)
    build = BuildSpec(
        target.path, model_type, trust_remote_code, overrides=overrides, name=target.name
    )
    spec = EmulateSpec(build, weights, seed, steps, tolerance)
    if against is None:
        report = run(spec, timeout=timeout, verbose=verbose)
        shown, versions = report, None
    else:
        old = BuildSpec(against, None, trust_remote_code, overrides=overrides)
        versions = compare_runs(old, spec, python=python, timeout=timeout, verbose=verbose)
        shown = versions.new
    if as_json or output_format == "json":
        print(json.dumps((versions or shown).to_json(), indent=2))
    else:
        from rich.console import Console

        from modelcheck.report.emulate import render_text, render_versions

        console = Console(highlight=False)
        render_text(shown, console)
        if versions is not None:
            render_versions(versions, console)
        for message in shown.notes:
            note(message)
    same = shown.same and (versions is None or versions.same)
    return ExitCode.OK if same else ExitCode.FINDINGS


def _overrides(settings: tuple[str, ...]) -> dict[str, Any]:
    """``hidden_size=64`` as a value. Raises `UsageError` for what has no "="."""
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"--set: {setting!r} is not KEY=VALUE")
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = text
    return values
