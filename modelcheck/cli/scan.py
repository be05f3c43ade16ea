"""``modelcheck scan``: the static check, and its fixes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from modelcheck import settings as configuration
from modelcheck.cli.inputs import DEFAULT_NAME, STDIN, Filters, Look
from modelcheck.cli.options import (
    chosen_contracts,
    chosen_package,
    chosen_transformers,
    note,
    split_codes,
    split_ignores,
    vllm_releases_option,
)
from modelcheck.cli.output import Output
from modelcheck.cli.targets import Targets, opened, refuse_hub
from modelcheck.errors import ExitCode, UsageError
from modelcheck.releases import ReleaseScanner
from modelcheck.report import FORMATS
from modelcheck.report.model import plural
from modelcheck.scan import ScanResult, Selection
from modelcheck.settings import Settings

if TYPE_CHECKING:
    from modelcheck.baseline import Baseline

CODES_HELP = "Codes or their beginnings, comma-separated: MC1,MC301."


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATHS...", type=click.Path(allow_dash=True)
)
@vllm_releases_option
@click.option(
    "--transformers",
    metavar="VERSION",
    help="Judge for this transformers release. [default: all that the vLLM release allows]",
)
@click.option(
    "--transformers-path",
    metavar="DIR",
    type=click.Path(),
    help="Read inherited classes from this transformers package. [default: the installed one]",
)
@click.option("--select", multiple=True, metavar="CODES", help=f"Only these rules. {CODES_HELP}")
@click.option("--extend-select", multiple=True, metavar="CODES", help="These rules as well.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules.")
@click.option(
    "--per-file-ignores",
    multiple=True,
    metavar="GLOB:CODES",
    help="Not these rules in these files: 'old_*.py:MC5,MC301'.",
)
@click.option("--exclude", multiple=True, metavar="GLOBS", help="Pass over these files or folders.")
@click.option("--force-exclude", is_flag=True, help="Exclude also what is named in PATHS.")
@click.option("--changed-only", is_flag=True, help="Only what differs from --base-ref, by git.")
@click.option("--base-ref", metavar="REF", help="For --changed-only. [default: HEAD]")
@click.option("--stdin-filename", metavar="NAME", help="What - (standard input) is taken for.")
@click.option("--fix", is_flag=True, help="Write the safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: unsafe fixes as well.")
@click.option("--diff", is_flag=True, help="Print what --fix would do, and change nothing.")
@click.option(
    "--baseline", type=click.Path(), metavar="FILE", help="Report only what is not in this file."
)
@click.option(
    "--write-baseline",
    type=click.Path(),
    metavar="FILE",
    help="Write all that is found to this file.",
)
@click.option(
    "--output-format",
    type=click.Choice(list(FORMATS)),
    help="How findings are shown. [default: text]",
)
@click.option(
    "--output-file",
    type=click.Path(),
    metavar="FILE",
    help="Write the report there, not to stdout.",
)
@click.option("--statistics", is_flag=True, help="Count findings by rule instead (text, json).")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@click.option(
    "--config",
    type=click.Path(),
    metavar="FILE",
    help="Read the configuration from this TOML file.",
)
@click.option("--isolated", is_flag=True, help="Read no configuration file.")
def scan(**values: Any) -> int:
    """Check modeling files, folders and model repositories; - is standard input.

    hf://org/name[@revision] is a repository of the Hugging Face Hub: only its Python and JSON
    files and the names of its weights are fetched, and nothing is executed.

    Options that are not given come from [tool.modelcheck] in the nearest pyproject.toml, or from
    modelcheck.toml. Exits with 1 when something is found that is worse than info.
    """
    options = Options(**values)
    _check_use(options)
    with opened(options.paths, weights=True) as targets:
        return _run(replace(options, paths=targets.paths), targets)


@dataclass(frozen=True)
class Options:
    """The command line, as click gives it; the names are those of the options."""

    paths: tuple[str, ...]
    vllm: tuple[str, ...]
    transformers: str | None
    transformers_path: str | None
    select: tuple[str, ...]
    extend_select: tuple[str, ...]
    ignore: tuple[str, ...]
    per_file_ignores: tuple[str, ...]
    exclude: tuple[str, ...]
    force_exclude: bool
    changed_only: bool
    base_ref: str | None
    stdin_filename: str | None
    fix: bool
    unsafe_fixes: bool
    diff: bool
    baseline: str | None
    write_baseline: str | None
    output_format: str | None
    output_file: str | None
    statistics: bool
    exit_zero: bool
    config: str | None
    isolated: bool

    @property
    def stdin(self) -> bool:
        """Is standard input checked?"""
        return STDIN in self.paths

    @property
    def places(self) -> tuple[str, ...]:
        """The paths that the configuration is looked up from."""
        return (self.stdin_filename or DEFAULT_NAME,) if self.stdin else self.paths


def _check_use(options: Options) -> None:
    """Raise `UsageError` for options that do not go together."""
    changes = options.fix or options.diff
    wrong = {
        "--fix and --diff exclude each other": options.fix and options.diff,
        "--unsafe-fixes needs --fix or --diff": options.unsafe_fixes and not changes,
        "--config and --isolated exclude each other": options.config and options.isolated,
        "--baseline and --write-baseline exclude each other": options.baseline
        and options.write_baseline,
        "--write-baseline excludes --fix and --diff": options.write_baseline and changes,
        "--base-ref needs --changed-only": options.base_ref and not options.changed_only,
        "- (standard input) excludes other paths": options.stdin and len(options.paths) > 1,
        "- (standard input) excludes --changed-only": options.stdin and options.changed_only,
        "--stdin-filename needs -": options.stdin_filename and not options.stdin,
    }
    for message, applies in wrong.items():
        if applies:
            raise UsageError(message)
    for option, given in {
        "--fix": options.fix,
        "--diff": options.diff,
        "--baseline": options.baseline,
        "--write-baseline": options.write_baseline,
        "--changed-only": options.changed_only,
    }.items():
        if given:
            refuse_hub(options.paths, option)


def _run(options: Options, targets: Targets) -> int:
    places = options.places if options.stdin else targets.nearby
    settings = configuration.load(places, options.config, options.isolated)
    output = _output(options, settings, targets)
    scanner = ReleaseScanner(
        chosen_contracts(split_codes(options.vllm) or settings.vllm),
        _selection(options, settings),
        chosen_transformers(options.transformers or settings.transformers),
        chosen_package(options.transformers_path),
    )
    codes = {rule.code for rule in scanner.selection.rules}  # a wrong one is said before all else
    look = Look(
        scanner,
        options.places if options.stdin else options.paths,
        options.stdin,
        _filters(options, settings),
        _baseline(options, settings),
    )
    result = look.scan()
    if options.write_baseline is not None:
        from modelcheck import baseline as baselines

        count = baselines.write(options.write_baseline, result.findings, look.lines)
        note(f"{plural(count, 'finding')} written to {options.write_baseline}")
        return _status(replace(result, findings=()), options, targets)
    if options.fix or options.diff:
        from modelcheck.cli.fixes import fix_files, fix_stdin

        fix = fix_stdin if options.stdin else fix_files
        result = fix(look, result, write=options.fix, unsafe=options.unsafe_fixes)
    elif look.baseline is not None:
        _note_unused(look.baseline, look, result, codes)
    if not options.diff:
        shown = replace(result, findings=tuple(look.new(result.findings)))
        output.show(shown, scanner, scanner.verdicts(result), look.texts)
    return _status(replace(result, findings=tuple(look.new(result.findings))), options, targets)


def _status(result: ScanResult, options: Options, targets: Targets) -> int:
    for error in result.unreadable:
        note(f"error: {targets.named(error)}")
    for path in result.empty:
        note(f"error: no modeling file found in {targets.shown(path)}")
    if result.unreadable or result.empty:
        return ExitCode.USAGE
    return ExitCode.FINDINGS if result.failing and not options.exit_zero else ExitCode.OK


def _output(options: Options, settings: Settings, targets: Targets) -> Output:
    name = options.output_format or settings.output_format or "text"
    if name not in FORMATS:
        raise UsageError(
            f"{settings.path}: output-format: {name!r} is none of {', '.join(FORMATS)}"
        )
    if options.statistics and name not in ("text", "json"):
        raise UsageError(f"--statistics goes with the formats text and json, not {name}")
    # With --fix, standard output is for the text that was mended.
    stream = sys.stderr if options.stdin and options.fix else None
    return Output(name, options.output_file, options.statistics, stream, targets)


def _selection(options: Options, settings: Settings) -> Selection:
    """The rules that run: --select replaces what the configuration selects and ignores."""
    base = Settings(root=settings.root) if options.select else settings
    given = split_ignores(options.per_file_ignores)
    return Selection(
        select=split_codes(options.select) or base.select,
        extend=(*base.extend_select, *split_codes(options.extend_select)),
        ignore=(*base.ignore, *split_codes(options.ignore)),
        per_file=given or settings.per_file_ignores,
        root="" if given else settings.root,
    )


def _filters(options: Options, settings: Settings) -> Filters:
    given = split_codes(options.exclude)
    return Filters(
        exclude=given or settings.exclude,
        root="" if given else settings.root,
        force=options.force_exclude,
        base=(options.base_ref or "HEAD") if options.changed_only else None,
    )


def _baseline(options: Options, settings: Settings) -> Baseline | None:
    if options.write_baseline is not None or not (options.baseline or settings.baseline):
        return None
    from modelcheck import baseline as baselines  # costs what reading a small file does

    if options.baseline is None and settings.baseline is not None:
        return baselines.read(os.path.join(settings.root, settings.baseline))
    return baselines.read(options.baseline) if options.baseline is not None else None


def _note_unused(baseline: Baseline, look: Look, result: ScanResult, codes: set[str]) -> None:
    unused = baseline.unused(result.findings, look.lines, look.scanner.checked, codes)
    for entry in unused[:10]:
        note(f"{baseline.path}: unused: {entry}")
    if len(unused) > 10:
        note(f"{baseline.path}: unused: and {len(unused) - 10} more")
    if unused:
        note("write the baseline anew to drop what is unused")
