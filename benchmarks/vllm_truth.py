"""What vLLM's own fusers say of modules, beside what `traced` evidence says of the same ones.

The half of `accuracy.py` that runs in a Python with vLLM 0.25 or newer; without a device.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, SimpleNamespace
from typing import Any

os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch
from torch import nn

from modelcheck.dryrun.build import build, register_attention
from modelcheck.dryrun.target import BuildSpec
from modelcheck.fusers import moe
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Env
from modelcheck.fusers.results import FusionResult
from modelcheck.fusers.torch_facts import TorchFacts
from modelcheck.fusers.traced import Structures, head_size

BACKEND = "vllm.model_executor.models.transformers"
CRASH = "crash"
ASSUMED_HEAD = 64  # for both, where the configuration (of a vision model) has no head size
OUTPUTS = ("o_name", "down_name", "o_proj_name")  # a fuser's row-parallel projection


class TimedOut(BaseException):
    """Not an Exception: vLLM's tracer swallows those."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `TimedOut` in the block after that many seconds."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimedOut

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Seen:
    """Answers on one class, over all its instances: {fuser: {vLLM's answers}} and the same traced.

    ``file`` is the source of the class; ``apart`` are the instances on which the two differ.
    """

    file: str
    class_name: str
    vllm: dict[str, set[str]] = field(default_factory=dict)
    apart: dict[str, list[str]] = field(default_factory=dict)

    def add(self, fuser: str, theirs: str, ours: str, where: str) -> None:
        """One instance, one fuser."""
        self.vllm.setdefault(fuser, set()).add(theirs)
        if theirs != ours:
            self.apart.setdefault(fuser, []).append(f"{where}: vLLM {theirs}, traced {ours}")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "file": self.file,
            "class_name": self.class_name,
            "vllm": {fuser: sorted(answers) for fuser, answers in self.vllm.items()},
            "apart": self.apart,
        }


class Judge:
    """vLLM's fusers, whichever of their interfaces the installed release has."""

    def __init__(self, contract: Contract) -> None:
        logging.disable(logging.ERROR)
        self.contract = contract
        self.fuser = importlib.import_module(f"{BACKEND}.fuser")
        self.block: Any = importlib.import_module(f"{BACKEND}.fusers.moe").MoEBlockFuser
        register_attention()

    def fusers(self, model: nn.Module, env: Env) -> Any:
        """vLLM's own mapping from a model's modules to their fusers."""
        for name in ("get_fusers", "get_fuser"):
            cache = getattr(getattr(self.fuser, name, None), "cache", None)
            if cache is not None:
                cache.clear()  # a process of vLLM has one model only
        whole = SimpleNamespace(
            get_head_size=lambda: env.head_size, use_mla=env.use_mla, dtype=torch.float32
        )
        parallel = SimpleNamespace(tensor_parallel_size=env.tp)
        config = SimpleNamespace(model_config=whole, parallel_config=parallel, **vars(whole))
        return self.fuser.Fusers(model, config)

    def taken(self, fusers: Any, module: nn.Module) -> dict[str, Any]:
        """{name: vLLM's fuser} for a module, in vLLM's order."""
        found = fusers[module]
        listed = found if isinstance(found, list) else [found]
        return {type(f).__name__.removesuffix("Fuser"): f for f in listed if f is not None}

    def routing(self, module: nn.Module) -> str:
        """What vLLM makes of a block with replaceable experts."""
        found = self.block.match(module, moe.EXPERTS)
        if found is None or found.scoring_func is None:
            shared = found is not None and found.shared_name
            return f"external {found.shared_name}" if shared else "external"
        dtype = getattr(found, "router_dtype", None)
        parts = (found.gate_name, found.scoring_func, found.shared_name, found.shared_gate_name)
        return " ".join(["internal", *(str(p) for p in (*parts, dtype) if p)])


def routing_of(result: FusionResult) -> str:
    """The same of a traced result."""
    details = dict(result.details)
    if "internal" not in result.becomes:
        whole = "shared" in details and "why_external" not in details
        return f"external {details['shared']}" if whole else "external"
    names = ("gate", "scoring", "shared", "shared_gate", "router_dtype")
    return " ".join(["internal", *(details[n] for n in names if n in details)])


def effect(theirs: Any) -> str:
    """What one of vLLM's fusers merges, into what."""
    shards = " ".join(f"{name}={shard}" for name, shard in getattr(theirs, "shards", None) or ())
    output = next((o for n in OUTPUTS if (o := getattr(theirs, n, None))), "")
    gemma = "zero-centred" if getattr(theirs, "zero_centered", False) else ""
    eps = getattr(theirs, "eps_attr", None) or ""
    return " ".join(filter(None, ["yes", shards, output and f"output={output}", gemma, eps]))


def effect_of(result: FusionResult, contract: Contract) -> str:
    """The same of a traced result."""
    details = dict(result.details)
    packed = result.fuser == "PackedQKV"  # it has no shards in vLLM
    shards = "" if packed else " ".join(f"{name}={shard}" for name, shard in result.shards)
    output = details.get("output", "")
    gemma = "zero-centred" if result.becomes == "GemmaRMSNorm" else ""
    eps = details.get("eps", "") if contract.eps_by_attribute else ""
    eps = eps if eps.isidentifier() else ""  # else it is a number, or the dtype's default
    return " ".join(filter(None, ["yes", shards, output and f"output={output}", gemma, eps]))


def judge_type(judge: Judge, model_type: str, limit: int) -> tuple[list[Seen], str]:
    """All classes of one model type of transformers, and why not, where it cannot be judged."""
    try:
        with time_limit(limit):
            built = build(BuildSpec(model_type=model_type, any_class=True))
            text = built.config.get_text_config()
            uses_mla = "MLA" in judge.contract.fusers and _read(text, "kv_lora_rank") is not None
            env = Env(judge.contract, 1, head_size(text) or ASSUMED_HEAD, uses_mla)
            return judge_model(judge, built.model, env, model_type), ""
    except TimedOut:
        return [], f"not judged within {limit} s"
    except Exception as error:
        return [], " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _read(config: Any, name: str) -> Any:
    try:
        return getattr(config, name, None)
    except Exception:  # a field that differs by layer
        return None


def judge_model(judge: Judge, model: nn.Module, env: Env, where: str) -> list[Seen]:
    """Every module of a model whose class is not torch's own."""
    fusers = judge.fusers(model, env)
    structures = Structures(model, env)
    seen: dict[type, Seen] = {}
    blocks: dict[Any, tuple[str, str]] = {}
    for path, module in model.named_modules():
        kind = type(module)
        if not path or kind.__module__.startswith("torch."):
            continue
        facts = TorchFacts(module, judge.contract)
        record = seen.setdefault(kind, Seen(_file(kind), kind.__name__))
        _compare(record, judge, fusers, structures, facts, f"{where} {path}")
        if moe.has_replaceable_experts(facts):
            key = (kind, facts.child_names)
            if key not in blocks:  # vLLM looks at each, which takes long and tells no more
                ours = moe.match_block(facts, env)
                blocks[key] = judge.routing(module), routing_of(ours)
            record.add(moe.NAME, *blocks[key], f"{where} {path}")
        else:
            record.add(moe.NAME, "no", "no", path)
    return list(seen.values())


def _compare(
    record: Seen,
    judge: Judge,
    fusers: Any,
    structures: Structures,
    facts: TorchFacts,
    where: str,
) -> None:
    theirs = {name: effect(f) for name, f in judge.taken(fusers, facts.module).items()}
    chosen, _ = structures.fusers(facts)
    ours = {result.fuser: effect_of(result, judge.contract) for result in chosen}
    for name in judge.contract.fusers:
        record.add(name, theirs.get(name, "no"), ours.get(name, "no"), where)


def _file(kind: type) -> str:
    try:
        return inspect.getsourcefile(kind) or ""
    except TypeError:
        return ""


def judge_probe(
    judge: Judge, name: str, make: Callable[[], nn.Module], head: int, use_mla: bool, meta: bool
) -> Seen:
    """One probe, as the only module of a model; a crash of vLLM's is an answer too."""
    with torch.device("meta") if meta else torch.device("cpu"):
        module = make()
    env = Env(judge.contract, 1, head, use_mla and "MLA" in judge.contract.fusers)
    record = Seen("", name)
    facts = TorchFacts(module, judge.contract)
    model = nn.Sequential(module)
    try:
        fusers = judge.fusers(model, env)
    except Exception:
        chosen, missed = Structures(model, env).fusers(facts)
        crashes = not chosen and any(("kind", "crash") in m.details for m in missed)
        for fuser in judge.contract.fusers:
            record.add(fuser, CRASH, CRASH if crashes else "no crash", name)
        return record
    _compare(record, judge, fusers, Structures(model, env), facts, name)
    if moe.has_replaceable_experts(facts):
        record.add(moe.NAME, judge.routing(module), routing_of(moe.match_block(facts, env)), name)
    return record
