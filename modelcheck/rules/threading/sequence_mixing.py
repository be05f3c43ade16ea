"""A text model mixes neighbouring tokens outside attention.

What it does
------------
Reports convolutions over more than one position (`nn.Conv1d`, `nn.Conv2d`, `conv1d`), recurrent
layers (`nn.LSTM`, `nn.GRU`, `nn.RNN`), `torch.roll`, Fourier transforms and token shifts, also in
functions of the file, and statistics of a layer's `hidden_states` over its tokens, below a text
model that vLLM builds. A model whose layers do not all attend is MC112's.

Why it matters
--------------
vLLM (every release) concatenates the tokens of all requests into one row, and hands a decode step
only the newest token of each. Only attention knows where a request begins: whatever else looks at
neighbours mixes requests, or sees nothing before it. No error, wrong numbers.

Example
-------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        head_dim=16,
        num_attention_heads=4,
        num_hidden_layers=4,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.head_dim = head_dim
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        super().__init__(**kwargs)


class ToyShift(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.conv = nn.Conv1d(
            config.hidden_size, config.hidden_size, 4, padding=3, groups=config.hidden_size
        )

    def forward(self, hidden_states):
        mixed = self.conv(hidden_states.transpose(1, 2)).transpose(1, 2)
        return mixed[:, : hidden_states.shape[1]]


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.shift = ToyShift(config)
        self.self_attn = ToyAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        hidden_states = hidden_states + self.shift(hidden_states)
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        return hidden_states + output


class ToyPreTrainedModel(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Use instead
-----------
```python
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(
        self,
        vocab_size=256,
        hidden_size=64,
        head_dim=16,
        num_attention_heads=4,
        num_hidden_layers=4,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.head_dim = head_dim
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        super().__init__(**kwargs)


class ToyAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        width = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        output, weights = interface(
            self, query, key, value, attention_mask, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


class ToyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = ToyAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        return hidden_states + output


class ToyPreTrainedModel(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "model"
    _supports_attention_backend = True


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [ToyLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.post_init()

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)
```

Fix safety
----------
No fix: such a layer needs an implementation in vLLM itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Severity
from modelcheck.rules.backend.text_models import text_models
from modelcheck.rules.base import Context
from modelcheck.rules.modules import Tree, trees
from modelcheck.rules.threading._token_statistics import over_tokens
from modelcheck.source.bodies import Body, body, callee_name, reached_methods
from modelcheck.source.callpath import Child, children, hops
from modelcheck.source.classes import ClassInfo, dotted_name
from modelcheck.source.layers import dispatching, layer_attentions

CODE = "MC203"
RECURRENT = ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")
FUNCTIONS = ("torch.nn.functional.conv1d", "torch.conv1d", "torch.roll")
FOURIER = "torch.fft."
SHIFTS = frozenset({"pad", "cat", "concat"})


def check(context: Context) -> Iterable[Finding]:
    """Look at the modules below the text models whose attention vLLM serves."""
    if not any(dispatching(context.file)) or any(_lacks_layers(g[0]) for g in trees(context)):
        return
    models = [base.info for base in text_models(context)]
    below = _below(models) - _never_built(context, models)
    layers = {c.cls for model in models for c, _ in layer_attentions(model)}
    for info in context.file.classes.values():
        found = next(_mixing(info), None) if info in below else None
        if found is None and info in layers:
            found = over_tokens(info)
        if found is None:
            continue
        node, what = found
        yield context.finding(
            CODE,
            Severity.WRONG,
            info,
            node,
            f"{info.name} {what} mixes neighbouring tokens, and vLLM puts many requests into one "
            "row.",
            "Mix tokens in attention only; such a model needs an implementation in vLLM itself.",
        )


def _never_built(context: Context, models: list[ClassInfo]) -> frozenset[ClassInfo]:
    """The file's classes that the models' configuration has no use for, where it tells."""
    found = [tree for group in trees(context) for tree in group]
    if not {*models} <= {tree.model for tree in found} or any(tree.doubt for tree in found):
        return frozenset()
    built = {module.info for tree in found for module in tree.modules}
    return frozenset(context.file.classes.values()) - built


def _lacks_layers(tree: Tree) -> bool:
    """Has it layers without attention? Then it is refused, and that is said elsewhere."""
    return any(layer not in tree.attention() for layer in range(tree.layers))


def _below(models: list[ClassInfo]) -> frozenset[ClassInfo]:
    found: set[ClassInfo] = set()
    stack = list(models)
    while stack:
        info = stack.pop()
        if info not in found:
            found.add(info)
            stack.extend(c.cls for c in children(info) if isinstance(c.cls, ClassInfo))
    return frozenset(found)


def _mixing(info: ClassInfo) -> Iterator[tuple[ast.AST, str]]:
    """Calls that mix along the sequence, and in words what they are."""
    mixers = {c.attr: name for c in children(info) if (name := _mixer(c))}
    for hop in hops(info):
        if hop.attr in mixers and hop.owner.file is info.file:
            yield hop.call, f"runs a {mixers[hop.attr]}, which"
    for owner, function in reached_methods(info):
        if owner.file is not info.file:
            continue
        nodes = body(owner.file, function)
        yield from _mixed_in(nodes, info)
        for call in nodes.all(ast.Call):
            helper = info.file.functions.get(dotted_name(call.func))
            if helper is not None and any(_mixed_in(body(info.file, helper), info)):
                yield call, f"calls {helper.name}, which"


def _mixed_in(nodes: Body, info: ClassInfo) -> Iterator[tuple[ast.AST, str]]:
    """What mixes tokens in one function."""
    if not nodes.called().isdisjoint(SHIFTS):
        yield from ((n, "shifts tokens, which") for n in _shifted(nodes, info))
    for call in nodes.all(ast.Call):
        full = info.file.qualify(dotted_name(call.func))
        if (full in FUNCTIONS and not _of_features(call)) or full.startswith(FOURIER):
            yield call, f"calls {dotted_name(call.func)}, which"
        elif callee_name(call) in ("pad", "ZeroPad2d") and _is_shift(call):
            yield call, "shifts tokens, which"


def _of_features(call: ast.Call) -> bool:
    """Does ``torch.roll`` turn the last axis?"""
    axes = [*call.args[2:3], *(k.value for k in call.keywords if k.arg == "dims")]
    return callee_name(call) == "roll" and [_literal(a) for a in axes] in ([-1], [(-1,)])


def _shifted(nodes: Body, info: ClassInfo) -> Iterator[ast.expr]:
    """``F.pad(x, (0, 0, 1, 0))[:, :-1]`` and ``torch.cat((first, x[:, :-1]), dim=1)``."""
    for cut in nodes.all(ast.Subscript):
        last = _cut_off(cut)
        if not last or not isinstance(cut.value, ast.Call) or callee_name(cut.value) != "pad":
            continue
        if any(_literal(a) in ([0, 0, last, 0], (0, 0, last, 0)) for a in cut.value.args):
            yield cut
    for call in nodes.all(ast.Call) if info.kind == "module" else ():
        if callee_name(call) not in ("cat", "concat") or not call.args:
            continue
        dims = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "dim")]
        parts = call.args[0].elts if isinstance(call.args[0], ast.Tuple | ast.List) else []
        if [_literal(d) for d in dims] in ([1], [-2]) and len(parts) == 2 and _cut_off(parts[1]):
            yield call


def _cut_off(node: ast.expr) -> int:
    """How many tokens ``x[:, :-n]`` leaves off, 0 for anything else."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return 0
    whole, tokens, *rest = [*node.slice.elts, None, None][: max(2, len(node.slice.elts))]
    plain = all(isinstance(p, ast.Slice) and ast.unparse(p) == ":" for p in (whole, *rest))
    if not plain or not isinstance(tokens, ast.Slice) or tokens.lower or tokens.step:
        return 0
    upper = _literal(tokens.upper) if tokens.upper is not None else 0
    return -upper if isinstance(upper, int) and upper < 0 else 0


def _literal(node: ast.expr) -> object:
    try:
        value: object = ast.literal_eval(node)
    except ValueError:
        return None
    return value


def _mixer(child: Child) -> str:
    if child.type_name in RECURRENT:
        return child.type_name.rpartition(".")[2]
    if child.type_name == "torch.nn.Conv1d" and _kernel(child.call) != 1:
        return "Conv1d"
    if child.type_name == "torch.nn.Conv2d" and _along_tokens(_kernel(child.call)):
        return "Conv2d"
    return ""


def _along_tokens(kernel: object) -> bool:
    """Does a 2-D kernel reach over several tokens, however they are laid out: (2, 1), or 3?"""
    if isinstance(kernel, tuple):
        return len(kernel) == 2 and kernel[1] == 1 and _along_tokens(kernel[0])
    return isinstance(kernel, int) and kernel > 1


def _kernel(call: ast.Call) -> object:
    """The kernel size where it is written in numbers."""
    named = [k.value for k in call.keywords if k.arg == "kernel_size"]
    node = call.args[2] if len(call.args) > 2 else (named[0] if named else None)
    return _literal(node) if node is not None else None


def _is_shift(call: ast.Call) -> bool:
    """``F.pad(x, (0, 0, 1, -1))``: every token gets its predecessor."""
    for argument in call.args:
        value = _literal(argument)
        if isinstance(value, tuple | list) and len(value) == 4 and list(value[:2]) == [0, 0]:
            return bool(value[2]) and value[2] == -value[3]
    return False
