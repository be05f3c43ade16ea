"""``modelcheck load``: what really fuses, in an installed vLLM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from modelcheck.cli.options import (
    format_option,
    model_type_option,
    timeout_option,
    trust_option,
    vllm_python_option,
)
from modelcheck.cli.targets import Target, repository
from modelcheck.errors import ExitCode, ModelcheckError, UsageError

if TYPE_CHECKING:
    from modelcheck.dryrun.target import BuildSpec


@click.command()
@click.argument("target", required=False, metavar="[FOLDER]")
@model_type_option
@trust_option
@vllm_python_option
@click.option(
    "--device",
    type=click.Choice(["meta", "cpu", "cuda"]),
    default="meta",
    show_default=True,
    help="Where the model is built; meta needs no memory.",
)
@click.option(
    "--engine", is_flag=True, help="Start a real engine with dummy weights, make a few tokens."
)
@click.option(
    "--parity",
    is_flag=True,
    help="Compare vLLM's log-probabilities and greedy tokens with transformers' own.",
)
@click.option(
    "--tp",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Run on so many ranks too, compare with one, and show what each rank holds.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Keep the real widths and all layers, with dummy weights. Without it, a model whose "
    "weights are held in memory (--engine, --device cpu or cuda) is made narrower.",
)
@click.option("--full-depth", is_flag=True, help="Build all layers, not one of every kind.")
@timeout_option(900.0, "Seconds after which a process is stopped.")
@click.option("--verbose", is_flag=True, help="Show what vLLM prints, on stderr.")
@format_option
@repository
def load(
    target: Target,
    model_type: str | None,
    trust_remote_code: bool,
    python: str | None,
    device: str,
    engine: bool,
    parity: bool,
    tp: int,
    full: bool,
    full_depth: bool,
    timeout: float,
    verbose: bool,
    output_format: str,
) -> int:
    """Build a model in vLLM and show what really fused, beside what dryrun said.

    FOLDER has a config.json, or is hf://org/name[@revision] on the Hugging Face Hub. With
    --parity or --tp a small model with random float32 weights runs in transformers and in vLLM's
    engine instead, and the numbers are compared.

    Exits with 0 when both agree, with 1 when they differ.
    """
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.vllm.load import run_load

    depth = full_depth or full
    spec = BuildSpec(target.path, model_type, trust_remote_code, depth, name=target.name)
    if parity or tp > 1:
        if engine or full or device != "meta":
            raise UsageError(
                "--parity and --tp start an engine of their own: no --engine, --device, --full"
            )
        return _numbers(spec, parity, tp, python, timeout, verbose, output_format)
    report = run_load(
        spec,
        device=device,
        engine=engine,
        full=full,
        python=python,
        timeout=timeout,
        verbose=verbose,
    )
    if output_format == "json":
        print(json.dumps(report.to_json(), indent=2))
    else:
        from rich.console import Console

        from modelcheck.cli.options import note
        from modelcheck.report.load import render_text

        render_text(report, Console(highlight=False))
        for message in report.notes:
            note(message)
    return ExitCode.OK if report.agree else ExitCode.FINDINGS


def _numbers(
    spec: BuildSpec,
    parity: bool,
    tp: int,
    python: str | None,
    timeout: float,
    verbose: bool,
    output_format: str,
) -> int:
    from modelcheck.vllm.parity import run_parity

    (report,) = run_parity(
        [spec], tp=tp, emulate=parity, python=python, timeout=timeout, verbose=verbose
    )
    if isinstance(report, ModelcheckError):
        raise report
    if output_format == "json":
        print(json.dumps(report.to_json(), indent=2))
    else:
        from rich.console import Console

        from modelcheck.cli.options import note
        from modelcheck.report.parity import render_text

        render_text(report, Console(highlight=False))
        for message in report.notes:
            note(message)
    return ExitCode.OK if report.same else ExitCode.FINDINGS
