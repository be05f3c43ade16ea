"""All that modelcheck asks of vLLM's Python API, for the releases 0.27.1 to 0.33.

Where releases differ, the object is asked what it has; no version number is compared. This
module is imported in the worker process only: it needs an interpreter that has vLLM.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modelcheck.errors import MissingDependency
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.vllm.logs import FusedLine, LogLine, fused_line, fused_lines

PREFIX = "model."  # the backend class holds the base model under this name
MAX_LEN = 128  # tokens; only sizes the (never used) cache bookkeeping


@dataclass(frozen=True)
class Built:
    """vLLM's model, and what it logged while it was built."""

    model: Any
    log: tuple[LogLine, ...]


def import_vllm(device: str) -> None:
    """Import vLLM for a device ("meta", "cpu", "cuda").

    A CUDA wheel on a machine without a GPU finds no platform; building on meta needs none, so
    the CPU one is named. Raises `MissingDependency` when vLLM is not there or cannot start.
    """
    import torch

    if device != "cuda" and not torch.cuda.is_available():
        os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
    try:
        # registers vLLM's attention in transformers, which a model is built with
        importlib.import_module("vllm.model_executor.models.transformers")
    except ImportError as error:
        cause = " ".join(str(error).split())
        raise MissingDependency(f"this Python cannot import vLLM: {cause}") from None


@contextlib.contextmanager
def recorded() -> Iterator[list[LogLine]]:
    """Collect everything that vLLM logs, debug lines included."""
    lines: list[LogLine] = []

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(LogLine(record.levelname, record.getMessage()))

    logger, recorder = logging.getLogger("vllm"), Recorder()
    before = logger.level, logger.propagate
    logger.addHandler(recorder)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    _forget_logged_once()
    try:
        yield lines
    finally:
        logger.removeHandler(recorder)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def _forget_logged_once() -> None:
    """Let vLLM say again what it says once a process, for the next model."""
    import vllm.logger

    for name, function in vars(vllm.logger).items():
        if name.startswith("_print_") and hasattr(function, "cache_clear"):
            function.cache_clear()


def _forget_matches() -> None:
    """Drop vLLM's per-process cache of matches, so that each model is analysed anew."""
    from vllm.model_executor.models.transformers import fuser

    for name in ("get_fusers", "get_fuser"):
        cache = getattr(getattr(fuser, name, None), "cache", None)
        if cache is not None:
            cache.clear()


@contextlib.contextmanager
def built(folder: str, *, device: str, trust_remote_code: bool) -> Iterator[Built]:
    """vLLM's Transformers backend class for a model folder, without an engine.

    One rank, bfloat16, no weights. The distributed state lives as long as the context: the
    expert-parallel group exists only if the configuration seen at set-up is an MoE.
    """
    import torch
    from vllm.config import ModelConfig, VllmConfig, set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model

    environment = dict(os.environ)  # a failed MLA match sets VLLM_MLA_DISABLE for good
    with recorded() as log, tempfile.TemporaryDirectory() as rendezvous:
        _forget_matches()
        model_config = ModelConfig(
            model=folder,
            model_impl="transformers",
            skip_tokenizer_init=True,
            trust_remote_code=trust_remote_code,
            dtype="bfloat16",
            enforce_eager=True,
            max_model_len=MAX_LEN,
        )
        config = VllmConfig(model_config=model_config)
        config.device_config.device = torch.device(device)
        with set_current_vllm_config(config), _one_rank(rendezvous):
            try:
                with torch.device(device):
                    model = initialize_model(vllm_config=config, model_config=model_config)
                yield Built(model, tuple(log))
            finally:
                os.environ.clear()
                os.environ.update(environment)


@contextlib.contextmanager
def _one_rank(folder: str) -> Iterator[None]:
    from vllm.distributed import parallel_state

    parallel_state.init_distributed_environment(1, 0, f"file://{folder}/rendezvous", 0, "gloo")
    parallel_state.initialize_model_parallel(1)
    try:
        yield
    finally:
        parallel_state.destroy_model_parallel()
        parallel_state.destroy_distributed_environment()


def fusions(built: Built, classes: Mapping[str, str]) -> dict[str, tuple[FusionResult, ...]]:
    """The fusers really applied to each module: path in the base model -> results.

    ``classes`` names the class of every module before vLLM replaced any.
    """
    backend, log = built.model, fused_lines(built.log)
    if hasattr(backend, "fusers"):  # 0.28: module path -> fuser; 0.30: -> fusers
        found = _from_attribute(backend, classes)
    else:
        found = _from_log(backend, classes, log)
    for path, result in _moe_blocks(backend, classes, log).items():
        found[path] = (result, *found.get(path, ()))
    return found


def _from_attribute(
    backend: Any, classes: Mapping[str, str]
) -> dict[str, tuple[FusionResult, ...]]:
    found = {}
    for qualified, value in backend.fusers.items():
        path = qualified.removeprefix(PREFIX)
        applied = value if isinstance(value, list) else [value]
        found[path] = tuple(_result(f, path, classes.get(path, "")) for f in applied)
    return found


def _result(fuser: Any, path: str, class_name: str) -> FusionResult:
    line = fused_line(fuser.info(path.rpartition(".")[2]))
    return FusionResult(
        fuser=type(fuser).__name__.removesuffix("Fuser"),
        fires=Fires.YES,
        class_name=class_name,
        becomes=line.becomes if line else "",
        shards=tuple((str(name), str(shard)) for name, shard in getattr(fuser, "shards", ())),
        details=_details(fuser),
    )


def _details(fuser: Any) -> tuple[tuple[str, str], ...]:
    """What the fuser found in the module, in the words that modelcheck's matchers use."""
    named = {
        "output": ("down_name", "o_name", "o_proj_name"),
        "kv_a_proj": ("kv_a_proj_name",),
        "kv_b_proj": ("kv_b_proj_name",),
    }
    details = {
        key: next((v for n in names if (v := getattr(fuser, n, None)) is not None), None)
        for key, names in named.items()
    }
    for key, name in (("scaling", "scale_expr"), ("s_aux", "s_aux_expr")):
        if (expression := getattr(fuser, name, None)) is not None:
            details[key] = ast.unparse(expression)
    if hasattr(fuser, "eps_attr"):
        value = getattr(fuser, "eps", None)
        details["eps"] = fuser.eps_attr or ("dtype default" if value is None else repr(value))
    return tuple(sorted((key, str(value)) for key, value in details.items() if value))


def _from_log(
    backend: Any, classes: Mapping[str, str], log: tuple[FusedLine, ...]
) -> dict[str, tuple[FusionResult, ...]]:
    """For 0.27, which keeps no record: the log names class and child, the module tells.

    The log says each text once, so whether one instance was fused is read off the module
    itself: a rewritten forward is bound to it, and a norm is of another class.
    """
    found = {}
    # a shared expert is a child of its block and of the runner: keep both of its paths
    modules = dict(backend.model.named_modules(remove_duplicate=False))
    for path, class_name in classes.items():
        module, child = modules.get(path), path.rpartition(".")[2]
        if module is None or not _changed(module, class_name):
            continue
        found[path] = tuple(
            FusionResult(line.fuser, Fires.YES, class_name, becomes=line.becomes)
            for line in dict.fromkeys(log)
            if line.fuser != "MoEBlock" and (line.class_name, line.child) == (class_name, child)
        )
    return {path: results for path, results in found.items() if results}


def _changed(module: Any, class_name: str) -> bool:
    return "forward" in vars(module) or type(module).__name__ != class_name


def _moe_blocks(
    backend: Any, classes: Mapping[str, str], log: tuple[FusedLine, ...]
) -> dict[str, FusionResult]:
    """The blocks whose experts vLLM runs, with who routes: vLLM (internal) or the block."""
    blocks = {id(block) for block in getattr(backend, "mlp_layers", ())}
    lines = {line.class_name: line for line in log if line.fuser == "MoEBlock"}
    found = {}
    for path, module in backend.model.named_modules():
        if id(module) not in blocks:
            continue
        name = classes.get(path, "")
        # A block that keeps its forward is logged under the class of its experts.
        line = lines.get(name) if "forward" in vars(module) else None
        routing = line.routing if line else "external"
        runner = line.becomes if line else _runner(lines.values())
        found[path] = FusionResult(
            "MoEBlock", Fires.YES, name, becomes=f"{runner} ({routing} routing)"
        )
    return found


def _runner(lines: Iterable[FusedLine]) -> str:
    return next((line.becomes for line in lines), "")


def backend_name(built: Built) -> str:
    """The backend class, "TransformersMoEForCausalLM"."""
    return type(built.model).__name__
