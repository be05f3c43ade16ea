"""The ordinary run: transformers alone, one sequence at a time, its own masks and positions.

Also runs under an old transformers, in another interpreter: nothing here is newer than 4.36.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from modelcheck.errors import BuildError

# What an architecture is called that vLLM generates with; others give hidden states.
GENERATING = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")


def build_ordinary(
    config: Any, trust_remote_code: bool, seed: int, *, head: bool = True
) -> tuple[Any, bool]:
    """The model with its head, if there is one and vLLM would use it; (model, has a head)."""
    from transformers import AutoModel, AutoModelForCausalLM

    has_head = head and _has_head(config, trust_remote_code)
    torch.manual_seed(seed)
    model = (AutoModelForCausalLM if has_head else AutoModel).from_config(
        config, trust_remote_code=trust_remote_code, attn_implementation="eager"
    )
    return model.float().eval(), has_head


def _has_head(config: Any, trust_remote_code: bool) -> bool:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    named = (getattr(config, "architectures", None) or [GENERATING[0]])[0]
    if not named.endswith(GENERATING):
        return False  # vLLM runs it for its hidden states
    entries = getattr(config, "auto_map", None) or {}
    if trust_remote_code and entries:
        return "AutoModelForCausalLM" in entries
    return type(config) in MODEL_FOR_CAUSAL_LM_MAPPING


def outputs(model: Any, tokens: Sequence[int], has_head: bool) -> torch.Tensor:
    """Log-probabilities (or hidden states) of one sequence, [tokens, width], without a cache."""
    with torch.no_grad():
        out = model(input_ids=torch.tensor([list(tokens)]), **_flags(model, use_cache=False))
    return rows(out, has_head)


def rows(out: Any, has_head: bool) -> torch.Tensor:
    """The first output without its batch axis."""
    first: torch.Tensor = out[0][0].float()
    return first.log_softmax(-1) if has_head else first


def _flags(model: Any, **values: Any) -> dict[str, Any]:
    taken = inspect.signature(model.forward).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    return {name: value for name, value in values.items() if anything or name in taken}


def cached_outputs(model: Any, tokens: Sequence[int], prompt: int, has_head: bool) -> torch.Tensor:
    """The same with a cache: the prompt at once, then token by token."""
    ids, found, cache = torch.tensor([list(tokens)]), [], None
    for start in (0, *range(prompt, len(tokens))):
        part = ids[:, start : start + 1] if start else ids[:, :prompt]
        with torch.no_grad():
            out = model(input_ids=part, past_key_values=cache, use_cache=True)
        found.append(rows(out, has_head))
        cache = out.past_key_values
    return torch.cat(found)


def base_of(model: Any, class_name: str) -> Any:
    """The module of the base model's class inside a model with a head, or the model itself.

    A version of the code in which the class has another name has it under its own prefix.
    """
    same = (m for m in model.modules() if type(m).__name__ == class_name)
    found = next(same, None) or getattr(model, model.base_model_prefix or "", None)
    return model if found is None else found


def old_job(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The old version's run on the new one's weights and tokens, compared with its outputs.

    ``payload``: ``folder``, ``trust_remote_code``, ``changes`` (values of the configuration),
    ``seed``, ``tolerance`` and ``record``, a file that the new version's run has written.
    """
    import transformers

    from modelcheck.emulate.compare import prompt_result
    from modelcheck.emulate.locate import captured, first_difference

    record = torch.load(payload["record"], weights_only=True)
    try:
        model, has_head = build_ordinary(
            _old_config(payload), payload["trust_remote_code"], payload["seed"]
        )
    except Exception as error:
        text = " ".join(str(error).split())
        raise BuildError(f"{payload['folder']}: {type(error).__name__}: {text}") from error
    state, own = record["state"], model.state_dict()
    reshaped = [n for n in own if n in state and own[n].shape != state[n].shape]
    model.load_state_dict({n: v for n, v in state.items() if n not in reshaped}, strict=False)
    if has_head != record["has_head"]:
        raise BuildError(f"{payload['folder']}: only one of the two versions has a language head")
    tolerance, sequences = payload["tolerance"], record["sequences"]
    results = [
        prompt_result(outputs(model, tokens, has_head), theirs, length, has_head, tolerance)
        for tokens, length, theirs in zip(
            sequences, record["lengths"], record["outputs"], strict=True
        )
    ]
    first = None
    if any(result.differs(tolerance) for result in results):
        mine = captured(model, sequences, has_head, record["base_class"])
        first = first_difference(mine, record["captures"], tolerance, "prefill")
    return {
        "missing": sorted(set(own) - set(state)),
        "unexpected": sorted(set(state) - set(own)),
        "reshaped": sorted(reshaped),
        "prompts": [vars(result) for result in results],
        "first": vars(first) if first is not None else None,
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
    }


def _old_config(payload: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(
        str(Path(payload["folder"]).resolve()), trust_remote_code=payload["trust_remote_code"]
    )
    _change(config, payload["changes"])
    config.torch_dtype = torch.float32
    return config


def _change(config: Any, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        part = getattr(config, key, None)
        if hasattr(part, "to_dict") and isinstance(value, Mapping):
            _change(part, value)
        else:
            setattr(config, key, value)
