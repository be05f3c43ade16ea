"""vLLM's way of calling a base model: all sequences in one row, positions that begin anew.

No mask, no cache, no length: prompts together, then one token of each sequence a step. The last
prompt joins one step later, so that a step has both kinds. Source: vLLM 0.30 to 0.33.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from modelcheck.dryrun.causes import describe
from modelcheck.emulate.attention import Packing, Refused, Segment, attentions
from modelcheck.errors import ModelcheckError

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PretrainedConfig, PreTrainedModel


@dataclass(frozen=True)
class Head:
    """vLLM's own head: weight, bias, softcap, then scale; nothing else of the model's."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    softcap: float | None
    scale: float

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of hidden states."""
        logits = torch.nn.functional.linear(hidden, self.weight, self.bias)
        if self.softcap is not None:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return (logits * self.scale).log_softmax(-1)


def head_of(whole: PreTrainedModel, config: PretrainedConfig) -> Head:
    """The head that vLLM makes for a model. Raises `Refused` where the weights do not fit it."""
    text = config.get_text_config()
    own = getattr(whole, "lm_head", None)
    own = whole.get_output_embeddings() if own is None else own
    tied = any(getattr(c, "tie_word_embeddings", False) for c in (text, config))
    source = whole.get_input_embeddings() if tied else own
    weight = getattr(source, "weight", None)
    if weight is None:
        raise Refused("the model has no output embeddings that vLLM could use for its head")
    shape = (text.vocab_size, text.hidden_size)
    if tuple(weight.shape) != shape:
        raise Refused(f"the head's weight is {tuple(weight.shape)}, vLLM's is {shape}")
    scale = getattr(text, "logit_scale", None)
    return Head(
        weight=weight.detach(),
        bias=getattr(own, "bias", None),
        softcap=getattr(text, "final_logit_softcapping", None),
        scale=1.0 if scale is None else float(scale),
    )


@dataclass(frozen=True)
class Fed:
    """What one sequence was fed, and the output at each of its tokens."""

    prompt: tuple[int, ...]
    fed: list[int] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    outputs: list[torch.Tensor] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """One call: (sequence, its tokens, position of the first) for each."""

    parts: tuple[tuple[int, tuple[int, ...], int], ...]

    @property
    def tokens(self) -> int:
        """How many tokens the row has."""
        return sum(len(tokens) for _, tokens, _ in self.parts)


class Engine:
    """A base model, its attention, and the head (None: outputs are hidden states)."""

    def __init__(
        self,
        base: PreTrainedModel,
        packing: Packing,
        head: Head | None,
        source: Path | None = None,
    ) -> None:
        self.base, self.packing, self.head, self.source = base, packing, head, source
        text = base.config.get_text_config()
        # vLLM's embedding classes know these models by name, and that they begin after padding.
        shifted = head is None and "roberta" in text.model_type
        self.offset = text.pad_token_id + 1 if shifted else 0

    def reset(self) -> None:
        """Forget all sequences."""
        for attention in attentions(self.base):
            attention.cache.clear()

    def call(self, step: Step, *, embeds: bool = False, stretch: int = 1) -> torch.Tensor:
        """The hidden states of a step, [tokens, width]. ``stretch`` multiplies the positions.

        Raises `Refused` with what the model raises.
        """
        ids = torch.tensor([[t for _, tokens, _ in step.parts for t in tokens]])
        positions = torch.tensor(
            [[self.offset + p + i for _, tokens, p in step.parts for i in range(len(tokens))]]
        )
        self.packing.segments = _segments(step)
        given: dict[str, Any] = {"input_ids": ids, "inputs_embeds": None}
        try:
            with torch.no_grad():
                if embeds:
                    own = self.base.get_input_embeddings()(ids)
                    given = {"input_ids": None, "inputs_embeds": own}
                out = self.base(
                    **given, use_cache=False, position_ids=positions * stretch, return_dict=False
                )
            hidden: torch.Tensor = out[0][0, ...]
        except ModelcheckError:
            raise
        except Exception as error:
            raise Refused(f"vLLM's call fails: {describe(error, self.source)}") from error
        return hidden.float()

    def outputs(self, hidden: torch.Tensor) -> torch.Tensor:
        """Log-probabilities, or the hidden states themselves without a head."""
        with torch.no_grad():
            return hidden if self.head is None else self.head(hidden)

    def generate(
        self, prompts: Sequence[Sequence[int]], steps: int, seed: int = 0
    ) -> tuple[list[Fed], list[Step]]:
        """Greedy tokens and the outputs at all tokens; without a head, tokens by ``seed``."""
        self.reset()
        generator = torch.Generator().manual_seed(seed)
        sequences = [Fed(tuple(prompt)) for prompt in prompts]
        done: list[Step] = []
        while (step := _next_step(sequences, steps, len(done))) is not None:
            rows = self.outputs(self.call(step))
            done.append(step)
            start = 0
            for index, tokens, _ in step.parts:
                own = rows[start : start + len(tokens)]
                start += len(tokens)
                sequence = sequences[index]
                sequence.fed.extend(tokens)
                sequence.outputs.extend(own)
                sequence.chosen.append(self._choose(own[-1], sequence.prompt, generator))
        return sequences, done

    def _choose(
        self, last: torch.Tensor, prompt: tuple[int, ...], generator: torch.Generator
    ) -> int:
        if self.head is not None:
            return int(last.argmax())
        return prompt[int(torch.randint(len(prompt), (1,), generator=generator))]


def _next_step(sequences: list[Fed], steps: int, index: int) -> Step | None:
    parts: list[tuple[int, tuple[int, ...], int]] = []
    last = len(sequences) - 1
    for number, sequence in enumerate(sequences):
        if not sequence.fed:
            if number == last and steps and last and index == 0:
                continue  # joins later
            parts.append((number, sequence.prompt, 0))
        elif len(sequence.fed) < len(sequence.prompt) + steps:
            parts.append((number, (sequence.chosen[-1],), len(sequence.fed)))
    return Step(tuple(parts)) if parts else None


def _segments(step: Step) -> list[Segment]:
    segments, start = [], 0
    for sequence, tokens, position in step.parts:
        segments.append(Segment(sequence, start, start + len(tokens), position))
        start += len(tokens)
    return segments
