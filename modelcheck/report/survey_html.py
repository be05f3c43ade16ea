"""A survey as one HTML page: template, style and script in ``survey.html``, the data in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from modelcheck import __version__
from modelcheck.fusers.results import FusionResult
from modelcheck.report.survey import fusers_of

if TYPE_CHECKING:
    from modelcheck.survey.records import Record, SurveyedClass
    from modelcheck.survey.run import Plan

TEMPLATE = "survey.html"
RELEASE = re.compile(r"\d+\.\d+\.\d+")  # a version with a tag in the repository
REPOSITORY = "https://github.com/huggingface/transformers/blob/v{}/src/transformers/"


def page(records: Sequence[Record], plan: Plan) -> str:
    """The page; it loads nothing, and only its links to source lines lead outside."""
    template = resources.files("modelcheck.report").joinpath(TEMPLATE).read_text("utf-8")
    return Template(template).substitute(data=embedded(document(records, plan)))


def embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class _Interned(dict[Any, int]):
    """Distinct values and their place in a list: types share classes, classes share reasons."""

    def place(self, value: Any) -> int:
        return self.setdefault(value, len(self))


def document(records: Sequence[Record], plan: Plan) -> dict[str, Any]:
    """The data of the page.

    ``texts`` holds all reasons, source lines and file names; ``classes`` the distinct classes
    ``[name, file, line, source file, results]`` with results ``[fuser, answer, text, line,
    source line]``, answer being "wrong" or a `Fires`; ``types`` are ``[name, {evidence: [error,
    [[class, count, path], ...], [names of classes that only other evidence reports on]]}]``.
    """
    texts, classes = _Interned(), _Interned()
    fusers = list(fusers_of(plan.contract))
    types: dict[str, dict[str, Any]] = {t.name: {} for t in plan.types}
    reported: dict[str, set[str]] = {t.name: set() for t in plan.types}
    for record in records:
        reported[record.model_type] |= {c.report.class_name for c in record.classes}
    for record in records:
        # A fuser that only the loaded release has would be lost otherwise.
        for surveyed in record.classes:
            fusers += [r.fuser for r in surveyed.results if r.fuser not in fusers]
        members = [
            [
                classes.place(_class(surveyed, fusers, texts)),
                surveyed.report.count,
                next(iter(surveyed.report.paths), ""),
            ]
            for surveyed in record.classes
        ]
        silent = sorted(reported[record.model_type].intersection(record.silent))
        types[record.model_type][str(record.evidence)] = [record.error or "", members, silent]
    version = plan.catalogue.version
    return {
        "modelcheck": __version__,
        "transformers": version,
        "vllm": plan.contract.version,
        "loaded": (plan.vllm_releases or {}).get("vllm") or "",
        "tp": plan.tp,
        "evidence": [str(e) for e in plan.evidence],
        "repository": REPOSITORY.format(version) if RELEASE.fullmatch(version) else "",
        "fusers": fusers,
        "texts": list(texts),
        "classes": _lists(classes),
        "types": list(types.items()),
    }


def _class(surveyed: SurveyedClass, fusers: list[str], texts: _Interned) -> tuple[Any, ...]:
    sources = surveyed.sources or {}

    def row(result: FusionResult) -> tuple[Any, ...]:
        line = result.span.line if result.span else 0
        return (
            fusers.index(result.fuser),
            "wrong" if result.wrong else str(result.fires),
            texts.place(_text(result)),
            line,
            texts.place(sources.get(line, "")),
        )

    return (
        surveyed.report.class_name,
        texts.place(surveyed.file),
        surveyed.line,
        texts.place(surveyed.source_file or surveyed.file),
        tuple(row(result) for result in surveyed.results),
    )


def _text(result: FusionResult) -> str:
    """What it becomes, or why not."""
    if not result.becomes:
        return result.reason
    children = ", ".join(dict.fromkeys(child for child, _ in result.shards))
    merged = f"{result.becomes} ({children})" if children else result.becomes
    return "; ".join(filter(None, (merged, result.wrong, result.reason)))


def _lists(values: Iterable[Any]) -> list[Any]:
    return [list(value) for value in values]
