"""``modelcheck fix``: mend a whole model repository, and prove that its numbers stay."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from modelcheck import settings as configuration
from modelcheck.cli.options import (
    chosen_contracts,
    chosen_transformers,
    format_option,
    note,
    split_codes,
    timeout_option,
    vllm_releases_option,
)
from modelcheck.cli.targets import refuse_hub
from modelcheck.errors import ExitCode, MissingDependency, UsageError
from modelcheck.findings import Finding, Severity

if TYPE_CHECKING:
    from modelcheck.repair import Proof, Repair


@click.command()
@click.argument("folder", metavar="FOLDER", type=click.Path())
@vllm_releases_option
@click.option(
    "--transformers",
    metavar="VERSION",
    help="Judge for this transformers release. [default: all that the vLLM release allows]",
)
@click.option("--unsafe-fixes", is_flag=True, help="Unsafe fixes as well.")
@click.option("--diff", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--interactive", is_flag=True, help="Ask before every kind of fix.")
@click.option(
    "--trust-remote-code",
    is_flag=True,
    help="The model's own code may be run to verify the fixes, in processes of their own.",
)
@click.option(
    "--verify/--no-verify",
    default=None,
    help="Run the code as it was and as fixed on the same weights; write nothing that differs. "
    "[default: with --trust-remote-code, where torch is installed]",
)
@click.option(
    "--verify-with",
    metavar="VERSION",
    help="The transformers release for the code as it was; pip installs it aside.",
)
@click.option("--verify-python", metavar="PATH", help="A Python for the code as it was.")
@timeout_option(300.0, "Seconds after which a process that verifies is stopped.")
@format_option
def fix(**values: Any) -> int:
    """Fix all files of a model repository in one run: code, configuration and config.json.

    Everything is fixed and verified in a copy; the repository is written last, or not at all.
    Says what was fixed, what is left, what no tool can fix, and the verdict before and after.

    Exits with 0 when nothing is left, with 1 when something is (with --diff, was found), or when
    nothing was written because the fixes change the model's numbers.
    """
    options = Options(**values)
    refuse_hub((options.folder,), "fix")
    _check_use(options)
    return _run(options)


@dataclass(frozen=True)
class Options:
    """The command line, as click gives it; the names are those of the options."""

    folder: str
    vllm: tuple[str, ...]
    transformers: str | None
    unsafe_fixes: bool
    diff: bool
    interactive: bool
    trust_remote_code: bool
    verify: bool | None
    verify_with: str | None
    verify_python: str | None
    timeout: float
    output_format: str

    @property
    def verifies(self) -> bool:
        """Are the fixes to be verified?"""
        if self.verify is not None:
            return self.verify
        named = self.verify_with is not None or self.verify_python is not None
        return named or (self.trust_remote_code and not self.diff and _has_torch())


def _has_torch() -> bool:
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def _check_use(options: Options) -> None:
    """Raise for options that do not go together, or for want of torch."""
    named = options.verify_with is not None or options.verify_python is not None
    wrong = {
        "--verify-with and --verify-python exclude each other": options.verify_with is not None
        and options.verify_python is not None,
        "--verify-with and --verify-python need --verify": named and options.verify is False,
        "verifying runs the model's own code: it needs --trust-remote-code": options.verifies
        and not options.trust_remote_code,
        "--interactive needs a terminal": options.interactive and not sys.stdin.isatty(),
    }
    for message, applies in wrong.items():
        if applies:
            raise UsageError(message)
    if options.verifies and not _has_torch():
        raise MissingDependency(
            "verifying needs torch and transformers: pip install 'modelcheck[dryrun]', "
            "or --no-verify"
        )


def _run(options: Options) -> int:
    from modelcheck import repair
    from modelcheck.report.fix import render_json, render_text
    from modelcheck.scan import Selection

    settings = configuration.load((options.folder,), None, False)
    contracts = chosen_contracts(split_codes(options.vllm) or settings.vllm)
    transformers = chosen_transformers(options.transformers or settings.transformers)
    python = _python(options)
    with repair.Workshop(options.folder) as copy:
        made = repair.prepare(
            options.folder,
            copy,
            unsafe=options.unsafe_fixes,
            contracts=contracts,
            selection=Selection(
                select=settings.select,
                extend=settings.extend_select,
                ignore=settings.ignore,
                per_file=settings.per_file_ignores,
                root=settings.root,
            ),
            transformers=transformers,
            accept=Asker() if options.interactive else None,
        )
        proof = None
        if options.verifies and made.changes:
            note("running the code as it was and as fixed")
            proof = repair.verify(made, python=python, timeout=options.timeout)
    rolled_back = proof is not None and proof.differs
    if not options.diff and not rolled_back:
        repair.write(made)
    if options.output_format == "json":
        print(render_json(made, proof, written=not options.diff and not rolled_back))
    else:
        if options.diff:
            for change in made.changes:
                sys.stdout.write(change.diff)
        text = render_text(made, proof, diff=options.diff, unsafe=options.unsafe_fixes)
        print(text, file=sys.stderr if options.diff else sys.stdout)
    return _status(made, proof, made.found if options.diff else made.left)


def _status(made: Repair, proof: Proof | None, findings: Sequence[Finding]) -> int:
    for error in made.unreadable:
        note(f"error: {error}")
    if made.empty:
        note(f"error: no modeling file found in {made.folder}")
    if made.unreadable or made.empty:
        return ExitCode.USAGE
    failing = any(f.severity is not Severity.INFO for f in findings)
    unproved = proof is not None and (proof.differs or proof.wrong_in_vllm)
    return ExitCode.FINDINGS if failing or unproved else ExitCode.OK


def _python(options: Options) -> str | None:
    if options.verify_with is None:
        return options.verify_python
    from modelcheck.isolated import environment

    return environment(options.verify_with)


class Asker:
    """Asks once for every fix of a class: yes, no, all that follow, none of them."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str, str], bool] = {}
        self._rest: bool | None = None

    def __call__(self, finding: Finding) -> bool:
        assert finding.fix is not None
        key = (finding.code, finding.class_name, finding.fix.title)
        if key in self._said:
            return self._said[key]
        if self._rest is None:
            self._said[key] = self._ask(finding)
        else:
            self._said[key] = self._rest
        return self._said[key]

    def _ask(self, finding: Finding) -> bool:
        assert finding.fix is not None
        place = f"{finding.path}:{finding.span.line}: {finding.code} {finding.class_name}".rstrip()
        click.echo(f"{place}: {finding.message}", err=True)
        choice = click.prompt(
            f"{finding.fix.title} ({finding.fix.safety})? yes, no, all, quit",
            type=click.Choice(["y", "n", "a", "q"]),
            show_choices=True,
            err=True,
        )
        if choice in ("a", "q"):
            self._rest = choice == "a"
        return choice in ("y", "a")
