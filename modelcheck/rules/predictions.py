"""Predictions for the rules: made once per file and release, from the source alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from modelcheck.findings import Finding, Fix, Severity, Span
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.possible import parts_of
from modelcheck.fusers.predicted import ClassPrediction, Predictions
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.rules.base import Context
from modelcheck.source.classes import ClassInfo, FileIndex
from modelcheck.source.memory import remembered
from modelcheck.source.repo import Repo


@remembered(maxsize=16)
def _predictions(file: FileIndex, contract: Contract, repo: Repo | None) -> Predictions:
    given = dict(repo.config) if repo is not None else None
    return Predictions(file, contract, given, possible=True)


def predictions(context: Context) -> list[ClassPrediction]:
    """What is predicted for every class of the file that may take a fuser at all."""
    return _predictions(context.file, context.contract, context.repo).all()


def prediction_of(context: Context, info: ClassInfo) -> ClassPrediction | None:
    """What is predicted for one class of the file, None for one that is left out."""
    return _predictions(context.file, context.contract, context.repo).of(info)


def _candidates(context: Context, fuser: str) -> Iterator[ClassPrediction]:
    """The predictions of the classes that may take one fuser, or nearly."""
    known = _predictions(context.file, context.contract, context.repo)
    for info in context.file.classes.values():
        if info.kind == "pretrained" and known.of(info) is None:
            continue
        if not parts_of(info).allows(fuser) or (fuser == "MLA" and not known.uses_mla):
            continue
        prediction = known.of(info)
        if prediction is not None:
            yield prediction


@dataclass(frozen=True)
class Miss:
    """A class that nearly takes a fuser."""

    prediction: ClassPrediction
    result: FusionResult

    @property
    def kind(self) -> str:
        """The obstacle's name, "" for one that no fixer knows."""
        return dict(self.result.details).get("kind", "")


def misses(context: Context, fuser: str, unless: tuple[str, ...] = ()) -> Iterator[Miss]:
    """Classes that nearly take a fuser and take none of ``unless`` either."""
    if fuser not in context.contract.fusers:
        return
    for prediction in _candidates(context, fuser):
        result = prediction.result(fuser)
        if result is None or result.fires is not Fires.NO:
            continue
        if ("near", "yes") not in result.details:
            continue
        others = [prediction.result(other) for other in unless]
        if any(other is not None and other.fires is not Fires.NO for other in others):
            continue
        yield Miss(prediction, result)


def wrongs(context: Context, fuser: str) -> Iterator[Miss]:
    """Classes that take a fuser although the numbers change."""
    for prediction in _candidates(context, fuser):
        result = prediction.result(fuser)
        if result is not None and result.fires is Fires.YES and result.wrong:
            yield Miss(prediction, result)


def finding(
    context: Context,
    code: str,
    miss: Miss,
    message: str,
    advice: str,
    fix: Fix | None = None,
    severity: Severity = Severity.SLOW,
) -> Finding:
    """A finding on the line that the result blames, in the class's own file."""
    info = miss.prediction.info
    span = miss.result.span
    source = context.file.source
    inside = span is not None and info.node.lineno <= span.line <= (info.node.end_lineno or 0)
    forward = info.find_method("forward")
    if forward is not None and forward[0].file is not context.file:
        inside, fix = False, None  # the line that is to blame is in the parent's file
    if not inside or span is None:
        header = ast.Name(id=info.name, lineno=info.node.lineno, col_offset=0)
        header.end_lineno = info.node.lineno
        header.end_col_offset = len(source.lines[info.node.lineno - 1].encode())
        span = Span.of(header, source.lines)
    else:
        text = source.lines[span.line - 1]
        start = len(text) - len(text.lstrip())
        span = Span(span.line, start + 1, span.line, len(text.rstrip()) + 1)
    return Finding(
        code=code,
        severity=severity,
        path=context.file.path,
        span=span,
        class_name=info.name,
        message=message,
        advice=advice,
        fix=fix,
    )
