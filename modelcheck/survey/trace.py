"""Traced evidence, a model type at a time: what a survey's worker does with torch."""

from __future__ import annotations

import gc
import inspect
import linecache
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelcheck.dryrun.build import build
from modelcheck.dryrun.causes import describe
from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import ModelcheckError, WorkerError
from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.results import ClassReport
from modelcheck.fusers.traced import analyse_model
from modelcheck.survey.predict import relative
from modelcheck.survey.records import SurveyedClass

if TYPE_CHECKING:
    from torch import nn


def job(payload: Mapping[str, Any]) -> dict[str, Any]:
    """``payload``: ``root``, ``model_type``, ``vllm``, ``tp``.

    The answer: ``classes`` (`SurveyedClass` as JSON), the names of the ``silent`` ones and
    ``seconds``. Raises `BuildError` with
    the model's own fault.
    """
    start = time.monotonic()
    root = Path(payload["root"])
    built = build(BuildSpec(model_type=payload["model_type"]))
    try:
        contract = contract_for(payload["vllm"])
        reports = analyse_model(
            built.model, config=built.config, contract=contract, tp=payload["tp"]
        )
    except ModelcheckError:
        raise
    except Exception as error:  # the model has been built: what fails from here on is ours
        raise WorkerError(f"internal: {describe(error, None)}") from error
    classes = [_surveyed(report, built.model, root).to_json() for report in reports]
    silent = {type(m).__name__ for m in built.model.modules()} - {r.class_name for r in reports}
    del built
    gc.collect()  # a model is full of cycles
    seconds = time.monotonic() - start
    return {"classes": classes, "silent": sorted(silent), "seconds": seconds}


def _surveyed(report: ClassReport, model: nn.Module, root: Path) -> SurveyedClass:
    cls = type(model.get_submodule(report.paths[0]))
    file = _file(cls)
    source = _file(inspect.unwrap(cls.forward))
    blamed = {r.span.line for r in (*report.fusions, *report.missed) if r.span}
    return SurveyedClass(
        report,
        relative(file, root),
        _line(file, cls.__name__),
        relative(source, root),
        {line: linecache.getline(source, line).strip() for line in sorted(blamed)},
    )


def _file(code: Any) -> str:
    try:
        return inspect.getsourcefile(code) or ""
    except TypeError:
        return ""


def _line(file: str, name: str) -> int:
    """The line of the class statement, 0 where there is none."""
    header = re.compile(rf"class {re.escape(name)}\b")
    return next((n for n, text in enumerate(linecache.getlines(file), 1) if header.match(text)), 0)
