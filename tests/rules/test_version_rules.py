"""The transformers-version rules (MC902 to MC911), and their table against the real release."""

import importlib
import inspect

import pytest
from packaging.version import Version

from modelcheck.errors import UsageError
from modelcheck.findings import Severity
from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import Context, rule_named
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.repo import Repo
from modelcheck.source.text import parse_text
from modelcheck.versions.judged import judged
from modelcheck.versions.table import Kind, removed, removed_arguments, removed_imports

CODES = [f"MC{number}" for number in range(902, 912)]


def context_of(text, transformers=None, config=None, tmp_path=None):
    file = ProjectIndex().add(parse_text("modeling_toy.py", text))
    repo = Repo(tmp_path, "config.json", "", config, (file,)) if config is not None else None
    return Context(file, repo, contract_for(None), transformers)


def found(code, text, transformers=None, config=None):
    return list(rule_named(code).check(context_of(text, transformers, config)))


def all_found(text, transformers=None):
    return {(f.code, f.class_name, f.severity) for c in CODES for f in found(c, text, transformers)}


INFO, ERROR, WRONG = Severity.INFO, Severity.ERROR, Severity.WRONG


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "no_post_init",
            {
                ("MC905", "VincaForCausalLM", INFO),
                ("MC906", "VincaModel", INFO),
                ("MC906", "VincaForCausalLM", INFO),
            },
        ),
        (
            "rope",
            {
                ("MC902", "", ERROR),
                ("MC903", "XylosmaRotaryEmbedding", ERROR),
                ("MC904", "XylosmaRotaryEmbedding", ERROR),
                ("MC907", "XylosmaRotaryEmbedding", INFO),
            },
        ),
        ("cache", {("MC908", "YaretaAttention", INFO), ("MC908", "YaretaModel", INFO)}),
        ("pad_token", {("MC909", "HornbeamModel", ERROR)}),
    ],
)
def test_a_planted_fault_and_its_repair(fixture_text, name, expected):
    assert all_found(fixture_text(f"transformers5/{name}_bad")) == expected
    assert all_found(fixture_text(f"transformers5/{name}_good")) == set()
    assert all_found(fixture_text(f"transformers5/{name}_good"), "5.19") == set()
    assert all_found(fixture_text(f"transformers5/{name}_bad"), "4.44.2") == set()


def test_what_breaks_transformers_only_is_grave_when_it_is_asked_for(fixture_text):
    for name, code in (("no_post_init", "MC906"), ("cache", "MC908")):
        text = fixture_text(f"transformers5/{name}_bad")
        assert {f.severity for f in found(code, text, "5.19")} == {ERROR}
    (buffer,) = found("MC907", fixture_text("transformers5/rope_bad"), "5.19")
    assert buffer.severity is WRONG


GONE = "from transformers.utils.import_utils import is_torch_fx_available\n"


@pytest.mark.parametrize(
    ("text", "severities"),
    [
        (GONE, [ERROR]),
        ("from transformers.deepspeed import is_deepspeed_zero3_enabled\n", [ERROR]),
        ("import transformers.utils.model_parallel_utils\n", [ERROR]),
        ("from transformers.utils import model_parallel_utils\n", [ERROR]),
        (f"if is_torch_available():\n    {GONE}", [ERROR]),
        (f"class A:\n    {GONE}", [ERROR]),
        (f"try:\n    {GONE}finally:\n    pass\n", [ERROR]),
        (f"def f():\n    {GONE}", [INFO]),
        (f"if is_flash_attn_2_available():\n    {GONE}", [INFO]),
        (f"try:\n    {GONE}except ImportError:\n    pass\n", []),
        (f"try:\n    {GONE}except (ValueError, Exception):\n    pass\n", []),
        (f"if TYPE_CHECKING:\n    {GONE}", []),
        (f"if typing.TYPE_CHECKING:\n    {GONE}", []),
        (f"if parse(transformers.__version__) < parse('5'):\n    {GONE}", []),
        ("from transformers.utils import logging\n", []),
        ("from other.utils.import_utils import is_torch_fx_available\n", []),
        ("from ...utils.import_utils import is_torch_fx_available\n", []),
    ],
)
def test_imports(text, severities):
    assert [f.severity for f in found("MC902", text)] == severities


def test_a_moved_name_is_said_to_have_moved():
    (finding,) = found("MC902", "from transformers.modeling_utils import prune_linear_layer\n")
    assert finding.advice == "Use `from transformers.pytorch_utils import prune_linear_layer`."


MODEL = """
from torch import nn
from transformers import PreTrainedModel, PretrainedConfig
class C(PretrainedConfig):
    def __init__(self, rope_theta=1e4, rope_scaling=None, **kwargs):
        BEFORE
        super().__init__(**kwargs)
class M(PreTrainedModel):
    config_class = C
    def __init__(self, config):
        super().__init__(config)
        BODY
        self.post_init()
"""


def model(body, before="self.rope_theta = rope_theta; self.rope_scaling = rope_scaling"):
    return MODEL.replace("BEFORE", before).replace("BODY", body)


@pytest.mark.parametrize(
    ("text", "config", "count"),
    [
        (model("self.pad = config.pad_token_id"), None, 1),
        (model("self.pad = self.config.bos_token_id"), None, 1),
        (model("self.pad = config.pad_token_id"), {"pad_token_id": 0}, 0),
        (model("self.pad = getattr(config, 'pad_token_id', None)"), None, 0),
        (model("self.pad = hasattr(config, 'pad_token_id') and config.pad_token_id"), None, 0),
        (model("self.pad = config.pad_token_id", "self.pad_token_id = 0"), None, 0),
        (model("self.pad = config.pad_token_id", "setattr(self, 'pad_token_id', 0)"), None, 0),
        (model("self.pad = config.pad_token_id", "self.text_config = None"), None, 0),
        (model("self.pad = config.pad_token_id").replace("(PretrainedConfig)", "(B)"), None, 0),
        (
            model("self.pad = config.pad_token_id").replace("(**kw", "(pad_token_id=0, **kw"),
            None,
            0,
        ),
        (model("if config.x:\n            self.pad = config.pad_token_id"), None, 0),
    ],
)
def test_config_attributes(text, config, count):
    assert len(found("MC909", text, None, config)) == count


WARNS = model("pass").replace(
    "        self.post_init()\n",
    """        self.post_init()

    def forward(self, input_ids=None, attention_mask=None):
        if input_ids is not None:
            self.warn_if_padding_and_no_attention_mask(input_ids, attention_mask)
""",
)


def test_the_warning_about_padding_reads_an_attribute():
    assert [f.severity for f in found("MC909", WARNS)] == [ERROR]
    assert not found("MC909", WARNS, None, {"pad_token_id": 0})
    assert not found("MC909", WARNS.replace("if input_ids", "if config.pad_token_id and input_ids"))
    assert not found("MC909", WARNS.replace("self.rope_theta =", "self.pad_token_id ="))


def test_an_attribute_of_the_module_is_not_one_of_its_configuration():
    assert len(found("MC909", model("self.is_decoder = config.is_decoder"))) == 1
    assert not found("MC909", model("config.is_decoder = True; self.d = config.is_decoder"))


TYPE = "self.t = 'd' if config.rope_scaling is None else config.rope_scaling['type']"


@pytest.mark.parametrize(
    ("text", "config", "count"),
    [
        (model(TYPE), None, 1),
        (model("if self.config.rope_scaling:\n            config.rope_scaling['type']"), None, 1),
        (model(TYPE), {"rope_scaling": {"type": "linear", "factor": 2.0}}, 0),
        (model(TYPE.replace("['type']", "['rope_type']")), None, 0),
        (model(TYPE.replace("['type']", ".get('type')")), None, 0),
        (model("if config.other:\n            config.rope_scaling['type']"), None, 0),
        (model(TYPE, "self.rope_parameters = {'type': 'x'}; self.rope_theta = 1"), None, 0),
        (model("self.b = config.rope_theta"), None, 0),
        (model("self.b = config.rope_theta", "pass"), None, 1),
        (model("self.b = config.rope_theta", "pass"), {"rope_theta": 5.0}, 0),
        (model("self.b = config.rope_theta", "self.rope_scaling = None"), {"rope_theta": 5.0}, 1),
    ],
)
def test_rope_settings(text, config, count):
    assert len(found("MC903", text, None, config)) == count


ROPE = """
from torch import nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
class R(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.rope_type = config.rope_scaling.get("type", "default")
        self.f = ROPE_INIT_FUNCTIONS[self.rope_type]
"""


@pytest.mark.parametrize(
    ("text", "config", "count"),
    [
        (ROPE, None, 1),
        (ROPE, {"rope_scaling": {"rope_type": "yarn"}}, 0),
        (ROPE, {"rope_scaling": None}, 1),
        (ROPE.replace(', "default"', ', "yarn"'), None, 0),
        (ROPE + '        if self.rope_type != "default": pass\n', None, 0),
        (ROPE + 'ROPE_INIT_FUNCTIONS["default"] = None\n', None, 0),
        (ROPE.replace("[self.rope_type]", '["default"]'), {"rope_scaling": {"type": "x"}}, 1),
    ],
)
def test_the_default_rope_function(text, config, count):
    assert len(found("MC904", text, None, config)) == count


def test_init_weights_without_post_init_breaks_the_constructor():
    text = model("self.init_weights()").replace("        self.post_init()\n", "")
    (finding,) = found("MC906", text)
    assert finding.severity is ERROR
    assert found("MC906", model("self.init_weights()")) == []
    part = text + (
        "class Top(PreTrainedModel):\n    def __init__(self, config):\n"
        "        super().__init__(config)\n        self.m = M(config)\n        self.post_init()\n"
    )
    assert [f.class_name for f in found("MC906", part)] == ["M"]
    assert (
        found("MC906", part.replace("        self.init_weights()\n", "        self.x = 1\n")) == []
    )


def test_a_model_that_vllm_does_not_build_is_no_error():
    head = model("self.pad = config.pad_token_id; self.m = Base(config)")
    head = head + "class Base(PreTrainedModel):\n    pass\n"
    assert [f.severity for f in found("MC909", head)] == [INFO]
    assert [f.severity for f in found("MC909", head, "5.19")] == [ERROR]
    part = head.replace("Base(config)", "Base(config.vision)")
    assert [f.severity for f in found("MC909", part)] == [ERROR]


def test_a_method_of_its_own_is_no_removed_one():
    call = model("self.mask = self.get_head_mask(None, 2)")
    (finding,) = found("MC910", call)
    assert finding.severity is ERROR
    own = call + "    def get_head_mask(self, mask, count):\n        return mask\n"
    assert found("MC910", own) == []


def test_a_method_that_only_newer_releases_have_lost():
    call = model("self.mask = self.get_extended_attention_mask(mask, shape)")
    for transformers, severity in ((None, INFO), ("5.19", ERROR)):
        (finding,) = found("MC910", call, transformers)
        assert (finding.severity, finding.fix.fixer) == (severity, "v5_model_methods")
    assert found("MC910", call, "5.16") == []


def test_arguments_from_a_dictionary_are_seen():
    text = rule_named("MC911").sections["Example"].split("```python\n")[1].split("```")[0]
    packed = text.replace("create_causal_mask(\n", "dict(\n").replace(
        "        return hidden", "        mask = create_causal_mask(**kw)\n        return hidden"
    )
    literal = packed.replace(
        "        mask = create", "        kw = {'cache_position': 1}\n        mask = create"
    )
    (finding,) = found("MC911", literal)
    assert "cache_position=" in finding.message
    assert found("MC911", packed) == []
    assert found("MC911", text.replace("transformers.masking_utils", "mine")) == []


def test_the_judged_release():
    assert str(judged(context_of("", "5.19"))) == "transformers 5.19"
    assert str(judged(context_of(""))) == "transformers 5.16.1 and later"
    assert not judged(context_of("", "5.0")).lacks("5.1.0")
    assert judged(context_of("", "5.19.0")).lacks("5.19.2")
    with pytest.raises(UsageError, match="is not a version"):
        judged(context_of("", "five"))


# The table against the release that is installed.


def importable(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers", minversion="5.0")


def gone(change, transformers):
    return Version(change.until).release[:2] <= Version(transformers.__version__).release[:2]


@pytest.mark.parametrize("removed", [True, False])
def test_imports_against_the_installed_release(transformers, removed):
    """What is said to be gone is gone; what is said to go later is still there."""
    wrong, checked = [], 0
    for (name, attribute), change in removed_imports().items():
        if gone(change, transformers) is not removed or ".models." in name:
            continue
        module = importable(name)
        exists = module is not None and (not attribute or hasattr(module, attribute))
        checked += 1
        if exists is removed:
            wrong.append(f"{name}.{attribute} ({change.until})")
    assert wrong == []
    assert checked > (1000 if removed else 0)


def test_replacements_exist(transformers):
    for change in removed_imports().values():
        if change.replacement and gone(change, transformers):
            exec(change.replacement, {})


def test_members_against_the_installed_release(transformers):
    from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    owners = {
        Kind.CACHE_METHOD: DynamicCache(),
        Kind.MODEL_METHOD: PreTrainedModel,
        Kind.CONFIG_ATTRIBUTE: PreTrainedConfig(),
    }
    for kind, owner in owners.items():
        assert removed(kind)
        for name, change in removed(kind).items():
            assert hasattr(owner, name) is not gone(change, transformers), name
    for name, change in removed(Kind.CONSTANT).items():
        assert (name in ROPE_INIT_FUNCTIONS) is not gone(change, transformers)
    for (owner, name), change in removed_arguments().items():
        module, _, function = owner.rpartition(".")
        taken = inspect.signature(getattr(importlib.import_module(module), function)).parameters
        assert (name in taken) is not gone(change, transformers)
        assert not change.replacement or change.replacement in taken
