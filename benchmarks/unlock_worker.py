"""Jobs of benchmarks/unlock.py that run a model, under its own release or under the newest."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
from torch import nn

CROSS = ("cross", "encoder_attn")  # in the names of modules
STATE_SPACE = ("A_log", "time_decay", "recurrent_param")  # names of parameters
RELATIVE = re.compile(r"relative|rel_pos|distance_embedding|position_bias|r_r_bias")
TOKENS = [[3, 17, 42, 9, 77, 23, 51, 8]]


def build(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Does the folder's model import, build and run? ``step`` is the first that does not.

    With ``facts``, what kind of a decoder it is (see `kinds`).
    """
    torch.set_num_threads(1)
    step = "import"
    try:
        from transformers import AutoConfig
        from transformers.dynamic_module_utils import get_class_from_dynamic_module

        folder = payload["folder"]
        config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
        cls = get_class_from_dynamic_module(config.auto_map["AutoModelForCausalLM"], folder)
        step = "build"
        config._attn_implementation = "eager"
        torch.manual_seed(0)
        model = cls._from_config(config).float().eval()
        step = "run"
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.normal_(std=parameter.shape[-1] ** -0.5)
        logits = _logits(model, TOKENS)
    except Exception as error:
        return {"step": step, "error": f"{type(error).__name__}: {_line(error)}"}
    if not logits.isfinite().all():
        return {"step": "run", "error": "NaN or infinity"}
    return {"step": "", "error": "", "kinds": kinds(model) if payload.get("facts") else []}


def kinds(model: nn.Module) -> list[str]:
    """What vLLM's backend has no place for in this model; empty for a plain decoder."""
    modules = dict(model.named_modules())
    parameters = [name for name, _ in model.named_parameters()]
    found = []
    if any(word in name.lower() for name in modules for word in CROSS):
        found.append("cross-attention")
    if _alibi(model):
        found.append("ALiBi")
    if any(RELATIVE.search(name) for name in [*modules, *parameters]):
        found.append("relative bias")
    if any(word in name for name in parameters for word in STATE_SPACE) or any(
        isinstance(module, nn.Conv1d) for module in modules.values()
    ):
        found.append("state-space or convolution")
    if not _causal(model):
        found.append("not causal")
    return found


def _alibi(model: nn.Module) -> bool:
    """Is a function or class for ALiBi called in a run?"""
    called: set[str] = set()

    def trace(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            called.add(frame.f_code.co_name)

    sys.setprofile(trace)
    try:
        _logits(model, TOKENS)
    finally:
        sys.setprofile(None)
    return any("alibi" in name for name in called)


def _causal(model: nn.Module) -> bool:
    """Do earlier outputs stay when the last token changes?"""
    other = [[*TOKENS[0][:-1], TOKENS[0][-1] + 1]]
    first, second = _logits(model, TOKENS), _logits(model, other)
    return bool(torch.allclose(first[0, :-1], second[0, :-1], atol=1e-4))


def _logits(model: nn.Module, tokens: list[list[int]]) -> torch.Tensor:
    flags = {"use_cache": False} if "use_cache" in signature(model.forward).parameters else {}
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor(tokens), **flags)[0]
    return logits


def _line(error: Exception) -> str:
    """The first line of a message, without the place of this machine's temporary files."""
    lines = str(error).strip().splitlines() or [""]
    return lines[0].replace(os.path.expanduser("~"), "~")[:160]


def fix(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What ``modelcheck fix`` makes of a folder: the new texts, the verdict, what is left."""
    from modelcheck.repair import Workshop, prepare

    folder = payload["folder"]
    with Workshop(folder) as copy:
        repair = prepare(folder, copy, unsafe=payload["unsafe"])
    verdict = repair.after[0]
    return {
        "texts": {os.path.basename(c.path): c.new.decode() for c in repair.changes},
        "verdict": verdict.outcome.value,
        "text": verdict.text,
        "applied": dict(repair.applied),
        "refused": [str(unfixed) for _, unfixed in repair.refused],
        "left": [f"{f.span.line}: {f.code} {f.class_name}: {f.message}" for f in repair.left],
    }


def numbers(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The new code in vLLM's way of calling against the old one under its own release."""
    from modelcheck.dryrun.target import BuildSpec
    from modelcheck.emulate import EmulateSpec, compare_runs

    old, new = (
        EmulateSpec(BuildSpec(payload[key], None, True), weights="random") for key in ("old", "new")
    )
    report = compare_runs(old, new, python=payload["old_python"])
    keys = [*report.missing, *report.unexpected, *report.reshaped]
    headless = report.new.compared != "log-probabilities"
    error = ""
    if not report.prompts:
        error = f"refused: {'; '.join(report.new.causes)}"
    elif not report.same_keys:
        error = f"other state-dict keys: {', '.join(keys[:3])}"
    elif not report.same:
        first = report.first
        place = f"{first.class_name} in {first.phase}" if first else "somewhere"
        error = f"differs first in {place}; {'; '.join(report.new.causes)}"
    elif report.new.lost_buffers:
        error = f"lost buffers: {', '.join(report.new.lost_buffers[:3])}"
    elif headless:
        error = "it has no head that vLLM has: the hidden states are the same"
    return {
        "same": report.same and not report.new.lost_buffers and not headless,
        "differs": bool(report.prompts) and not report.same,
        "error": error,
        "largest": max((max(p.prefill, p.decode or 0.0) for p in report.prompts), default=None),
        "notes": list(report.new.notes),
    }
