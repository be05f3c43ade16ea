"""The ``modelcheck`` command: a group whose commands are imported when they are first used."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import NoReturn

import click

from modelcheck import __version__
from modelcheck.errors import ExitCode, ModelcheckError

COMMANDS = {  # name: (module, what `modelcheck --help` says)
    "scan": ("modelcheck.cli.scan", "Check modeling files and config.json; --fix mends them."),
    "fix": ("modelcheck.cli.fix", "Fix a whole model repository, and prove its numbers stay."),
    "dryrun": ("modelcheck.cli.dryrun", "Show which fusers fire, by torch.fx, without vLLM."),
    "emulate": ("modelcheck.cli.emulate", "Compare vLLM's way of calling with transformers' own."),
    "load": ("modelcheck.cli.load", "Show what really fuses, in an installed vLLM."),
    "tp": ("modelcheck.cli.tp", "Show how vLLM shards each linear layer, and what breaks."),
    "gate": ("modelcheck.cli.gate", "Fail when less fuses than modelcheck.lock says."),
    "publish-check": ("modelcheck.cli.publish_check", "One verdict before a model is published."),
    "log": ("modelcheck.cli.log", "Check the log of a starting vLLM against modelcheck.lock."),
    "ab": ("modelcheck.cli.ab", "Measure vLLM's own implementation against its backend."),
    "contract": ("modelcheck.cli.contract", "Show what each vLLM release accepts."),
    "survey": ("modelcheck.cli.survey", "Show what fuses in all model types of transformers."),
    "rules": ("modelcheck.cli.rules", "List the rules, also as JSON."),
    "explain": ("modelcheck.cli.explain", "Explain a rule: what, why, example, fix."),
}

EPILOG = """\
Exit status: 0 nothing to report, 1 findings, 2 usage or unreadable file, 3 our fault.

\b
Completion in the shell (there are zsh_source and fish_source as well):
  eval "$(_MODELCHECK_COMPLETE=bash_source modelcheck)"
"""


class LazyGroup(click.Group):
    """A group that imports a command's module only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of use, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command object of the same name in its module."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="modelcheck")
@click.option(
    "--traceback",
    is_flag=True,
    envvar="MODELCHECK_TRACEBACK",
    help="Show Python's traceback of an internal error.",
)
@click.pass_context
def cli(ctx: click.Context, traceback: bool) -> None:
    """Will vLLM serve this model's code fused? Check it, and fix it."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(ExitCode.USAGE)


def _wants_traceback(arguments: list[str]) -> bool:
    return "--traceback" in arguments or os.environ.get("MODELCHECK_TRACEBACK", "") not in (
        "",
        "0",
    )


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; every outcome is an exit status and at most one line of error."""
    gc.set_threshold(50_000, 10, 10)  # syntax trees are many objects, little of it garbage
    argv = sys.argv[1:] if arguments is None else arguments
    try:
        code = cli.main(args=argv, prog_name="modelcheck", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else ExitCode.OK)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except click.ClickException as error:
        _fail(" ".join(error.format_message().split()), ExitCode.USAGE)
    except ModelcheckError as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader (`head`) has gone; keep the interpreter from flushing into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)
    except Exception as error:
        if _wants_traceback(argv):
            raise
        message = " ".join(" ".join([str(error), *getattr(error, "__notes__", [])]).split())
        _fail(
            f"internal: {type(error).__name__}: {message} (MODELCHECK_TRACEBACK=1 shows where)",
            ExitCode.INTERNAL,
        )


def _fail(message: str, code: int) -> NoReturn:
    print(f"modelcheck: error: {message}", file=sys.stderr)
    sys.exit(code)
