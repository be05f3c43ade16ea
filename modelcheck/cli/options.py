"""Options that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

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


def chosen_contract(version: str | None) -> Contract:
    """The contract for ``--vllm``, with a note when the release is newer than we know.

    Raises `UsageError` for what is no version, or too old.
    """
    contract = contract_for(version)
    if version is not None and is_newer(version):
        note(f"vLLM {version} is not known yet; judged by {contract.version}")
    return contract


def note(message: str) -> None:
    """One line on stderr that is not a result."""
    print(f"modelcheck: {message}", file=sys.stderr)


def split_codes(values: tuple[str, ...]) -> tuple[str, ...]:
    """``--select MC1,MC301 --select MC5`` as one tuple."""
    return tuple(filter(None, (part for value in values for part in re.split(r"[,\s]+", value))))
