"""Predicted evidence, a modeling file at a time: what a survey's worker does without torch."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from modelcheck.fusers import moe
from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.predicted import ClassPrediction, predict_file
from modelcheck.fusers.results import ClassReport, Fires, FusionResult
from modelcheck.source.classes import ClassInfo, FileIndex, ProjectIndex
from modelcheck.source.text import read_source
from modelcheck.survey.records import SurveyedClass

# Fusers whose look-alikes are worth a word, as in a dry run.
LOOK_ALIKES = frozenset({"GLU", "QKV", "PackedQKV", "RMSNorm", "MLA", "Attention", moe.NAME})
REDEFINING = frozenset({"MLA", "QKV", "PackedQKV", "GLU"})
# Methods that name classes without constructing them.
NAMING_ONLY = frozenset({"_init_weights", "forward"})
GARBAGE = 1_000_000  # objects made and not freed since the last collection; some 100 MB


def job(payload: Mapping[str, Any]) -> dict[str, Any]:
    """``payload``: ``root``, ``file``, ``bases`` (model type to base class), ``vllm``, ``tp``.

    The answer: ``models`` (model type to its ``classes``, `SurveyedClass` as JSON, and the
    names of its ``silent`` ones) and ``seconds``.
    """
    start = time.monotonic()
    _collect_seldom()
    root = Path(payload["root"])
    file = ProjectIndex().add(read_source(payload["file"]))
    predictions = predict_file(file, contract_for(payload["vllm"]), tp=payload["tp"])
    surveyed = {p.info.name: _surveyed(p, root) for p in predictions}
    mentioned = _Mentions(file)
    models = {}
    for model_type, base in payload["bases"].items():
        own = reachable(file, base, mentioned) & surveyed.keys()
        told = [c for name, c in surveyed.items() if name in own and c.results]
        silent = own - {c.report.class_name for c in told}
        models[model_type] = {"classes": [c.to_json() for c in told], "silent": sorted(silent)}
    return {"models": models, "seconds": time.monotonic() - start}


def _collect_seldom() -> None:
    """Collect garbage between files only, and when there is much: it took a quarter of the time."""
    gc.disable()
    if gc.get_count()[0] > GARBAGE:
        gc.collect()


class _Mentions(dict[str, frozenset[str]]):
    """For every class of a file, the names in the code of its own that may construct others."""

    def __init__(self, file: FileIndex) -> None:
        super().__init__()
        self.file = file

    def __missing__(self, name: str) -> frozenset[str]:
        found = frozenset(_names(_constructing(self.file.classes[name]), self.file))
        self[name] = found
        return found


def reachable(file: FileIndex, base: str, mentioned: _Mentions | None = None) -> frozenset[str]:
    """The classes of a file that a class may construct, directly or through others.

    Read off the names in the code: a class that another model type of the same file uses alone
    is not among them.
    """
    names = _Mentions(file) if mentioned is None else mentioned
    seen: set[str] = set()
    pending = [base]
    while pending:
        name = pending.pop()
        if name in seen or name not in file.classes:
            continue
        seen.add(name)
        for info in file.classes[name].mro:
            if info.file is file:
                pending += names[info.name]
    return frozenset(seen)


def _constructing(info: ClassInfo) -> Iterator[ast.AST]:
    """The parts of a class that may construct others."""
    yield from info.attributes.values()
    for name, method in info.methods.items():
        if name not in NAMING_ONLY:
            yield from method.body


def _names(nodes: Iterable[ast.AST], file: FileIndex) -> set[str]:
    """Names in code, and what the file's own tables and functions of such a name mention."""
    found: set[str] = set()
    pending = list(nodes)
    while pending:
        for node in ast.walk(pending.pop()):
            if not isinstance(node, ast.Name) or node.id in found:
                continue
            found.add(node.id)
            if node.id in file.assignments:
                pending.append(file.assignments[node.id])
            elif node.id in file.functions:
                pending += file.functions[node.id].body
    return found


def _surveyed(prediction: ClassPrediction, root: Path) -> SurveyedClass:
    report = class_report(prediction)
    info = prediction.info
    forward = info.find_method("forward")
    owner = forward[0].file if forward is not None else info.file
    lines = owner.source.lines
    blamed = {r.span.line for r in (*report.fusions, *report.missed) if r.span}
    return SurveyedClass(
        report,
        relative(info.file.path, root),
        info.node.lineno,
        relative(owner.path, root),
        {line: lines[line - 1].strip() for line in sorted(blamed) if line <= len(lines)},
    )


def relative(path: str | None, root: Path) -> str:
    """A file's path in the transformers package, "" for one from elsewhere."""
    if path is None or not Path(path).is_relative_to(root):
        return ""
    return Path(path).relative_to(root).as_posix()


def class_report(prediction: ClassPrediction) -> ClassReport:
    """What fires, and what nearly does or cannot be decided; paths are not known."""
    fusions = tuple(r for r in prediction.results if r.fires is Fires.YES)
    fired = {r.fuser for r in fusions}
    missed = tuple(r for r in prediction.results if _worth_a_word(r) and not _outranked(r, fired))
    return ClassReport(prediction.info.name, (), fusions, missed)


def _worth_a_word(result: FusionResult) -> bool:
    if result.fuser not in LOOK_ALIKES or result.fires is Fires.YES:
        return False
    near = ("near", "yes") in result.details
    return near or result.fires is Fires.UNKNOWN or result.fuser == moe.NAME


def _outranked(result: FusionResult, fired: set[str]) -> bool:
    """A miss that does not matter, since another fuser has the module."""
    return bool(fired & REDEFINING) and result.fuser in REDEFINING
