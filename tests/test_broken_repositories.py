"""Repositories with remote code, each broken in one way that vLLM's Transformers backend minds.

All are made from one good repository; what vLLM 0.33 does with each is in the table.
"""

import json
from pathlib import Path

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.scan import Scanner

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
GOOD = (FIXTURES / "rules" / "no_base_model" / "modeling_good.py").read_text()
CONFIG = {
    "architectures": ["GinkgoForCausalLM"],
    "model_type": "ginkgo",
    "auto_map": {
        "AutoConfig": "modeling_x.GinkgoConfig",
        "AutoModel": "modeling_x.GinkgoModel",
        "AutoModelForCausalLM": "modeling_x.GinkgoForCausalLM",
    },
}
FLAG = "    _supports_attention_backend = True\n"
LOOKUP = """        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention
        )
"""
EAGER = ((LOOKUP, ""), (" = attention_interface(", " = eager_attention("))
LOOKED_UP = """        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
"""
SCALING = "scaling=self.scaling"
MADE = "self.self_attn = GinkgoAttention(config, layer_idx)"
TABLE = 'ATTENTION = {"eager": GinkgoAttention, "sdpa": GinkgoAttention}\n\n\n'
KV = "config.num_key_value_heads"


def auto_map(**changes):
    """The good auto_map with entries changed; None takes one out."""
    named = CONFIG["auto_map"] | changes
    return {"auto_map": {key: value for key, value in named.items() if value is not None}}


def edits(*pairs):
    """Replacements in the good modeling file."""
    text = GOOD
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def scan(tmp_path):
    """The findings of the repository with this modeling file and these settings."""

    def run(text=GOOD, config=CONFIG, vllm=None):
        (tmp_path / "modeling_x.py").write_text(text)
        (tmp_path / "config.json").write_text(json.dumps(config, indent=2))
        found = Scanner(contract_for(vllm)).scan([str(tmp_path)]).findings
        return [(f.code, f.class_name, str(f.severity)) for f in found]

    return run


@pytest.mark.parametrize("vllm", ["0.25", "0.29", "0.30", "0.33"])
def test_the_good_one_is_clean(scan, vllm):
    assert scan(vllm=vllm) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # ValueError: Unrecognized configuration class ... for this kind of AutoModel
        (auto_map(AutoModel=None), ("MC306", "", "error")),
        # Cannot find model module. 'GinkgoForCausalLM' is not a registered model
        (auto_map(AutoModel=None, AutoModelForCausalLM=None), ("MC306", "", "error")),
        # The checkpoint you are trying to load has model type
        (auto_map(AutoConfig=None), ("MC305", "", "error")),
        # Assertion failed,
        (auto_map(AutoModel="modeling_x.GinkgoMLP"), ("MC324", "", "error")),
        # No model architectures are specified
        ({"architectures": None}, ("MC304", "", "error")),
    ],
)
def test_config_json(scan, changes, expected):
    config = {key: value for key, value in (CONFIG | changes).items() if value is not None}
    assert scan(config=config) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Unable to load ..., then: Cannot find model module
        (
            edits(
                (
                    "import torch\n",
                    "import torch\nfrom transformers.utils import is_torch_fx_available\n",
                )
            ),
            [("MC902", "", "error")],
        ),
        # accepted
        (edits((FLAG, "")), [("MC301", "GinkgoPreTrainedModel", "info")]),
        # The Transformers implementation of 'GinkgoForCausalLM' is not compatible with vLLM.
        (
            edits((FLAG, ""), *EAGER),
            [("MC101", "GinkgoAttention", "error"), ("MC301", "GinkgoPreTrainedModel", "error")],
        ),
        # Layer 0 does not dispatch through the Transformers ...
        (edits(*EAGER), [("MC101", "GinkgoAttention", "error")]),
        (
            edits(
                (
                    "self.config = config\n        self.layer_idx",
                    "self.cfg = config\n        self.layer_idx",
                ),
                ("self.config._attn", "self.cfg._attn"),
            ),
            [("MC107", "GinkgoAttention", "error")],
        ),
        (edits(("self.layer_idx", "self.index")), [("MC108", "GinkgoAttention", "error")]),
        # Layer 0 dispatches attention from more than one module
        (edits((MADE, MADE.replace("layer_idx", "0"))), [("MC111", "GinkgoAttention", "error")]),
        # Cannot resolve attention scaling expression
        (edits((SCALING, "scaling=self.head_dim**-0.5")), [("MC105", "GinkgoAttention", "error")]),
        # Argument position_ids not found in the forward method
        (
            edits(
                ("        position_ids=None,\n        past", "        past"),
                ("if position_ids is None", "if True"),
            ),
            [("MC302", "GinkgoModel", "error")],
        ),
        (
            edits(
                ("        inputs_embeds=None,\n        use", "        use"),
                (
                    LOOKED_UP,
                    LOOKED_UP.replace("if inputs_embeds is None", "if input_ids is not None"),
                ),
            ),
            [("MC302", "GinkgoModel", "error")],
        ),
        # TypeError in the first forward
        (
            edits(
                ("        use_cache=None,\n        **kwargs,\n    ):", "    ):"),
                ("if use_cache and", "if"),
                (
                    "                **kwargs,\n            )\n        return Base",
                    "            )\n        return Base",
                ),
            ),
            [
                ("MC201", "GinkgoModel", "info"),
                ("MC303", "GinkgoModel", "error"),
                ("MC201", "GinkgoModel", "info"),
            ],
        ),
        # breaks in the first forward
        (
            edits(
                (
                    "class GinkgoAttention(nn.Module):\n",
                    "class GinkgoAttention(nn.Module):\n    attn = None\n\n",
                )
            ),
            [("MC116", "GinkgoAttention", "error")],
        ),
        # get_input_embeddings not auto-handled
        (
            edits(
                ("embed_tokens = nn", "tok_embeddings = nn"),
                ("self.embed_tokens(", "self.tok_embeddings("),
            ),
            [("MC308", "GinkgoModel", "error")],
        ),
        # KeyError: 'vllm'
        (
            edits(
                ("class GinkgoDecoderLayer", f"{TABLE}class GinkgoDecoderLayer"),
                (
                    MADE,
                    "self.self_attn = ATTENTION[config._attn_implementation](config, layer_idx)",
                ),
            ),
            [("MC102", "GinkgoDecoderLayer", "error")],
        ),
        # builds, with as many key and value heads as there are query heads
        (
            edits(
                ("num_key_value_heads=2", "kv_heads=2"),
                ("self.num_key_value_heads = num_key_value_heads", "self.kv_heads = kv_heads"),
                (KV, "config.kv_heads"),
            ),
            [("MC320", "GinkgoAttention", "error")],
        ),
    ],
)
def test_modeling_file(scan, text, expected):
    compile(text, "modeling_x.py", "exec")
    assert scan(text) == expected


SHAPE = "shape = (*hidden_states.shape[:-1], -1, self.head_dim)"
HEADS = SHAPE.replace("-1, self", "self.config.num_attention_heads, self")
KEYS_AND_VALUES = """        self.k_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
"""
BOTH = "        self.kv_proj = nn.Linear(config.hidden_size, self.head_dim, bias=False)\n"
USED = """        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
"""
PLAN = """        "layers.*.self_attn.k_proj": "colwise",
        "layers.*.self_attn.v_proj": "colwise",
"""


@pytest.mark.parametrize(
    "text",
    [
        edits((SHAPE, HEADS)),
        edits(  # one key and value head in a projection of its own, merged with the query's
            (KEYS_AND_VALUES, BOTH),
            (
                USED,
                "        key = value = self.kv_proj(hidden_states).view(shape).transpose(1, 2)\n",
            ),
            (PLAN, ""),
            ("num_key_value_heads=2", "num_key_value_heads=1"),
        ),
    ],
)
def test_with_two_ranks(tmp_path, text):
    # shape '[...]' is invalid for input of size ...
    (tmp_path / "modeling_x.py").write_text(text)
    (finding,) = Scanner().scan([str(tmp_path)]).findings
    assert (finding.code, finding.class_name) == ("MC807", "GinkgoAttention")
    assert (finding.severity, finding.tp_only) == ("error", True)
