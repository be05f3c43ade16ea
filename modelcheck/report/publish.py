"""``publish-check`` for people, for a model card or pull request, and as a badge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modelcheck import __version__
from modelcheck.report.concise import render as concise
from modelcheck.report.markdown import LIMIT, escaped, findings_table
from modelcheck.report.text import clean
from modelcheck.verdict import SHORT, Outcome

if TYPE_CHECKING:
    from modelcheck.publish_result import Part, Publication

LABEL = "modelcheck"
COLOURS = {  # of shields.io
    Outcome.FUSED: "brightgreen",
    Outcome.UNFUSED: "yellow",
    Outcome.UNKNOWN: "lightgrey",
    Outcome.TP1: "orange",
    Outcome.WRONG: "red",
    Outcome.REFUSED: "red",
}


def badge(publication: Publication) -> dict[str, Any]:
    """The outcome for https://shields.io/badges/endpoint-badge."""
    return {
        "schemaVersion": 1,
        "label": LABEL,
        "message": f"{SHORT[publication.outcome]} in vLLM {', '.join(publication.releases)}",
        "color": COLOURS[publication.outcome],
    }


def render_text(publication: Publication) -> str:
    """The verdict, what each kind of evidence says, and what it blames."""
    blocks = [f"{publication.target}: {publication.line}", "\n".join(_lines(publication))]
    if publication.report.findings:
        blocks.append(concise(publication.report))
    return "\n\n".join("\n".join(map(clean, block.split("\n"))) for block in blocks)


def _lines(publication: Publication) -> Iterator[str]:
    for part in publication.parts:
        release = f"vLLM {part.vllm}" if part.vllm else ""
        yield f"{part.command:<7} {release:<12} {part.text}"
        for remark in part.remarks:
            yield f"        {remark}"


def render_markdown(publication: Publication) -> str:
    """A heading, the verdict, tables of the evidence and the findings, and what it was made by."""
    mark = "✅" if publication.fit else "❓" if publication.outcome is Outcome.UNKNOWN else "❌"
    parts = [
        "### modelcheck",
        f"{mark} **{escaped(publication.target)}: {escaped(publication.line)}**",
        _evidence(publication.parts),
    ]
    if fused := _fused(publication.parts):
        parts.append(fused)
    remarks = dict.fromkeys(remark for part in publication.parts for remark in part.remarks)
    if remarks:
        parts.append("\n".join(f"- {escaped(remark)}" for remark in remarks))
    closing = _closing(publication)
    if publication.report.findings:
        room = LIMIT - sum(map(len, parts)) - len(closing) - 100
        parts.append(findings_table(publication.report.findings, room))
    return "\n\n".join([*parts, closing])


def _evidence(parts: tuple[Part, ...]) -> str:
    rows = ["| evidence | vLLM | |", "| --- | --- | --- |"]
    rows += [f"| `{part.command}` | {part.vllm} | {escaped(part.text)} |" for part in parts]
    return "\n".join(rows)


def _fused(parts: tuple[Part, ...]) -> str:
    """The fusions by the strongest evidence, class by class."""
    built = [part for part in parts if part.classes]
    if not built:
        return ""
    names: dict[str, list[str]] = {}
    for report in built[-1].classes:
        names.setdefault(report.class_name, []).extend(report.fired)
    rows = ["| class | fuses as |", "| --- | --- |"]
    for name, fired in names.items():
        fusers = ", ".join(dict.fromkeys(fired)) or "-"
        rows.append(f"| `{name}` | {escaped(fusers)} |")
    return "\n".join(rows)


def _closing(publication: Publication) -> str:
    made = f"modelcheck {__version__}, `modelcheck publish-check`"
    sources = [f"[{n}]({url}/tree/{commit})" for n, url, commit in publication.report.sources]
    return f"<sub>{', '.join([made, *sources])}</sub>"
