"""MC111 to MC117, MC203 to MC205 and MC309 to MC312: what a built model would do in vLLM.

Every faulty model is a rule's own example or a small change of it; near misses stay silent.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from modelcheck.findings import Finding, Severity
from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import rule_named
from modelcheck.scan import Scanner, Selection

BLOCK = re.compile(r"```(?:python|json)\n(.*?)```", re.DOTALL)


def example(code: str) -> str:
    return BLOCK.search(rule_named(code).sections["Example"])[1]  # type: ignore[index]


def repaired(code: str) -> str:
    return BLOCK.search(rule_named(code).sections["Use instead"])[1]  # type: ignore[index]


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def scan(tmp_path: Path):  # type: ignore[no-untyped-def]
    def run(
        code: str, text: str, vllm: str | None = None, config: dict[str, object] | None = None
    ) -> list[Finding]:
        path = tmp_path / "modeling_toy.py"
        path.write_text(text)
        if config is not None:
            (tmp_path / "config.json").write_text(json.dumps(config))
        scanner = Scanner(contract_for(vllm), Selection(select=(code,)))
        return list(scanner.scan([str(path)]).findings)

    return run


@pytest.mark.parametrize(
    ("code", "class_name", "severity", "before_0_30"),
    [
        ("MC111", "ToyAttention", Severity.ERROR, Severity.WRONG),
        ("MC112", "ToyLayer", Severity.ERROR, Severity.WRONG),
        ("MC113", "ToyGate", Severity.WRONG, Severity.WRONG),
        ("MC114", "ToyAttention", Severity.WRONG, Severity.WRONG),
        ("MC115", "ToyAttention", Severity.ERROR, Severity.ERROR),
        ("MC116", "ToyAttention", Severity.ERROR, None),
        ("MC117", "ToyModel", Severity.WRONG, Severity.WRONG),
        ("MC203", "ToyShift", Severity.WRONG, Severity.WRONG),
        ("MC204", "ToyModel", Severity.WRONG, Severity.WRONG),
        ("MC205", "ToyAttention", Severity.WRONG, Severity.WRONG),
        ("MC309", "ToyLayer", Severity.ERROR, Severity.ERROR),
        ("MC310", "ToyForCausalLM", Severity.WRONG, Severity.WRONG),
        ("MC311", "ToyLinear", Severity.WRONG, Severity.WRONG),
    ],
)
def test_each_fault_on_its_class(scan, code, class_name, severity, before_0_30):  # type: ignore[no-untyped-def]
    (finding,) = scan(code, example(code))
    assert (finding.class_name, finding.severity) == (class_name, severity)
    earlier = scan(code, example(code), "0.29")
    assert [f.severity for f in earlier] == ([before_0_30] if before_0_30 else [])


LAYER_TYPES = 'self.layer_types = ["linear_attention", "full_attention"] * 2'


def test_config_json_decides_which_layers_there_are(scan):  # type: ignore[no-untyped-def]
    text = changed(
        example("MC112"),
        ("        **kwargs,\n    ):", "        layer_types=None,\n        **kwargs,\n    ):"),
        (LAYER_TYPES, "self.layer_types = layer_types"),
    )
    full = {"model_type": "toy", "num_hidden_layers": 4, "layer_types": ["full_attention"] * 4}
    assert scan("MC112", text, config=full) == []
    mixed = full | {"layer_types": ["full_attention"] * 3 + ["linear_attention"]}
    (finding,) = scan("MC112", text, config=mixed)
    assert "Layer 3 (linear_attention)" in finding.message


def test_nothing_is_said_of_layers_that_cannot_be_told(scan):  # type: ignore[no-untyped-def]
    text = changed(
        example("MC112"),
        ("            self.mixer = ToyMixer(config)", "            self.mixer = MIXERS[layer_idx]"),
    )
    assert scan("MC112", text) == []


def test_a_constant_index_and_none(scan):  # type: ignore[no-untyped-def]
    good = repaired("MC113")
    made = "[ToyLayer(config, index) for index in range(config.num_hidden_layers)]"
    same = changed(good, (made, made.replace("(config, index)", "(config, 0)")))
    (finding,) = scan("MC111", same)
    assert "layers.0.self_attn and layers.1.self_attn" in finding.message
    none = changed(good, (made, made.replace("(config, index)", "(config, None)")))
    (finding,) = scan("MC111", none)
    assert "without a layer_idx" in finding.message
    assert scan("MC111", good) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("self.attention_cap = 50.0", "self.attention_cap = None", False),
        ("softcap=self.cap", "position_bias=hidden_states", False),  # not known to be a value
        ("softcap=self.cap", "position_bias=1.0", True),
        ("softcap=self.cap", "sliding_window=64", True),
        ("softcap=self.cap", "sliding_window=None", False),
        ("softcap=self.cap", "dropout=0.0", False),
    ],
)
def test_arguments_of_the_interface(scan, old, new, found):  # type: ignore[no-untyped-def]
    assert bool(scan("MC114", changed(example("MC114"), (old, new)))) == found


def test_a_window_on_some_layers_needs_layer_types(scan):  # type: ignore[no-untyped-def]
    text = changed(
        example("MC114"),
        ("self.attention_cap = 50.0", "self.sliding_window = 64"),
        ("self.cap = config.attention_cap", "self.window = 64 if layer_idx % 2 else None"),
        ("softcap=self.cap", "sliding_window=self.window"),
    )
    (finding,) = scan("MC114", text)
    assert "on every layer" in finding.message
    kinds = 'self.sliding_window = 64\n        self.layer_types = ["full_attention", "KIND"] * 2'
    named = changed(text, ("self.sliding_window = 64", kinds))
    assert scan("MC114", named.replace("KIND", "sliding_attention")) == []
    (finding,) = scan("MC114", named.replace("KIND", "windowed"))
    assert "does not call" in finding.message


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ("output = output.permute(0, 2, 1, 3)", True),
        ("output = output.flatten(2)", True),
        ("batch, length, heads, size = output.shape", True),
        ("output = output.reshape(*hidden_states.shape[:-1], -1)", False),
        ("output = output.reshape(1, -1, 4, 16).transpose(1, 2)", False),
        ("output = output.unsqueeze(0)", False),
        ("output = output.contiguous()", False),
    ],
)
def test_what_the_result_may_be_used_for(scan, use, found):  # type: ignore[no-untyped-def]
    old = "output = output.transpose(1, 2).transpose(1, 2)"
    assert bool(scan("MC115", changed(example("MC115"), (old, use)))) == found


def test_a_rebound_result_is_not_vllms(scan):  # type: ignore[no-untyped-def]
    old = "output = output.transpose(1, 2).transpose(1, 2)"
    use = "output = output.view(1, -1, 4, 16)\n        output = output.transpose(1, 2)"
    assert scan("MC115", changed(example("MC115"), (old, use))) == []


def test_an_unused_attn_does_no_harm(scan):  # type: ignore[no-untyped-def]
    text = changed(example("MC116"), ("        output = self.attn(output)\n", ""))
    assert scan("MC116", text) == []


@pytest.mark.parametrize("size", ["1", "kernel_size=1"])
def test_a_convolution_of_one_token_mixes_nothing(scan, size):  # type: ignore[no-untyped-def]
    old = "4, padding=3, groups=config.hidden_size"
    assert scan("MC203", changed(example("MC203"), (old, size))) == []


@pytest.mark.parametrize(
    "call", ["torch.roll(hidden_states, 1, 1)", "F.pad(hidden_states, (0, 0, 1, -1))"]
)
def test_token_shifts_mix(scan, call):  # type: ignore[no-untyped-def]
    old = "self.conv(hidden_states.transpose(1, 2)).transpose(1, 2)"
    assert len(scan("MC203", changed(example("MC203"), (old, call)))) == 1


def test_a_scale_for_all_embeddings_is_right(scan):  # type: ignore[no-untyped-def]
    old = "inputs_embeds = self.embed_tokens(input_ids) * self.config.hidden_size**0.5\n"
    new = (
        "inputs_embeds = self.embed_tokens(input_ids)\n        inputs_embeds = inputs_embeds * 8\n"
    )
    text = changed(example("MC204"), (old, new))
    assert scan("MC204", text) == []
    assert (
        len(
            scan(
                "MC204",
                text.replace(
                    "        inputs_embeds = inputs_embeds * 8", " " * 12 + "inputs_embeds *= 8"
                ),
            )
        )
        == 1
    )


HEAD = "self.lm_head(hidden_states)"
SCALED = "logits / self.config.logits_scaling"


@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [
        ("self.logits_scaling = 8.0", "self.logits_scaling = 1.0", Severity.INFO),
        (SCALED, "logits.float()", None),
        (SCALED, "logits * 1.0", None),
        (SCALED, "logits * 0.25", Severity.WRONG),
        (SCALED, "logits * self.config.logit_scale", None),
        (SCALED, "logits / self.config.unheard_of", None),
    ],
)
def test_what_a_head_may_do(scan, old, new, severity):  # type: ignore[no-untyped-def]
    found = [f.severity for f in scan("MC310", changed(example("MC310"), (old, new)))]
    assert found == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("given", "severity"),
    [
        ("hidden_states / self.config.logits_scaling", Severity.WRONG),
        ("(0.5 * hidden_states)[:, -1:]", Severity.WRONG),
        ("hidden_states.to(self.lm_head.weight.dtype)", None),
        ("hidden_states[:, -8 // 2 :]", None),
        ("hidden_states * 1.0", None),
        ("hidden_states / self.config.unheard_of", None),
        ("self.dropout(hidden_states)", None),
        ("self.act(hidden_states)", Severity.WRONG),
        ("self.norm(hidden_states)", Severity.ERROR),
        ("self.act(self.out(hidden_states))", Severity.ERROR),
    ],
)
def test_what_is_done_before_the_head(scan, given, severity):  # type: ignore[no-untyped-def]
    made = """        self.lm_head =
        self.dropout = nn.Dropout(0.1)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)
"""
    lines = made.splitlines(keepends=True)
    text = changed(
        example("MC310"),
        (lines[0].rstrip(), "".join(lines[1:]) + lines[0].rstrip()),
        (SCALED, "logits.float()"),
        (HEAD, f"self.lm_head({given})"),
    )
    assert [f.severity for f in scan("MC310", text)] == ([severity] if severity else [])


@pytest.mark.parametrize("given", ["hidden_states * 0.5", "self.lm_head(hidden_states)"])
def test_what_may_not_run_is_not_judged(scan, given):  # type: ignore[no-untyped-def]
    text = changed(
        example("MC310"),
        (SCALED, "logits.float()"),
        (
            f"        logits = {HEAD}",
            f"        if self.training:\n            hidden_states = {given}\n"
            f"        logits = {HEAD}",
        ),
    )
    assert scan("MC310", text) == []


def test_a_factor_that_config_json_leaves_at_1(tmp_path):  # type: ignore[no-untyped-def]
    text = changed(example("MC310"), ("self.logits_scaling = 8.0", "self.logits_scaling = 1.0"))
    (tmp_path / "modeling_x.py").write_text(text)
    auto_map = {"AutoConfig": "modeling_x.ToyConfig", "AutoModel": "modeling_x.ToyModel"}
    config = {"architectures": ["ToyForCausalLM"], "auto_map": auto_map, "model_type": "toy"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    scanner = Scanner(contract_for(None), Selection(select=("MC310",)))
    assert scanner.scan([str(tmp_path)]).findings == ()


def test_a_module_before_the_head(scan):  # type: ignore[no-untyped-def]
    text = changed(
        example("MC310"),
        ("        self.lm_head =", "        self.norm = ToyNorm()\n        self.lm_head ="),
        ("self.lm_head(hidden_states)", "self.lm_head(self.norm(hidden_states))"),
        ("logits / self.config.logits_scaling", "logits.float()"),
        (
            "class ToyForCausalLM",
            "class ToyNorm(nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
            "class ToyForCausalLM",
        ),
    )
    (finding,) = scan("MC310", text)
    assert "norm before its head" in finding.message


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("return super().forward(x)", None),
        ("return F.linear(x, self.weight, self.bias)", None),
        ("y = x @ self.weight.T\n        return y + self.bias", None),
        ("return super().forward(x), x", Severity.ERROR),
        ("return super().forward(x).tanh()", Severity.WRONG),
    ],
)
def test_forwards_of_linear_layers(scan, body, severity):  # type: ignore[no-untyped-def]
    text = changed(example("MC311"), ("return super().forward(x) * 0.5", body))
    assert [f.severity for f in scan("MC311", text)] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("vllm", "severity"),
    [("0.25", Severity.SLOW), ("0.32", Severity.SLOW), ("0.33", Severity.INFO)],
)
def test_dynamic_rope(tmp_path, vllm, severity):  # type: ignore[no-untyped-def]
    path = tmp_path / "config.json"
    path.write_text(example("MC312"))
    scanner = Scanner(contract_for(vllm), Selection(select=("MC312",)))
    assert [f.severity for f in scanner.scan([str(path)]).findings] == [severity]


@pytest.mark.parametrize("elsewhere", ["nn.Identity()", "RMSNorm(config.hidden_size)"])
def test_a_head_without_a_base_model_inside_is_not_judged(scan, elsewhere):  # type: ignore[no-untyped-def]
    made = "self.model = ToyModel(config)"
    held = changed(example("MC310"), (made, f"self.inner = {elsewhere}"))
    assert scan("MC310", changed(held, ("self.model(", "self.inner("))) == []


INTERFACE = "        interface = ALL_ATTENTION_FUNCTIONS"


@pytest.mark.parametrize(
    ("name", "found"), [("slopes", True), ("alibi_row", True), ("window", False)]
)
def test_slopes_that_are_added_to_the_mask(scan, name, found):  # type: ignore[no-untyped-def]
    made = (
        f"        {name} = torch.arange(query.shape[1], device=query.device)[:, None, None]\n"
        f"        if attention_mask is not None:\n"
        f"            attention_mask = attention_mask - {name} * 0.1\n"
    )
    text = changed(example("MC310"), (INTERFACE, f"{made}{INTERFACE}"))
    text = text.replace("from torch import nn\n", "import torch\nfrom torch import nn\n", 1)
    assert [f.class_name for f in scan("MC110", text)] == (["ToyAttention"] if found else [])


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]", True),
        ("nn.functional.pad(x, (0, 0, 2, 0))[:, :-2, :]", True),
        ("nn.functional.pad(x, (0, 0, 2, 0))[:, :-1]", False),
        ("nn.functional.pad(x, (1, 0))[..., :-1]", False),
        ("torch.cat((x[:, :1] * 0, x[:, :-1]), dim=1)", True),
        ("torch.cat([x[:, :1] * 0, x[:, :-1]], 1)", True),
        ("torch.cat((x[..., :1], x[..., 1:]), dim=-1)", False),
        ("torch.cat((x[:, :1], x[:, 1:]), dim=1)", False),
    ],
)
def test_tokens_shifted_in_a_helper(scan, code, found):  # type: ignore[no-untyped-def]
    layer = "        output, _ = self.self_attn(hidden_states, attention"
    helper = f"    def before(self, x):\n        return x + {code}\n\n    def forward(self, hid"
    text = changed(
        example("MC310"),
        (layer, f"        hidden_states = self.before(hidden_states)\n{layer}"),
        (
            "class ToyLayer(nn.Module):\n",
            f"class ToyLayer(nn.Module):\n{helper[: helper.index('    def forward')]}",
        ),
    )
    text = text.replace("from torch import nn\n", "import torch\nfrom torch import nn\n", 1)
    assert [f.class_name for f in scan("MC203", text)] == (["ToyLayer"] if found else [])


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("self.embed_tokens(input_ids) * 8.0 if inputs_embeds is None else inputs_embeds", True),
        ("inputs_embeds if inputs_embeds is not None else self.embed_tokens(input_ids) / 8", True),
        ("inputs_embeds if inputs_embeds is None else self.embed_tokens(input_ids) / 8", False),
        ("self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds", False),
        ("self.embed_tokens(input_ids) * 1 if inputs_embeds is None else inputs_embeds", False),
    ],
)
def test_embeddings_scaled_in_a_choice(scan, value, found):  # type: ignore[no-untyped-def]
    looked_up = (
        "        if inputs_embeds is None:\n"
        "            inputs_embeds = self.embed_tokens(input_ids)\n"
    )
    text = changed(example("MC310"), (looked_up, f"        inputs_embeds = {value}\n"))
    assert bool(scan("MC204", text)) == found


def test_a_head_in_a_method(scan):  # type: ignore[no-untyped-def]
    method = (
        "    def project(self, states):\n        return self.lm_head(states) / 8.0\n\n"
        "    def forward(self, input_ids=None, **kwargs):\n        hidden_states = self.model("
    )
    text = changed(
        example("MC310"),
        (SCALED, "logits.float()"),
        (HEAD, "self.project(hidden_states)"),
        (method[method.index("    def forward") :], method),
    )
    (finding,) = scan("MC310", text)
    assert "ToyForCausalLM.project divides the logits by 8.0" in finding.message
    assert scan("MC310", text.replace(" / 8.0", "")) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("self.output", "self.lm_head", False),
        ("self.output = nn.Linear(", "self.output = nn.ModuleList([nn.Identity()]) or len(", False),
        (
            "class ToyForCausalLM(ToyPreTrainedModel):\n",
            "class ToyForCausalLM(ToyPreTrainedModel):\n"
            '    _tied_weights_keys = {"output.weight": "model.embed_tokens.weight"}\n\n',
            False,
        ),
        (
            "class ToyForCausalLM(ToyPreTrainedModel):\n",
            "class ToyForCausalLM(ToyPreTrainedModel):\n"
            '    _tied_weights_keys = {"other.weight": "model.embed_tokens.weight"}\n\n',
            True,
        ),
        (
            "class ToyForCausalLM(ToyPreTrainedModel):\n",
            "class ToyForCausalLM(ToyPreTrainedModel):\n"
            '    _keys_to_ignore_on_load_unexpected = ["output"]\n\n',
            False,
        ),
        ("self.output(hidden_states)", "self.output(hidden_states[:, -1:].float())", True),
    ],
)
def test_the_name_of_the_head(scan, old, new, found):  # type: ignore[no-untyped-def]
    assert bool(scan("MC313", changed(example("MC313"), (old, new)))) == found


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("self.tie_word_embeddings = False\n        super().__init__(**kwargs)", True),
        ("super().__init__(tie_word_embeddings=False, **kwargs)", True),
        ("super().__init__(tie_word_embeddings=True, **kwargs)", False),
        ("super().__init__(**kwargs)", False),
    ],
)
def test_a_head_that_the_configuration_may_tie(scan, end, found):  # type: ignore[no-untyped-def]
    header = "class ToyForCausalLM(ToyPreTrainedModel):\n"
    keys = '{"output.weight": "model.embed_tokens.weight"}'
    text = changed(
        example("MC313"),
        (header, f"{header}    _tied_weights_keys = {keys}\n\n"),
        ("super().__init__(**kwargs)", end),
    )
    findings = [(f.class_name, f.severity) for f in scan("MC313", text)]
    assert findings == ([("ToyForCausalLM", Severity.ERROR)] if found else [])


@pytest.mark.parametrize(
    ("key", "codes"),
    [("lm_head.weight", []), ("output.weight", ["MC313"]), ("head.weight", ["MC325"])],
)
def test_a_checkpoint_says_what_the_head_is_called(tmp_path, key, codes):  # type: ignore[no-untyped-def]
    (tmp_path / "modeling_x.py").write_text(example("MC313"))
    auto_map = {"AutoConfig": "modeling_x.ToyConfig", "AutoModel": "modeling_x.ToyModel"}
    config = {"architectures": ["ToyForCausalLM"], "auto_map": auto_map, "model_type": "toy"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    scanner = Scanner(contract_for(None), Selection(select=("MC313",)))
    assert [f.code for f in scanner.scan([str(tmp_path)]).findings] == ["MC313"]
    names = ["model.embed_tokens.weight", key]
    names += [f"model.layers.{n}.self_attn.{p}_proj.weight" for n in range(4) for p in "qkvo"]
    index = tmp_path / "model.safetensors.index.json"
    weights = dict.fromkeys(names, "a.safetensors")
    index.write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    scanner = Scanner(contract_for(None), Selection(select=("MC313", "MC325")))
    assert [f.code for f in scanner.scan([str(tmp_path)]).findings] == codes
