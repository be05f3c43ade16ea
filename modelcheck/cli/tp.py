"""``modelcheck tp``: how vLLM shards a model over ranks, without vLLM."""

from __future__ import annotations

import json

import click

from modelcheck.cli.options import (
    chosen_contract,
    format_option,
    json_option,
    model_type_option,
    note,
    timeout_option,
    trust_option,
    vllm_option,
)
from modelcheck.cli.targets import Target, repository
from modelcheck.errors import ExitCode, UsageError


@click.command()
@click.argument("target", required=False, metavar="[FOLDER]")
@model_type_option
@trust_option
@click.option(
    "--sizes",
    default="1,2,4,8",
    show_default=True,
    metavar="N,N",
    help="Tensor-parallel sizes to show.",
)
@vllm_option
@timeout_option(300.0, "Seconds after which the process is stopped.")
@click.option("--verbose", is_flag=True, help="Show what the process prints, on stderr.")
@format_option
@json_option
@repository
def tp(
    target: Target,
    model_type: str | None,
    trust_remote_code: bool,
    sizes: str,
    vllm: str | None,
    timeout: float,
    verbose: bool,
    output_format: str,
    as_json: bool,
) -> int:
    """Show how vLLM shards each linear layer over ranks, and what breaks.

    FOLDER has a config.json, or is hf://org/name[@revision] on the Hugging Face Hub. The style of
    a layer comes from a fuser, else from the model's plan, else it is replicated. Needs torch,
    not vLLM.

    Exits with 0 when every size works, with 1 when vLLM would stop or serve other numbers.
    """
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.tensor_parallel import run_tp

    chosen_contract(vllm)
    spec = BuildSpec(target.path, model_type, trust_remote_code, name=target.name)
    report = run_tp(spec, _sizes(sizes), vllm=vllm, timeout=timeout, verbose=verbose)
    if as_json or output_format == "json":
        print(json.dumps(report.to_json(), indent=2))
    else:
        from rich.console import Console

        from modelcheck.report.tp import render_text

        render_text(report, Console(highlight=False))
        for message in report.notes:
            note(message)
    return ExitCode.FINDINGS if report.breaks else ExitCode.OK


def _sizes(text: str) -> list[int]:
    """ "1,2" as numbers. Raises `UsageError`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise UsageError(f"--sizes: {text!r} is not a list of numbers such as 1,2,4,8")
    return [int(part) for part in parts]
