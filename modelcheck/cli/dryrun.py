"""``modelcheck dryrun``: which fusers fire, by torch.fx on the meta device."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from modelcheck.cli.options import (
    chosen_contract,
    format_option,
    model_type_option,
    note,
    timeout_option,
    trust_option,
    vllm_option,
)
from modelcheck.cli.targets import Target, repository
from modelcheck.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from modelcheck.dryrun.target import BuildSpec


@click.command()
@click.argument("target", required=False, metavar="[FOLDER]")
@model_type_option
@trust_option
@vllm_option
@click.option(
    "--tp",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Tensor-parallel size to judge by.",
)
@click.option("--full-depth", is_flag=True, help="Build all layers, not one of every kind.")
@click.option("--show-graph", metavar="CLASS", help="Print the traced graphs of a class instead.")
@click.option(
    "--numerics",
    is_flag=True,
    help="Also run norms and MoE blocks against what replaces them, on random weights.",
)
@click.option("--fail-on-missed", is_flag=True, help="Exit with 1 when a fusion is missed.")
@timeout_option(300.0, "Seconds after which the build is stopped.")
@format_option
@repository
def dryrun(
    target: Target,
    model_type: str | None,
    trust_remote_code: bool,
    vllm: str | None,
    tp: int,
    full_depth: bool,
    show_graph: str | None,
    numerics: bool,
    fail_on_missed: bool,
    timeout: float,
    output_format: str,
) -> int:
    """Build a model without weights and show which fusers fire, class by class.

    FOLDER has a config.json, or is hf://org/name[@revision] on the Hugging Face Hub. Exits with 0
    when the dry run ran, whatever is missed; with 1 when a fusion changes the numbers.
    """
    from modelcheck.dryrun.target import BuildSpec

    if show_graph is not None and fail_on_missed:
        raise UsageError("--show-graph and --fail-on-missed exclude each other")
    chosen_contract(vllm)
    spec = BuildSpec(target.path, model_type, trust_remote_code, full_depth, name=target.name)
    if show_graph is not None:
        return _graphs(spec, show_graph, vllm, timeout, output_format)
    return _report(spec, vllm, tp, timeout, output_format, fail_on_missed, numerics)


def _graphs(
    spec: BuildSpec, class_name: str, vllm: str | None, timeout: float, output_format: str
) -> int:
    from modelcheck.dryrun.worker import show_graphs

    graphs = show_graphs(spec, class_name, vllm=vllm, timeout=timeout)
    if not graphs:
        raise UsageError(f"--show-graph: {spec.target} has no module of a class {class_name}")
    if output_format == "json":
        print(json.dumps({"class_name": class_name, "graphs": graphs}, indent=2))
    else:
        print("\n\n".join(graphs))
    return ExitCode.OK


def _report(
    spec: BuildSpec,
    vllm: str | None,
    tp: int,
    timeout: float,
    output_format: str,
    fail_on_missed: bool,
    numerics: bool,
) -> int:
    from modelcheck.dryrun.worker import run_dryrun

    report = run_dryrun(spec, vllm=vllm, tp=tp, timeout=timeout, numerics=numerics)
    if output_format == "json":
        print(json.dumps(report.to_json(), indent=2))
    else:
        from rich.console import Console

        from modelcheck.report.fusion import render_text

        render_text(report, Console(highlight=False))
        for message in report.notes:
            note(message)
    failed = report.wrong or (fail_on_missed and report.missed)
    return ExitCode.FINDINGS if failed else ExitCode.OK
