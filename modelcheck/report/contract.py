"""The table of vLLM releases, and what changed between two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modelcheck.fusers.contract import Contract, Effect

if TYPE_CHECKING:
    from rich.console import Console

    from modelcheck.fusers.contract_diff import Difference

ORDER = (Effect.ALLOWED, Effect.FUSED, Effect.REFUSED, Effect.UNFUSED, Effect.CHANGED)
STYLE = {
    Effect.ALLOWED: "green",
    Effect.FUSED: "green",
    Effect.REFUSED: "red",
    Effect.UNFUSED: "yellow",
    Effect.CHANGED: "cyan",
}


def render_releases(releases: Sequence[Contract], console: Console) -> None:
    """One row per release, oldest first."""
    shown = _table()
    for heading in ("vLLM", "transformers", "torch", "Python"):
        shown.add_column(heading, no_wrap=True)
    shown.add_column("Fusers, in order of trial", overflow="fold", ratio=1)
    for release in releases:
        shown.add_row(
            release.version,
            release.transformers,
            release.torch,
            release.python,
            ", ".join(release.fusers),
        )
    console.print(shown)


def render_differences(
    old: Contract, new: Contract, differences: Sequence[Difference], console: Console
) -> None:
    """One line per behaviour that differs, what an author may now write first."""
    console.print(Text(f"From vLLM {old.version} to {new.version}", "bold"), soft_wrap=True)
    if not differences:
        console.print(Text("Nothing that an author would notice."), soft_wrap=True)
    for effect in ORDER:
        lines = [d for d in differences if d.effect is effect]
        if not lines:
            continue
        console.print()
        console.print(Text(f"{effect.value[0].upper()}{effect.value[1:]}:", STYLE[effect]))
        for difference in lines:
            line = Text(f"{difference.area}: {difference.sentence}")
            if console.is_terminal:
                console.print(Padding(line, (0, 0, 0, 2)))
            else:
                console.print(Text("  ") + line, soft_wrap=True)


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
