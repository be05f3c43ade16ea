"""The threading rules (MC2xx) on small models."""

import pytest

from modelcheck.findings import Severity

GOOD = "kwargs_not_threaded/good"
LAYER = """            hidden_states = layer(
                hidden_states,
                position_embeddings=position_embeddings,
                attention_mask=causal_mask,
                past_key_values=past_key_values,
                **kwargs,
            )
"""


def test_a_threaded_model_is_clean(lint, fixture_text):
    assert lint("MC201", fixture_text(GOOD)) == []
    assert lint("MC201", fixture_text(GOOD), "0.29") == []


@pytest.mark.parametrize(("version", "severity"), [("0.29", Severity.ERROR), (None, Severity.INFO)])
def test_a_layer_that_drops_kwargs(lint, fixture_text, version, severity):
    (finding,) = lint("MC201", fixture_text("kwargs_not_threaded/bad"), version)
    assert (finding.class_name, finding.severity) == ("AlderDecoderLayer", severity)
    assert finding.fix is not None
    assert finding.fix.fixer == "thread_kwargs"
    assert dict(finding.fix.data) == {"gap": "call", "callee": "self.self_attn"}


def test_every_gap_on_the_way_is_reported_once(lint, fixture_text):
    text = fixture_text(GOOD)
    head, rest = text.split("class AlderAttention")
    body = rest.replace(", **kwargs", "").replace("                **kwargs,\n", "")
    text = head + "class AlderAttention" + body.replace("            **kwargs,\n", "")
    found = lint("MC201", text)
    gaps = [(f.class_name, f.fix.data["gap"], f.fix.data["callee"]) for f in found]
    assert gaps == [
        ("AlderAttention", "signature", ""),
        ("AlderAttention", "call", "attention_interface"),
        ("AlderDecoderLayer", "signature", ""),
        ("AlderDecoderLayer", "call", "self.self_attn"),
        ("AlderModel", "call", "layer"),
    ]
    signature, call = found[0].span, found[1].span
    assert text.splitlines()[signature.line - 1].strip().startswith("def forward(")
    assert "attention_interface(" in text.splitlines()[call.line - 1]


@pytest.mark.parametrize(
    "loop",
    [
        "for layer in self.layers[: self.config.num_hidden_layers]:",
        "for index, layer in enumerate(self.layers):",
        "for layer, name in zip(self.layers, names):",
        "for index, (layer, name) in enumerate(zip(self.layers, names)):",
        "for index in range(3):\n            layer = self.layers[index]",
    ],
)
def test_ways_to_walk_the_layers(lint, fixture_text, loop):
    text = fixture_text(GOOD)
    assert "for layer in self.layers:" in text
    assert LAYER in text
    text = text.replace("for layer in self.layers:", loop)
    assert lint("MC201", text) == []
    text = text.replace(LAYER, LAYER.replace("                **kwargs,\n", ""))
    assert [f.class_name for f in lint("MC201", text)] == ["AlderModel"]


def test_kwargs_under_another_name_count(lint, fixture_text):
    text = fixture_text(GOOD).replace("**kwargs", "**flash_attn_kwargs")
    assert lint("MC201", text) == []


def test_cross_attention_and_mlps_need_no_kwargs(lint, fixture_text):
    text = fixture_text(GOOD)
    old = "        self.mlp = AlderMLP(config)\n"
    assert old in text
    text = text.replace(
        old, old + "        self.encoder_attn = AlderAttention(config, layer_idx)\n"
    )
    old = "        hidden_states = hidden_states + attn_out\n"
    assert old in text
    text = text.replace(old, old + "        self.encoder_attn(hidden_states)\n")
    assert lint("MC201", text) == []


def test_a_checkpoint_wrapper_is_left_alone(lint, fixture_text):
    wrapped = LAYER.replace("layer(\n", "checkpoint(layer.__call__,\n").replace(
        "                **kwargs,\n", ""
    )
    text = fixture_text(GOOD)
    assert LAYER in text
    assert lint("MC201", text.replace(LAYER, wrapped)) == []


@pytest.mark.parametrize("version", ["0.25", None])
def test_positions_counted_by_the_model(lint, fixture_text, version):
    (finding,) = lint("MC202", fixture_text("position_ids_ignored/bad"), version)
    assert (finding.class_name, finding.severity) == ("AcaciaModel", Severity.WRONG)
    assert lint("MC202", fixture_text("position_ids_ignored/good"), version) == []


def test_position_ids_overwritten_before_they_are_read(lint, fixture_text):
    text = fixture_text("position_ids_ignored/bad").replace("positions = ", "position_ids = ")
    text = text.replace("positions)", "position_ids)").replace("=positions", "=position_ids")
    assert [f.class_name for f in lint("MC202", text)] == ["AcaciaModel"]


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ("mask = make_mask(position_ids=position_ids)", True),  # vLLM drops it
        ("asked = position_ids is None", True),
        ("positions = position_ids", False),
        ("other = position_ids + 1", False),
    ],
)
def test_position_ids_that_only_a_mask_reads(lint, fixture_text, use, found):
    text = fixture_text("position_ids_ignored/bad")
    line = next(each for each in text.splitlines() if "positions = torch.arange" in each)
    changed = text.replace(line, f"{line}\n        {use}")
    assert bool(lint("MC202", changed)) == found


def test_a_model_without_positions_is_left_alone(lint, fixture_text):
    text = fixture_text("position_ids_ignored/bad")
    text = text.replace("self.rotary_emb(hidden_states, positions)", "None")
    assert "self.rotary_emb(hidden_states" not in text
    assert lint("MC202", text) == []
