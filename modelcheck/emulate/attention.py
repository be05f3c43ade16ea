"""vLLM's attention, imitated: what it takes from the config, and what it computes.

Each attention module gets an object of its own under the name ``attn``, with the keys and
values of every sequence. Source: vLLM 0.30 to 0.33, in float32 and without a paged cache.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from modelcheck.errors import BuildError
from modelcheck.fusers.attention import IMPLEMENTATIONS, interface_calls

if TYPE_CHECKING:
    from transformers import PretrainedConfig

KV_HEADS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
ATTRIBUTE = "attn"
SLIDING = "sliding_attention"


class Refused(BuildError):
    """vLLM would stop here, with this for a reason."""


@dataclass(frozen=True)
class Segment:
    """Tokens of one sequence in the packed row: rows ``start`` to ``end``, from ``position``."""

    sequence: int
    start: int
    end: int
    position: int


@dataclass
class Packing:
    """The segments of the step that runs, and what was seen at the interface so far.

    ``masks`` are the modules that were given a mask, ``windows`` and ``softcaps`` what they asked
    for and what vLLM uses instead.
    """

    segments: list[Segment] = field(default_factory=list)
    masks: set[str] = field(default_factory=set)
    windows: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    softcaps: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    scalings: dict[str, tuple[float, float]] = field(default_factory=dict)


class EmulatedAttention(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention of one layer over the sequences of a packed row.

    ``kv_heads`` is None for latent attention, whose heads vLLM does not take from the config.
    """

    def __init__(
        self,
        path: str,
        heads: int,
        kv_heads: int | None,
        head_size: int,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: nn.Parameter | None,
        causal: bool,
        packing: Packing,
    ) -> None:
        super().__init__()
        self.path, self.heads, self.kv_heads = path, heads, kv_heads
        self.head_size, self.scale = head_size, scale
        self.window, self.softcap, self.causal = window, softcap, causal
        self.packing = packing
        self.cache: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._sinks = [sinks]  # in a list: a parameter of the model, not of this module

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Rows of tokens in, [tokens, heads * head_size] out."""
        tokens = query.shape[0]
        query = self._heads("query", query, self.heads)
        key, value = (
            self._heads("key", key, self.kv_heads),
            self._heads("value", value, self.kv_heads),
        )
        rows = [self._segment(s, query, key, value) for s in self.packing.segments]
        return torch.cat(rows).reshape(tokens, -1)

    def _heads(self, name: str, rows: torch.Tensor, heads: int | None) -> torch.Tensor:
        width = rows.shape[-1]
        expected = heads * self.head_size if heads is not None else width
        if width != expected or width % self.head_size:
            raise Refused(
                f"{self.path}: {name} has {width} numbers a token, and vLLM takes {heads} heads "
                f"of {self.head_size} from the config ({expected})"
            )
        return rows.view(rows.shape[0], -1, self.head_size)

    def _segment(
        self, segment: Segment, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        own = slice(segment.start, segment.end)
        q, k, v = query[own], key[own], value[own]
        if self.causal:
            before = self.cache.get(segment.sequence)
            if before is not None and segment.position:
                k, v = torch.cat((before[0], k)), torch.cat((before[1], v))
            self.cache[segment.sequence] = k, v
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        scores = scores.masked_fill(~self._visible(len(q), len(k)), float("-inf"))
        sinks = self._sinks[0]
        if sinks is not None:
            scores = torch.cat((scores, sinks.view(-1, 1, 1).expand(-1, len(q), 1)), -1)
        weights = scores.softmax(-1)[..., : len(k)]
        return torch.einsum("hqk,khd->qhd", weights, v)

    def _visible(self, queries: int, keys: int) -> torch.Tensor:
        """Which keys a query sees, [queries, keys]; the last query is the last key."""
        distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)[None]
        seen = distance >= 0 if self.causal else torch.ones_like(distance, dtype=torch.bool)
        return seen & (distance.abs() < self.window) if self.window is not None else seen


def interface(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """What is registered as "vllm": [1, heads, tokens, size] in, [tokens, heads * size] out.

    The mask and all keyword arguments but ``s_aux`` are ignored, as in vLLM.
    """
    attention = getattr(module, ATTRIBUTE, None)
    if not isinstance(attention, EmulatedAttention):
        raise Refused(
            f"{type(module).__name__} calls the attention interface, and vLLM has no attention "
            f"for it under its attribute {ATTRIBUTE}"
        )
    _note(attention, attention_mask, kwargs)
    if kwargs.get("s_aux") is not None and attention._sinks[0] is None:
        raise Refused(
            f"{attention.path}: attention sinks reach the interface, but not as a parameter "
            "that vLLM can find"
        )
    tokens, wide, narrow = query.shape[-2], query.shape[-1], value.shape[-1]
    if narrow < wide:
        value = functional.pad(value, (0, wide - narrow))
    rows = (x.transpose(1, 2).reshape(tokens, -1) for x in (query, key, value))
    out: torch.Tensor = attention(*rows)
    if narrow < wide:
        out = out.view(tokens, -1, wide)[..., :narrow].reshape(tokens, -1)
    return out, None


def _note(attention: EmulatedAttention, mask: object, kwargs: dict[str, Any]) -> None:
    packing, path = attention.packing, attention.path
    if mask is not None:
        packing.masks.add(path)
    asked = kwargs.get("sliding_window")
    if asked != attention.window and "sliding_window" in kwargs:
        packing.windows[path] = (asked, attention.window)
    softcap = kwargs.get("softcap")
    if softcap != attention.softcap and "softcap" in kwargs:
        packing.softcaps[path] = (softcap, attention.softcap)
    scaling = kwargs.get("scaling")
    if isinstance(scaling, float) and abs(scaling - attention.scale) > 1e-9:
        packing.scalings[path] = (scaling, attention.scale)


def attach(model: nn.Module, config: PretrainedConfig) -> Packing:
    """Give every layer its attention. Raises `Refused` as vLLM would when it builds the model."""
    text = config.get_text_config()
    packing, found = Packing(), dict(_dispatching(model))
    causal = not (
        config is text and any(not getattr(m, "is_causal", True) for m in model.modules())
    )
    kinds = getattr(text, "layer_types", None)
    for index in range(text.num_hidden_layers):
        if index not in found:
            kind = f" ({kinds[index]})" if kinds and index < len(kinds) else ""
            raise Refused(f"layer {index}{kind} does not dispatch through the attention interface")
        path, module, call = found[index]
        latent = getattr(text, "kv_lora_rank", None) is not None
        size = head_size(text)
        attention = EmulatedAttention(
            path=path,
            heads=text.num_attention_heads,
            kv_heads=None if latent else kv_heads(text),
            head_size=size,
            scale=_scale(module, call, size),
            window=window(text, index),
            softcap=getattr(text, "attn_logit_softcapping", None),
            sinks=_sinks(module, call),
            causal=causal,
            packing=packing,
        )
        setattr(module, ATTRIBUTE, attention)
    return packing


def attentions(model: nn.Module) -> Iterator[EmulatedAttention]:
    """The attention objects that `attach` has made."""
    return (m for m in model.modules() if isinstance(m, EmulatedAttention))


def _dispatching(model: nn.Module) -> Iterator[tuple[int, tuple[str, nn.Module, ast.Call]]]:
    taken: dict[int, str] = {}
    for path, module in model.named_modules():
        call = _interface_call(type(module))
        implementation = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if call is None or implementation not in IMPLEMENTATIONS:
            continue
        index = getattr(module, "layer_idx", None)
        if not isinstance(index, int):
            continue
        if index in taken:
            raise Refused(
                f"layer {index} dispatches attention from two modules, {taken[index]} and {path}"
            )
        taken[index] = path
        yield index, (path, module, call)


def _interface_call(cls: type[nn.Module]) -> ast.Call | None:
    try:
        source = inspect.getsource(inspect.unwrap(cls.forward))
        calls = interface_calls(ast.parse(textwrap.dedent(source)))
    except (AttributeError, OSError, SyntaxError, TypeError):
        return None
    return calls[0] if len(calls) == 1 else None


def _argument(call: ast.Call, name: str) -> ast.expr | None:
    values = [k.value for k in call.keywords if k.arg == name]
    return values[0] if len(values) == 1 else None


def _resolve(node: ast.expr, module: nn.Module) -> object:
    """A literal's value or that of ``self.name``; None for everything else, as in vLLM."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return getattr(module, node.attr, None) if node.value.id == "self" else None
    return None


def _scale(module: nn.Module, call: ast.Call, size: int) -> float:
    node = _argument(call, "scaling")
    if node is None:
        return float(size**-0.5)
    value = _resolve(node, module)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Refused(f"vLLM cannot resolve scaling={ast.unparse(node)} in {type(module).__name__}")
    return float(value)


def _sinks(module: nn.Module, call: ast.Call) -> nn.Parameter | None:
    node = _argument(call, "s_aux")
    value = _resolve(node, module) if node is not None else None
    if value is not None and not isinstance(value, nn.Parameter):
        assert node is not None
        raise Refused(f"vLLM cannot resolve s_aux={ast.unparse(node)} in {type(module).__name__}")
    return value


def head_size(text: PretrainedConfig) -> int:
    """The size of a head as vLLM takes it; that of the expanded form for latent attention."""
    if getattr(text, "kv_lora_rank", None) is not None:
        parts = [getattr(text, f"qk_{kind}_head_dim", 0) for kind in ("nope", "rope")]
        if sum(parts):
            return sum(parts)
    size = getattr(text, "head_dim", None)
    if isinstance(size, int) and size > 0:
        return size
    other = getattr(text, "hidden_size_per_head", None)
    return int(other) if other is not None else int(text.hidden_size // text.num_attention_heads)


def kv_heads(text: PretrainedConfig) -> int:
    """The number of key and value heads as vLLM takes it: the first name that there is."""
    for name in KV_HEADS:
        value = getattr(text, name, None)
        if isinstance(value, int):
            return value
    return int(text.num_attention_heads)


def window(text: PretrainedConfig, index: int) -> int | None:
    """How many tokens a layer sees, itself included; None is all."""
    size = getattr(text, "sliding_window", None) or None
    kinds = getattr(text, "layer_types", None)
    if kinds is None or all(kind == SLIDING for kind in kinds):
        return size
    return size if kinds[index] == SLIDING else None
