"""``modelcheck ab``: vLLM's own implementation against its Transformers backend, measured."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from modelcheck.cli.options import format_option, note, timeout_option, vllm_python_option
from modelcheck.errors import ExitCode, UsageError


@click.command()
@click.argument("target", metavar="FOLDER")
@click.argument("arguments", nargs=-1, metavar="[-- BENCH ARGUMENTS]")
@click.option(
    "--bench",
    type=click.Choice(["latency", "throughput", "serve"]),
    default="throughput",
    show_default=True,
    help="Which of vLLM's benchmarks; serve gives TTFT and ITL.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Pairs of runs, one of each side, in an order drawn by lot.",
)
@click.option(
    "--engine-args",
    default="",
    metavar="TEXT",
    help="For vLLM's engine, on both sides: '--dtype float32 --max-model-len 4096'.",
)
@click.option(
    "--expect",
    metavar="LOCK",
    help="The modelcheck.lock that the log of each run has to fulfil. "
    "[default: that in FOLDER, else what a dry run says]",
)
@click.option(
    "--trust-remote-code",
    is_flag=True,
    help="Run the model's own code, in separate processes and offline.",
)
@vllm_python_option
@timeout_option(1800.0, "Seconds after which a run is stopped.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the order of the runs.")
@click.option("--plot", metavar="FILE", help="Also write one self-contained HTML page.")
@click.option("--verbose", is_flag=True, help="Show what vLLM prints, on stderr.")
@format_option
def ab(
    target: str,
    arguments: tuple[str, ...],
    bench: str,
    repeats: int,
    engine_args: str,
    expect: str | None,
    trust_remote_code: bool,
    python: str | None,
    timeout: float,
    seed: int,
    plot: str | None,
    verbose: bool,
    output_format: str,
) -> int:
    """Measure vLLM's own implementation of a model against its Transformers backend.

    FOLDER has a config.json; without weights random ones do. `vllm bench` runs with the same
    arguments for --model-impl vllm and transformers, in pairs; what stands after -- goes to it.
    The ratio of each figure comes with an interval, and the fusions that are expected have to be
    in the log of each run.

    Exits with 0 whatever is faster, with 1 when a fusion is missing.
    """
    from modelcheck.ab.run import AbSpec, run_ab

    page = Path(plot) if plot is not None else None
    if page is not None and (page.suffix != ".html" or not page.absolute().parent.is_dir()):
        raise UsageError(f"--plot: {page}: not an .html file in a folder that is there")
    try:
        engine = tuple(shlex.split(engine_args))
    except ValueError as error:
        raise UsageError(f"--engine-args: {error}") from None
    spec = AbSpec(target, bench, repeats, trust_remote_code, arguments, engine, expect, seed)
    report = run_ab(spec, python=python, timeout=timeout, verbose=verbose, progress=note)
    if output_format == "json":
        print(json.dumps(report.to_json(), indent=2))
    else:
        from rich.console import Console

        from modelcheck.report.ab import render_text

        render_text(report, Console(highlight=False))
    for message in report.notes:
        note(message)
    if page is not None:
        from modelcheck.ab.plot import page as drawn

        page.write_text(drawn(report), encoding="utf-8")
        note(f"written: {page}")
    return ExitCode.FINDINGS if report.missing else ExitCode.OK
