"""``modelcheck scan``: the static check, and its fixes."""

from __future__ import annotations

import sys

import click

from modelcheck.cli.options import chosen_contract, note, split_codes, vllm_option
from modelcheck.errors import ExitCode, UsageError
from modelcheck.findings import Severity
from modelcheck.scan import Scanner, ScanResult, Selection

CODES_HELP = "Codes or their beginnings, comma-separated: MC1,MC301."


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATHS...")
@vllm_option
@click.option("--select", multiple=True, metavar="CODES", help=f"Only these rules. {CODES_HELP}")
@click.option("--extend-select", multiple=True, metavar="CODES", help="These rules as well.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules.")
@click.option("--fix", is_flag=True, help="Write the safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: unsafe fixes as well.")
@click.option("--diff", is_flag=True, help="Print what --fix would do, and change nothing.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "concise", "json"]),
    default="text",
    show_default=True,
    help="How findings are shown.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
def scan(
    paths: tuple[str, ...],
    vllm: str | None,
    select: tuple[str, ...],
    extend_select: tuple[str, ...],
    ignore: tuple[str, ...],
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    output_format: str,
    exit_zero: bool,
) -> int:
    """Check modeling files, folders and model repositories.

    Exits with 1 when something is found that is worse than info.
    """
    if fix and diff:
        raise UsageError("--fix and --diff exclude each other")
    if unsafe_fixes and not (fix or diff):
        raise UsageError("--unsafe-fixes needs --fix or --diff")
    contract = chosen_contract(vllm)
    scanner = Scanner(
        contract, Selection(split_codes(select), split_codes(extend_select), split_codes(ignore))
    )
    result = scanner.scan(paths)
    if fix or diff:
        from modelcheck.cli.fixes import run_fixes

        result = run_fixes(scanner, result, paths, write=fix, unsafe=unsafe_fixes)
    if not diff:
        _report(result, output_format, contract.version)
    for error in result.unreadable:
        note(f"error: {error}")
    for path in result.empty:
        note(f"error: no modeling file found in {path}")
    if result.unreadable or result.empty:
        return ExitCode.USAGE
    return ExitCode.FINDINGS if result.failing and not exit_zero else ExitCode.OK


def _report(result: ScanResult, output_format: str, vllm: str) -> None:
    if output_format == "json":
        from modelcheck.report import json as report

        print(report.render(result.findings, result.unreadable, vllm))
        return
    from modelcheck.report import text

    shown = text.render(
        result.findings, concise=output_format == "concise", colour=text.use_colour()
    )
    if shown:
        print(shown)
    elif result.files:
        print(f"{text.plural(result.files, 'file')} checked: nothing to report")
    hidden = sum(1 for f in result.findings if f.severity is Severity.INFO)
    if hidden and not result.failing:
        note("info findings do not fail a run")
    sys.stdout.flush()
