"""Families backend, plans and version: what fires, and above all what does not."""

import json
import shutil
from pathlib import Path

import pytest

from modelcheck.findings import Severity
from modelcheck.fusers.contract import contract_for
from modelcheck.scan import Scanner, Selection

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
MINE = Selection(select=("MC3", "MC8", "MC9"))
IMPORTS = "import torch\nfrom torch import nn\nfrom transformers import PreTrainedModel\n"


def scan_text(tmp_path, text, vllm=None):
    path = tmp_path / "modeling_x.py"
    path.write_text(text)
    return Scanner(contract_for(vllm), MINE).scan([str(path)]).findings


def codes(findings):
    return [finding.code for finding in findings]


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("no_base_model", [("MC307", "GinkgoForCausalLM")]),
        ("packed_gate_up_colwise", [("MC801", "MalleeConfig")]),
        ("meta_unsafe_init", [("MC901", "WalnutModel")]),
    ],
)
def test_fixtures(stem, expected):
    folder = FIXTURES / "rules" / stem
    scanner = Scanner(selection=MINE)
    bad = scanner.scan([str(folder / "modeling_bad.py")]).findings
    assert [(f.code, f.class_name) for f in bad] == expected
    assert scanner.scan([str(folder / "modeling_good.py")]).findings == ()


@pytest.fixture
def repo(tmp_path):
    """The demo repository, with entries of its config.json changed (None takes one out)."""
    shutil.copytree(FIXTURES / "demo", tmp_path / "repo")
    path = tmp_path / "repo" / "config.json"

    def configured(**changes):
        config = json.loads((FIXTURES / "demo" / "config.json").read_text())
        config.update(changes)
        path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}, indent=2))
        return list(Scanner(selection=MINE).scan([str(path)]).findings)

    return configured


COMPLETE = {
    "AutoConfig": "configuration_fen.FenConfig",
    "AutoModel": "modeling_fen.FenModel",
    "AutoModelForCausalLM": "modeling_fen.FenForCausalLM",
}


def without(*keys):
    return {key: value for key, value in COMPLETE.items() if key not in keys}


def test_a_complete_config_is_clean(repo):
    assert repo(auto_map=COMPLETE) == []


@pytest.mark.parametrize("value", [None, [], "FenForCausalLM", [1]])
def test_architectures(repo, value):
    (finding,) = repo(auto_map=COMPLETE, architectures=value)
    assert finding.code == "MC304"
    assert "FenForCausalLM" in finding.advice


def test_a_config_of_something_else_needs_no_architectures(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"port": 80}')
    assert Scanner().scan([str(path)]).findings == ()


def test_automodel_is_found_from_the_prefix(repo):
    (finding,) = repo(auto_map=without("AutoModel"))
    assert (finding.code, finding.severity) == ("MC306", Severity.ERROR)
    assert finding.fix.data == {"key": "AutoModel", "value": "modeling_fen.FenModel"}
    assert finding.span.line == 5  # "auto_map"


def test_automodel_of_an_unknown_configuration_is_info(repo):
    found = repo(auto_map=without("AutoModel", "AutoConfig"), model_type="llama")
    assert {(f.code, f.severity) for f in found} == {
        ("MC305", Severity.INFO),
        ("MC306", Severity.INFO),
    }


def test_a_tokenizer_in_auto_map_needs_no_model(repo):
    assert repo(auto_map={"AutoTokenizer": ["tok.Tok", None]}, model_type="llama") == []


def test_autoconfig_is_found_by_model_type(repo):
    (finding,) = repo(auto_map=without("AutoConfig"))
    assert (finding.code, finding.severity) == ("MC305", Severity.ERROR)
    assert finding.fix.data["value"] == "configuration_fen.FenConfig"


def test_automodel_that_names_a_head(repo):
    found = repo(auto_map={**COMPLETE, "AutoModel": "modeling_fen.FenForCausalLM"})
    assert [(f.code, f.class_name) for f in found] == [("MC307", "FenForCausalLM")]
    assert found[0].span.line == 7


@pytest.mark.parametrize("auto_map", [[], "x", {"AutoModel": 1}, {"AutoModel": None}, {}])
def test_a_malformed_auto_map_does_not_crash(repo, auto_map):
    assert all(f.code.startswith("MC3") for f in repo(auto_map=auto_map))


def model(forward, body="pass", extra="", base="PreTrainedModel"):
    return (
        f"{IMPORTS}\n\nclass XModel({base}):\n    {extra}\n"
        "    def __init__(self, config):\n        super().__init__(config)\n"
        "        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)\n"
        f"        {body}\n        self.post_init()\n\n{forward}\n"
        "        return (self.embed_tokens(input_ids),)\n"
    )


FORWARD = "    def forward(self, input_ids=None, position_ids=None, inputs_embeds=None{}):"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (model(FORWARD.format(", **kwargs")), []),
        (model(FORWARD.format("")), ["MC303"]),
        (model(FORWARD.format(", use_cache=None, return_dict=None")), []),
        (model("    @can_return_tuple\n" + FORWARD.format(", use_cache=None")), []),
        (model("    @no_such_decorator\n" + FORWARD.format("")), []),
        (model("    def forward(self, input_ids, **kwargs):"), ["MC302"]),
        (model("    def forward(self, input_ids, pixel_values, **kwargs):"), []),
        (model(FORWARD.format(", **kwargs"), base="LlamaModel"), []),
        (model("    def forward(self, input_ids, **kw):", "self.decoder = AutoModel(config)"), []),
    ],
)
def test_base_forward(tmp_path, text, expected):
    assert codes(scan_text(tmp_path, text)) == expected


PAIR = """
from torch import nn
from transformers import PreTrainedModel


class XPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"


class XDecoder(XPreTrainedModel):
    def forward(self, input_ids=None, inputs_embeds=None, {}):
        return (inputs_embeds,)


class XModel(XPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.encoder = nn.Identity()
        self.decoder = XDecoder(config)

    def forward(self, input_ids=None, decoder_input_ids=None, **kwargs):
        return self.decoder(decoder_input_ids)


class XForConditionalGeneration(XPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = XModel(config)
"""


def test_the_decoder_of_an_encoder_and_a_decoder(tmp_path):
    found = [f for f in scan_text(tmp_path, PAIR.format("**kwargs")) if f.code == "MC302"]
    assert [(f.class_name, str(f.severity)) for f in found] == [("XDecoder", "error")]
    assert "MC302" not in codes(scan_text(tmp_path, PAIR.format("position_ids=None, **kwargs")))
    boxes = PAIR.format("**kwargs").replace("input_ids=None, inputs_embeds", "inputs_embeds", 1)
    assert "MC302" not in codes(scan_text(tmp_path, boxes))  # of a detector, say


RENAMED = model(FORWARD.format(", **kwargs")).replace("embed_tokens", "wte")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RENAMED, ["MC308"]),
        (RENAMED.replace("    \n", '    _input_embed_layer = "wte"\n', 1), []),
        (RENAMED.replace("    \n", "    _input_embed_layer = NAME\n", 1), []),
        (RENAMED.replace("    \n", "    def get_input_embeddings(self): ...\n", 1), []),
        (RENAMED.replace("pass", "setattr(self, 'embed_' + 'tokens', None)"), []),
        (RENAMED.replace("pass", "self.embeddings = Elsewhere(config)"), []),
        (RENAMED.replace("pass", "self.embeddings = nn.Embedding(9, 9)"), ["MC308"]),
        (RENAMED.replace("pass", "self.language_model = AutoModel(config)"), []),
        (RENAMED.replace("(PreTrainedModel)", "(FenPreTrainedModel)"), []),
    ],
)
def test_embeddings(tmp_path, text, expected):
    assert codes(scan_text(tmp_path, text)) == expected


ATTENTION = (FIXTURES / "rules" / "no_base_model" / "modeling_good.py").read_text()
UNFLAGGED = ATTENTION.replace("    _supports_attention_backend = True\n", "")


def test_the_flag_and_the_text_check(tmp_path):
    assert scan_text(tmp_path, ATTENTION, "0.29") == ()
    (old,) = scan_text(tmp_path, UNFLAGGED, "0.29")
    (new,) = scan_text(tmp_path, UNFLAGGED, "0.30")
    assert (old.severity, new.severity) == (Severity.ERROR, Severity.INFO)
    assert old.fix.fixer == new.fix.fixer == "attention_flag"
    assert old.class_name == "GinkgoPreTrainedModel"


def test_a_flag_that_is_false_or_unknown(tmp_path):
    off = ATTENTION.replace("_backend = True", "_backend = False")
    assert codes(scan_text(tmp_path, off, "0.29")) == ["MC301"]
    unknown = ATTENTION.replace("_backend = True", "_backend = COMPATIBLE")
    assert scan_text(tmp_path, unknown, "0.29") == ()


def test_a_flag_inherited_from_elsewhere_is_unknown(tmp_path):
    inherited = UNFLAGGED.replace("(PreTrainedModel)", "(OtherPreTrainedModel)")
    assert scan_text(tmp_path, inherited, "0.29") == ()


PACKED = (FIXTURES / "rules" / "packed_gate_up_colwise" / "modeling_bad.py").read_text()
CUT = ".chunk(2, dim=-1)"


@pytest.mark.parametrize(
    ("new", "fires"),
    [
        (CUT, True),
        (".split([self.width, self.width], dim=-1)", True),
        (".chunk(4, dim=-1)", False),
        (".chunk(2, dim=0)", False),
        (".split([self.a, self.b], dim=-1)", False),
    ],
)
def test_packed_cuts(tmp_path, new, fires):
    assert CUT in PACKED
    found = scan_text(tmp_path, PACKED.replace(f"hidden_states){CUT}", f"hidden_states){new}"))
    assert codes(found) == (["MC801"] if fires else [])


def test_a_plan_in_a_sibling_file(tmp_path):
    plan = '{"layers.*.mlp.gate_up_proj": "colwise"}'
    (tmp_path / "configuration_x.py").write_text(
        "from transformers import PretrainedConfig\n"
        f"class XConfig(PretrainedConfig):\n    base_model_tp_plan = {plan}\n"
        "    tie_word_embeddings = False\n"
    )
    text = PACKED.replace('"layers.*.mlp.gate_up_proj": "colwise",', "")
    text = text.replace("config_class = MalleeConfig", "config_class = XConfig")
    text = text.replace("import torch\n", "import torch\nfrom .configuration_x import XConfig\n", 1)
    (finding,) = scan_text(tmp_path, text)
    assert (finding.code, finding.class_name) == ("MC801", "MalleeMLP")
    assert finding.tp_only


@pytest.mark.parametrize(
    ("line", "fires"),
    [
        ("x = torch.zeros(1).item()", True),
        ("x = float(torch.linspace(0, 1, 3)[0])", True),
        ("t = torch.arange(3) * 2; x = t.sum().tolist()", True),
        ("x = [float(v) for v in torch.linspace(0, 1, 3)]", True),
        ("t = torch.ones(1)\n        if t > 0: pass", True),
        ("x = self.helper()", True),
        ('x = torch.zeros(1, device="cpu").item()', False),
        ("with torch.device('cpu'):\n            x = torch.zeros(1).item()", False),
        ("x = int(torch.zeros(3).shape[0])", False),
        ("x = config.values.tolist()", False),
        ("t = torch.ones(1); t = 3; x = float(t)", False),
        ("x = torch.zeros(1) if config.flag else None", False),
        ("x = torch.Tensor([1.0]).tolist()", False),
    ],
)
def test_values_read_back(tmp_path, line, fires):
    text = (
        f"{IMPORTS}\n\nclass X(nn.Module):\n    def __init__(self, config):\n"
        f"        super().__init__()\n        {line}\n\n"
        "    def helper(self):\n        return torch.ones(2).max().item()\n\n"
        "    def forward(self, x):\n        return torch.ones(2).max().item()\n"
    )
    assert codes(scan_text(tmp_path, text)) == (["MC901"] if fires else [])
