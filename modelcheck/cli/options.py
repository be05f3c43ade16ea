"""Options that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from modelcheck.errors import UsageError
from modelcheck.fusers.contract import Contract, contract_for, is_newer, newest

F = TypeVar("F", bound=Callable[..., Any])


def vllm_option(function: F) -> F:
    """``--vllm VERSION``: the release to judge by."""
    decorate: Callable[[F], F] = click.option(
        "--vllm",
        metavar="VERSION",
        help=f"Judge by this vLLM release, e.g. 0.32. [default: {newest().version}]",
    )
    return decorate(function)


def vllm_releases_option(function: F) -> F:
    """``--vllm VERSIONS``: the releases to judge by, comma-separated or repeated."""
    decorate: Callable[[F], F] = click.option(
        "--vllm",
        multiple=True,
        metavar="VERSIONS",
        help="Judge by this vLLM release, or by each of several: 0.28,0.30,0.33. "
        f"[default: {newest().version}]",
    )
    return decorate(function)


def format_option(function: F) -> F:
    """``--output-format text|json``."""
    decorate: Callable[[F], F] = click.option(
        "--output-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How the result is shown.",
    )
    return decorate(function)


def json_option(function: F) -> F:
    """``--json`` beside ``--output-format``."""
    decorate: Callable[[F], F] = click.option(
        "--json", "as_json", is_flag=True, help="The same as --output-format json."
    )
    return decorate(function)


def model_type_option(function: F) -> F:
    """``--model-type TYPE`` in place of a folder."""
    decorate: Callable[[F], F] = click.option(
        "--model-type", metavar="TYPE", help="Build this type of transformers instead."
    )
    return decorate(function)


def trust_option(function: F) -> F:
    """``--trust-remote-code`` of the commands that build a model."""
    decorate: Callable[[F], F] = click.option(
        "--trust-remote-code",
        is_flag=True,
        help="Run the model's own code, in a separate process and offline.",
    )
    return decorate(function)


def vllm_python_option(function: F) -> F:
    """``--python PATH`` of the commands that run vLLM."""
    decorate: Callable[[F], F] = click.option(
        "--python",
        metavar="PATH",
        help="A Python that has vLLM. [default: $MODELCHECK_VLLM_PYTHON, else this one]",
    )
    return decorate(function)


def timeout_option(seconds: float, words: str) -> Callable[[F], F]:
    """``--timeout SECONDS`` with a default."""
    return click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=seconds,
        show_default=True,
        help=words,
    )


def chosen_contract(version: str | None) -> Contract:
    """The contract for ``--vllm``, with a note when the release is newer than we know.

    Raises `UsageError` for what is no version, or too old.
    """
    contract = contract_for(version)
    if version is not None and is_newer(version):
        note(f"vLLM {version} is not known yet; judged by {contract.version}")
    return contract


def chosen_contracts(versions: Iterable[str | None]) -> tuple[Contract, ...]:
    """The contracts for several releases, oldest first, each once; the newest without any."""
    from packaging.version import Version

    wanted = list(versions) or [None]
    contracts = {c.version: c for c in map(chosen_contract, wanted)}
    return tuple(sorted(contracts.values(), key=lambda c: Version(c.version)))


def chosen_transformers(version: str | None) -> str | None:
    """``--transformers`` as it was given. Raises `UsageError` for what is no version."""
    from packaging.version import InvalidVersion, Version

    if version is None:
        return None
    try:
        return str(Version(version))
    except InvalidVersion:
        raise UsageError(f"--transformers: {version!r} is not a version, try 5.19") from None


def chosen_package(folder: str | None) -> Path | None:
    """``--transformers-path``. Raises `UsageError` for what is no transformers package."""
    from modelcheck.source.installed import is_package

    if folder is not None and not is_package(Path(folder)):
        raise UsageError(f"--transformers-path: {folder} is no package of transformers")
    return Path(folder).absolute() if folder is not None else None


def note(message: str) -> None:
    """One line on stderr that is not a result."""
    print(f"modelcheck: {message}", file=sys.stderr)


def split_codes(values: tuple[str, ...]) -> tuple[str, ...]:
    """``--select MC1,MC301 --select MC5`` as one tuple."""
    return tuple(filter(None, (part for value in values for part in re.split(r"[,\s]+", value))))


def split_ignores(values: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """``--per-file-ignores "old_*.py:MC5,MC301"`` as pairs of a glob and its codes.

    One value may hold several pairs. Raises `UsageError` for a part without a glob.
    """
    pairs: dict[str, tuple[str, ...]] = {}
    for value in values:
        glob = ""
        for part in filter(None, re.split(r"[,\s]+", value)):
            before, colon, code = part.rpartition(":")
            glob = before if colon else glob
            if not glob or not code:
                raise UsageError(f"--per-file-ignores: {value!r} is not GLOB:CODES")
            pairs[glob] = (*pairs.get(glob, ()), code)
    return tuple(pairs.items())
