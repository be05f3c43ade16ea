"""``modelcheck publish-check``: all evidence on a repository, one verdict before it is public."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from modelcheck import settings as configuration
from modelcheck.cli.options import (
    chosen_contracts,
    chosen_transformers,
    note,
    split_codes,
    vllm_python_option,
)
from modelcheck.cli.output import write
from modelcheck.cli.targets import Target, repository
from modelcheck.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from modelcheck.publish_result import Publication


@click.command("publish-check")
@click.argument("target", metavar="FOLDER")
@click.option(
    "--vllm",
    multiple=True,
    metavar="VERSIONS",
    help="Judge by this vLLM release, or by each of several: 0.28,0.30,0.33. "
    "[default: the one that is asked, else the newest known]",
)
@click.option(
    "--transformers",
    metavar="VERSION",
    help="Judge for this transformers release. [default: all that the vLLM release allows]",
)
@click.option(
    "--trust-remote-code",
    is_flag=True,
    help="Run the model's own code, in separate processes and offline; without, it is read only.",
)
@click.option("--no-dryrun", is_flag=True, help="Do not build the model.")
@click.option("--no-load", is_flag=True, help="Do not ask vLLM, even where there is one.")
@vllm_python_option
@click.option("--fail-on-missed", is_flag=True, help="A model with an unfused class is not fit.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds after which a process is stopped. [default: 300, for vLLM 900]",
)
@click.option(
    "--markdown", metavar="FILE", help="Also write a report for a model card or pull request."
)
@click.option("--badge", metavar="FILE", help="Also write a badge, for shields.io's endpoint.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How the result is shown.",
)
@functools.partial(repository, weights=True)
def publish_check(**values: Any) -> int:
    """Is a model repository fit to be published? scan, dryrun and load, and one verdict.

    FOLDER has a config.json, or is hf://org/name[@revision] on the Hugging Face Hub. dryrun needs
    torch, load an installed vLLM; the result names what was not run, and why.

    Exits with 0 when vLLM serves the model and the numbers are right, with 1 when not or when
    that is not shown, with 2 when FOLDER holds no model.
    """
    options = Options(**values)
    if options.no_load and options.python is not None:
        raise UsageError("--no-load and --python exclude each other")
    return _run(options)


@dataclass(frozen=True)
class Options:
    """The command line, as click gives it; the names are those of the options."""

    target: Target
    vllm: tuple[str, ...]
    transformers: str | None
    trust_remote_code: bool
    no_dryrun: bool
    no_load: bool
    python: str | None
    fail_on_missed: bool
    timeout: float | None
    markdown: str | None
    badge: str | None
    output_format: str


def _run(options: Options) -> int:
    from modelcheck.report.publish import badge, render_markdown, render_text

    publication = _checked(options)
    if options.markdown is not None:
        write(options.markdown, render_markdown(publication), "--markdown")
    if options.badge is not None:
        write(options.badge, json.dumps(badge(publication), indent=2), "--badge")
    if options.output_format == "json":
        print(json.dumps(publication.to_json(), indent=2))
    elif options.output_format == "markdown":
        print(render_markdown(publication))
    else:
        print(render_text(publication))
    for message in publication.notes:
        note(message)
    return ExitCode.OK if publication.fit else ExitCode.FINDINGS


def _checked(options: Options) -> Publication:
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.publish import Ways, check

    target = options.target
    assert target.path is not None, "the argument is required"
    settings = configuration.load((target.nearby,), None, False)
    releases = split_codes(options.vllm) or settings.vllm
    publication = check(
        BuildSpec(target.path, None, options.trust_remote_code, name=target.name),
        chosen_contracts(releases) if releases else (),
        transformers=chosen_transformers(options.transformers or settings.transformers),
        ways=Ways(not options.no_dryrun, not options.no_load, options.python, options.timeout),
        strict=options.fail_on_missed,
    )
    shown = target.targets.shown
    parts = [
        replace(part, detail=shown(part.detail), remarks=tuple(map(shown, part.remarks)))
        for part in publication.parts
    ]
    return replace(
        publication,
        parts=tuple(parts),
        report=target.targets.renamed(publication.report),
        notes=tuple(map(shown, publication.notes)),
    )
