"""The vLLM side of parity: real engines on saved weights, beside recorded outputs.

Runs through `modelcheck.worker.run_job`, with an interpreter that has vLLM.
"""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from modelcheck.emulate.compare import prompt_result
from modelcheck.emulate.results import PromptResult
from modelcheck.errors import BuildError
from modelcheck.vllm import adapter, parity_locate
from modelcheck.vllm.engine import engine_environment
from modelcheck.vllm.refusal import refusal

LATENT = (
    "a limit of vLLM's CPU build, not of the model: it has no latent attention in float32, and "
    "runs it as full attention, which is sharded otherwise"
)
BLOCK = 32  # tokens; what the CPU's attention takes, also where latent attention would use 16
GROUPS = 8  # of layers: where their attention differs, vLLM gives each group its own blocks
MAX_LEN = 64  # tokens; the longest prompt and what is generated after it


def job(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Run models one after another in one process.

    ``payload``: ``runs``, each with ``folder`` (as `reference.job` leaves it), ``tp``,
    ``trust_remote_code``, ``latent`` and ``fused_latent`` (the reference's), ``record`` (a file
    in the folder to compare with), ``write`` (a file to write the outputs to, or None) and
    ``tolerance``. The answer's ``runs`` have ``prompts`` (`PromptResult` as JSON), ``shards``
    and ``first`` (a `FirstDifference` as JSON, or None), or ``error``.
    """
    engine_environment()
    # Ranks on a CPU are bound to memory nodes of their own; a small machine has one.
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    adapter.import_vllm("cpu" if not torch.cuda.is_available() else "cuda")
    return {"runs": [_guarded(run) for run in payload["runs"]]}


def _guarded(run: Mapping[str, Any]) -> dict[str, Any]:
    environment = dict(os.environ)  # vLLM switches latent attention off for good when it fails
    try:
        if run["latent"] and not torch.cuda.is_available():
            if run["tp"] > 1 and run["fused_latent"]:
                raise BuildError(LATENT)
            os.environ["VLLM_MLA_DISABLE"] = "1"
        return _run(run)
    except MemoryError:
        raise
    except BuildError as error:
        return {"error": str(error)}
    except Exception as error:
        traceback.print_exc()  # to the worker's log, which --verbose shows
        return {"error": refusal(error, None, "cpu")}
    finally:
        os.environ.clear()
        os.environ.update(environment)


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    from vllm import LLM

    folder = Path(run["folder"])
    if not (folder / run["record"]).exists():
        raise BuildError("not run, as one rank gave nothing to compare with")
    recorded = torch.load(folder / run["record"], weights_only=True)
    prompts, fed, expected = recorded["prompts"], recorded["fed"], recorded["outputs"]
    llm = LLM(
        model=str(folder),
        model_impl="transformers",
        trust_remote_code=run["trust_remote_code"],
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        tensor_parallel_size=run["tp"],
        max_model_len=MAX_LEN,
        max_num_seqs=len(prompts),
        max_num_batched_tokens=MAX_LEN * len(prompts),
        enable_prefix_caching=False,
        block_size=BLOCK,
        num_gpu_blocks_override=2 * MAX_LEN // BLOCK * len(prompts) * GROUPS,
        max_logprobs=-1,
        logprobs_mode="raw_logprobs",
    )
    try:
        steps = len(fed[0]) - len(prompts[0])
        tokens, outputs = _generate(llm, prompts, steps)
        shards = llm.apply_model(shard_rows)
        results = [
            _compared(*one, steps, run["tolerance"])
            for one in zip(prompts, fed, expected, tokens, outputs, strict=True)
        ]
        first = _first(llm, folder, run, prompts, fed, results)
    finally:
        _close(llm)
        del llm
    if run["write"]:
        record = {"prompts": prompts, "fed": tokens, "outputs": outputs}
        torch.save(record, folder / run["write"])
    return {"prompts": results, "shards": shards, "first": first}


def _first(
    llm: Any,
    folder: Path,
    run: Mapping[str, Any],
    prompts: Sequence[Sequence[int]],
    fed: Sequence[Sequence[int]],
    results: Sequence[Mapping[str, Any]],
) -> dict[str, Any] | None:
    """Where the first prompt that differs begins to; None on several ranks, or without any."""
    if run["tp"] > 1:
        return None
    tolerance = run["tolerance"]
    for index, result in enumerate(results):
        if PromptResult(**result).differs(tolerance):
            try:
                length, prefill = len(prompts[index]), not result["prefill"] <= tolerance
                return parity_locate.first(llm, folder, fed, index, length, tolerance, prefill)
            except Exception:  # the numbers stand without it
                traceback.print_exc()
                return None
    return None


def _compared(
    prompt: Sequence[int],
    wanted: Sequence[int],
    expected: torch.Tensor,
    made: Sequence[int],
    rows: torch.Tensor,
    steps: int,
    tolerance: float,
) -> dict[str, Any]:
    """A `PromptResult` of the outputs for the same tokens: up to the first made otherwise.

    Of two tokens that are as likely, within ``tolerance``, either is right.
    """
    length = len(prompt)
    pairs = zip(wanted[length:], made[length:], strict=True)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), steps)
    known = min(length + same, len(rows))
    found = prompt_result(expected[:known], rows[:known], length, True, tolerance)
    if same < steps:
        row = expected[length - 1 + same]
        tied = bool(row.max() - row[made[length + same]] <= tolerance)
    return {**vars(found), "steps": steps, "greedy": steps if same == steps or tied else same}


def _generate(
    llm: Any, prompts: Sequence[Sequence[int]], steps: int
) -> tuple[list[list[int]], list[torch.Tensor]]:
    """Greedy tokens after each prompt, and the log-probabilities at every token but the last."""
    from vllm import SamplingParams

    sampling = SamplingParams(
        temperature=0.0,
        max_tokens=steps,
        ignore_eos=True,
        logprobs=-1,
        prompt_logprobs=-1,
        detokenize=False,
    )
    asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
    tokens, outputs = [], []
    for prompt, answer in zip(prompts, llm.generate(asked, sampling, use_tqdm=False), strict=True):
        made = answer.outputs[0]
        rows = [*answer.prompt_logprobs[1:], *made.logprobs]
        tokens.append([*prompt, *made.token_ids])
        outputs.append(torch.stack([_row(row) for row in rows]))
    return tokens, outputs


def _row(row: Mapping[int, Any]) -> torch.Tensor:
    return torch.tensor([row[token].logprob for token in range(len(row))])


def shard_rows(model: Any) -> dict[str, Any]:
    """What one rank holds: the rows of each part of its linears, by the path of the layer."""
    from vllm.model_executor.layers.linear import LinearBase

    return {
        path.removeprefix(adapter.PREFIX): {
            "layer": type(module).__name__,
            "sizes": [
                int(n) for n in getattr(module, "output_sizes", None) or [module.output_size]
            ],
            "rows": [
                int(n)
                for n in getattr(module, "output_partition_sizes", None) or [module.output_size]
            ],
            "inputs": int(getattr(module, "input_size_per_partition", module.input_size)),
            "kv_replicas": int(getattr(module, "num_kv_head_replicas", 1)),
        }
        for path, module in model.named_modules()
        if isinstance(module, LinearBase)
    }


def _close(llm: Any) -> None:
    """End an engine and its ranks, so that the process is good for another."""
    from vllm.distributed import cleanup_dist_env_and_memory

    shutdown = getattr(getattr(llm.llm_engine, "engine_core", None), "shutdown", None)
    if callable(shutdown):
        shutdown()
    cleanup_dist_env_and_memory()
    gc.collect()
