"""A small transformers package on disk, and records made by hand."""

import pytest

from modelcheck.findings import Span
from modelcheck.fusers.contract import newest
from modelcheck.fusers.results import ClassReport, Evidence, Fires, FusionResult
from modelcheck.survey.catalogue import read_catalogue
from modelcheck.survey.records import MODEL, Record, SurveyedClass
from modelcheck.survey.run import Plan

CONFIGURATION_AUTO = """
from collections import OrderedDict
from .auto_mappings import CONFIG_MAPPING_NAMES
CONFIG_MAPPING_NAMES.update({"late": "LateConfig"})
CONFIG_MAPPING_NAMES = OrderedDict(**{"two-part": "TwoConfig"}, **CONFIG_MAPPING_NAMES)
"""
AUTO_MAPPINGS = """
from collections import OrderedDict
CONFIG_MAPPING_NAMES = OrderedDict([("one", "OneConfig"), ("two-text", "TwoTextConfig")])
SPECIAL_MODEL_TYPE_TO_MODULE_NAME = OrderedDict([("two-text", "two_part")])
"""
MODELING_AUTO = """
from collections import OrderedDict
MODEL_MAPPING_NAMES = OrderedDict([
    ("one", ("OneModel", "OneSmallModel")),
    ("two-part", "TwoModel"),
    ("two-text", "TwoTextModel"),
    ("gone", "GoneModel"),
])
"""
ONE = """
import torch
from torch import nn
from ...modeling_utils import PreTrainedModel

class OneNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states

class OneModel(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.norm = OneNorm(config.hidden_size)

    def forward(self, hidden_states, **kwargs):
        return self.norm(hidden_states)
"""
TWO = """
import torch
from torch import nn
from ...modeling_utils import PreTrainedModel

class TwoMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(64, 128)
        self.up_proj = nn.Linear(64, 128)
        self.down_proj = nn.Linear(128, 64)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))

class TwoOther(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = TwoMLP(None)

    def forward(self, x):
        return self.mlp(x)

LAYERS = {"other": TwoOther}

class TwoPreTrainedModel(PreTrainedModel):
    def _init_weights(self, module):
        if isinstance(module, TwoOther):
            pass

class TwoTextModel(TwoPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x)

class TwoModel(TwoPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.other = LAYERS["other"]()

    def forward(self, x):
        return self.other(x)
"""


@pytest.fixture
def package(tmp_path):
    root = tmp_path / "transformers"
    files = {
        "models/auto/auto_mappings.py": AUTO_MAPPINGS,
        "models/auto/configuration_auto.py": CONFIGURATION_AUTO,
        "models/auto/modeling_auto.py": MODELING_AUTO,
        "models/one/modeling_one.py": ONE,
        "models/two_part/modeling_two_part.py": TWO,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def plan(package):
    catalogue = read_catalogue(package, "5.19.0")
    return Plan(catalogue, catalogue.types, (Evidence.PREDICTED,), newest(), jobs=2)


def result(fuser, fires, reason="", line=None, becomes="", near=True):
    return FusionResult(
        fuser,
        fires,
        "C",
        reason,
        becomes,
        span=Span(line) if line else None,
        details=(("near", "yes"),) if near and fires is Fires.NO else (),
    )


@pytest.fixture
def records(plan):
    """Two kinds of evidence that differ on QKV, one failure, and text that is not plain."""
    yes = result("QKV", Fires.YES, line=3, becomes="QKVParallelLinear")
    no = result("QKV", Fires.NO, "</script><b>&'\" written between", line=4)
    unknown = result("GLU", Fires.UNKNOWN, "a branch")

    def record(name, evidence, *results, error=None):
        fusions = tuple(r for r in results if r.fires is Fires.YES)
        missed = tuple(r for r in results if r.fires is not Fires.YES)
        report = ClassReport("OneAttention", ("layers.0.attn",), fusions, missed)
        place = ("models/one/modeling_one.py", 6, "models/one/modeling_one.py", {4: "x = <y>"})
        classes = () if error else (SurveyedClass(report, *place),)
        failed = MODEL if error else None
        return Record(name, evidence, plan.releases(evidence), classes, (), error, failed, 0.1)

    return [
        record("one", Evidence.PREDICTED, yes, unknown),
        record("one", Evidence.TRACED, no),
        record("gone", Evidence.PREDICTED, error="no modeling file has the class GoneModel"),
    ]
