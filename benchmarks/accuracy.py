"""How often modelcheck is right about vLLM: `traced` and `predicted` against vLLM's own fusers.

    PYTHONPATH=. PYTHON_WITH_VLLM benchmarks/accuracy.py [--types llama,bert] [--json FILE]

The truth is vLLM's `Fusers` and `MoEBlockFuser`, of the release installed, on every model type
of the installed transformers that builds, and on the probes in fixtures. One pair is one fuser
on one class of one file, over all its instances in all types; where vLLM itself answers
differently for two instances, the pair is mixed and `predicted` is not judged on it. Models are
as deep as is needed to have every kind of layer, and MoE blocks are judged once per class.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelcheck.fusers.contract import Contract, contract_for
from modelcheck.fusers.results import Fires, FusionResult

ROOT = Path(__file__).resolve().parent.parent
RIGHT = ("right yes", "right no")
WRONG = ("wrong yes", "wrong no")
COLUMNS = (*RIGHT, *WRONG, "unknown", "mixed")
BLOCK = "MoEBlock"
EVIDENCES = ("predicted", "traced")


@dataclass(frozen=True)
class Verdict:
    """One pair: what vLLM did and what one evidence says of it, in one of `COLUMNS`."""

    fuser: str
    column: str
    where: str = ""  # for what is wrong: which class, and how
    reason: str = ""  # for what is unknown


def is_yes(answer: str) -> bool:
    """Does an answer of vLLM's (see vllm_truth) mean that the fuser fires?"""
    return answer.startswith(("yes", "internal", "external"))


def judge_traced(record: Mapping[str, Any]) -> Iterable[Verdict]:
    """Right only where every instance has the same answer, with the same effect."""
    for fuser, answers in record["vllm"].items():
        apart = record["apart"].get(fuser)
        yes = any(map(is_yes, answers))
        if apart:
            yield Verdict(fuser, "wrong no" if yes else "wrong yes", f"{fuser}: {apart[0]}")
        else:
            yield Verdict(fuser, "right yes" if yes else "right no")


def judge_predicted(
    record: Mapping[str, Any], results: Mapping[str, Sequence[FusionResult]] | None
) -> Iterable[Verdict]:
    """``results`` are the predicted ones by fuser; None for a class that was not found."""
    where = f"{Path(record['file']).name} {record['class_name']}".strip()
    for fuser, answers in record["vllm"].items():
        found = () if results is None else results.get(fuser, ())
        kinds = {answer.partition(" ")[0] for answer in answers}
        predicted = {_predicted_kind(r, fuser) for r in found} or {
            "no" if results is not None else Fires.UNKNOWN.value
        }
        if len(kinds) > 1:
            yield Verdict(fuser, "mixed")
        elif predicted == kinds or (kinds == {"crash"} and predicted == {"no"}):
            yield Verdict(fuser, "right yes" if is_yes(*kinds) else "right no")
        elif Fires.UNKNOWN.value in predicted or len(predicted) > 1:
            reason = next((r.reason for r in found if r.fires is Fires.UNKNOWN), "not found")
            yield Verdict(fuser, "unknown", reason=reason)
        else:
            said = predicted.pop()
            line = next((r.span.line for r in found if r.span), "?")
            text = f"{where}:{line} {fuser}: vLLM {', '.join(sorted(answers))}, predicted {said}"
            reason = next((r.reason for r in found if r.reason), "")
            column = "wrong yes" if is_yes(said) else "wrong no"
            yield Verdict(fuser, column, f"{text} ({reason})" if reason else text)


def _predicted_kind(result: FusionResult, fuser: str) -> str:
    """``yes``, ``no`` or ``unknown``; of a MoE block, who routes."""
    if fuser == BLOCK and result.fires is Fires.YES:
        return "internal" if "internal" in result.becomes else "external"
    return result.fires.value


def tally(verdicts: Iterable[Verdict]) -> dict[str, dict[str, int]]:
    """{fuser: {column: how many pairs}}, and the same under "all"."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[verdict.fuser][verdict.column] += 1
        counts["all"][verdict.column] += 1
    return {fuser: {c: counts[fuser][c] for c in COLUMNS} for fuser in counts}


def shares(row: Mapping[str, int]) -> dict[str, float]:
    """Of the pairs that are not mixed: right, wrong and unknown, as shares of one."""
    judged = sum(row[c] for c in COLUMNS if c != "mixed") or 1
    return {
        "right": sum(row[c] for c in RIGHT) / judged,
        "wrong": sum(row[c] for c in WRONG) / judged,
        "unknown": row["unknown"] / judged,
    }


def merged(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One record per class, over all model types that have it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        key = record["file"], record["class_name"]
        whole = found.setdefault(key, {**dict(record), "vllm": {}, "apart": {}})
        for fuser, answers in record["vllm"].items():
            known = whole["vllm"].setdefault(fuser, [])
            known += [a for a in answers if a not in known]
        for fuser, differing in record["apart"].items():
            whole["apart"].setdefault(fuser, []).extend(differing)
    return list(found.values())


def predictions(
    records: Iterable[Mapping[str, Any]], contract: Contract
) -> dict[tuple[str, str], dict[str, list[FusionResult]]]:
    """{(file, class): {fuser: results}} from the source of every file in the records."""
    from modelcheck.fusers.predicted import predict_file
    from modelcheck.source.classes import ProjectIndex
    from modelcheck.source.text import read_source

    found: dict[tuple[str, str], dict[str, list[FusionResult]]] = {}
    for path in sorted({r["file"] for r in records if r["file"]}):
        file = ProjectIndex().add(read_source(path))
        for prediction in predict_file(file, contract, roots=True):
            found[path, prediction.info.name] = {r.fuser: [r] for r in prediction.results}
    return found


# The probes -------------------------------------------------------------------------------


def probe_records(limit: int) -> list[dict[str, Any]]:
    """vLLM's and the traced answers on every probe."""
    import importlib.util

    import probes
    import vllm_truth

    judge = vllm_truth.Judge(installed_contract())
    records = []
    for name in (probes.CASES, probes.MOE_MLA):
        spec = importlib.util.spec_from_file_location(name, probes.PROBES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        for probe, made in module.CASES.items():
            make = made[1] if isinstance(made, tuple) else made
            is_mla = name == probes.MOE_MLA
            head = probes.HEAD_SIZE
            with vllm_truth.time_limit(limit):
                seen = vllm_truth.judge_probe(judge, probe, make, head, is_mla, is_mla)
            records.append({**seen.to_json(), "file": name})
    return records


def probe_predictions(
    records: Iterable[Mapping[str, Any]], contract: Contract
) -> dict[tuple[str, str], dict[str, Sequence[FusionResult]] | None]:
    """The predicted answers on the same probes; None where a probe is no class of the file."""
    import probes

    files = {name: probes.index(name) for name in (probes.CASES, probes.MOE_MLA)}
    made = probes.constructions(files[probes.CASES])
    found: dict[tuple[str, str], dict[str, Sequence[FusionResult]] | None] = {}
    for record in records:
        file, probe = record["file"], record["class_name"]
        is_mla = file == probes.MOE_MLA
        expression = probes.moe_construction(probe) if is_mla else made.get(probe)
        results = (
            probes.judge(files[file], expression, contract, 1, is_mla)
            if expression is not None
            else {}
        )
        found[file, probe] = dict(results) or None
    return found


# Running it -------------------------------------------------------------------------------


def all_types() -> list[str]:
    """The model types of the installed transformers that have a base model, as vLLM builds."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(set(MODEL_MAPPING_NAMES) & set(CONFIG_MAPPING))


def installed_contract() -> Contract:
    """Of the vLLM in this Python."""
    import vllm

    return contract_for(vllm.__version__)


def work(types: Sequence[str], limit: int) -> dict[str, Any]:
    """One process's share of the model types."""
    import vllm_truth

    judge = vllm_truth.Judge(installed_contract())
    records: list[dict[str, Any]] = []
    unjudged: dict[str, str] = {}
    for number, model_type in enumerate(types, 1):
        print(f"[{number}/{len(types)}] {model_type}", file=sys.stderr, flush=True)
        seen, why_not = vllm_truth.judge_type(judge, model_type, limit)
        records += [record.to_json() for record in seen]
        if why_not:
            unjudged[model_type] = why_not
    return {"records": records, "unjudged": unjudged}


def in_processes(types: Sequence[str], jobs: int, limit: int) -> dict[str, Any]:
    """The same, in several processes."""
    if jobs == 1:
        return work(types, limit)
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for number in range(jobs):
            out = Path(folder) / f"{number}.json"
            command = [sys.executable, __file__, "--worker", str(out)]
            command += ["--types", ",".join(types[number::jobs]), "--limit-seconds", str(limit)]
            running.append((out, subprocess.Popen(command)))
        whole: dict[str, Any] = {"records": [], "unjudged": {}}
        for out, process in running:
            if process.wait() != 0:
                raise SystemExit(f"a worker ended with status {process.returncode}")
            part = json.loads(out.read_text())
            whole["records"] += part["records"]
            whole["unjudged"] |= part["unjudged"]
        return whole


def figures(
    records: Sequence[Mapping[str, Any]], predicted: Mapping[tuple[str, str], Any]
) -> dict[str, Any]:
    """Both evidences on the same pairs: tables, what is wrong, why unknown."""
    traced = [v for r in records for v in judge_traced(r)]
    guessed = [
        v for r in records for v in judge_predicted(r, predicted.get((r["file"], r["class_name"])))
    ]
    return {
        name: {
            "table": (table := tally(verdicts)),
            "shares": shares(table.get("all", dict.fromkeys(COLUMNS, 0))),
            "wrong": [v.where for v in verdicts if v.column in WRONG],
            "unknown": dict(Counter(v.reason for v in verdicts if v.reason).most_common()),
        }
        for name, verdicts in zip(EVIDENCES, (guessed, traced), strict=True)
    }


def show(title: str, found: Mapping[str, Any], fusers: Sequence[str]) -> None:
    """A table per evidence, and every disagreement."""
    for evidence in EVIDENCES:
        part = found[evidence]
        print(f"\n{title}, {evidence}")
        print(f"{'':22}" + "".join(f"{column:>11}" for column in COLUMNS))
        for fuser in (*fusers, BLOCK, "all"):
            row = part["table"].get(fuser)
            if row:
                print(f"{fuser:22}" + "".join(f"{row[column]:11}" for column in COLUMNS))
        print(", ".join(f"{name} {value:.2%}" for name, value in part["shares"].items()))
        for line in part["wrong"]:
            print(f"  wrong: {line}")
        for reason, count in list(part["unknown"].items())[:20]:
            print(f"  {count} unknown: {reason}")


def main() -> None:
    """Parse the options, run, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--types", help="model types, separated by commas (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--limit-seconds", type=int, default=240, help="per model type")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--no-probes", action="store_true", help="leave the probes out")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    types = options.types.split(",") if options.types else all_types()
    if options.worker:
        options.worker.write_text(json.dumps(work(types, options.limit_seconds)))
        return
    import torch
    import transformers
    import vllm

    contract = installed_contract()
    answers = in_processes(types, options.jobs, options.limit_seconds)
    records = merged(answers["records"])
    found = {"types": figures(records, predictions(records, contract))}
    show(f"{len(types) - len(answers['unjudged'])} model types", found["types"], contract.fusers)
    if not options.no_probes:
        probed = probe_records(options.limit_seconds)
        found["probes"] = figures(probed, probe_predictions(probed, contract))
        show(f"{len(probed)} probes", found["probes"], contract.fusers)
    for model_type, reason in sorted(answers["unjudged"].items()):
        print(f"not judged: {model_type}: {reason}")
    if options.json:
        versions = {m.__name__: m.__version__ for m in (vllm, transformers, torch)}
        whole = {"versions": versions, "not judged": answers["unjudged"], **found}
        options.json.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
