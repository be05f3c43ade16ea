"""``@deprecate_kwarg`` of transformers on a forward: what torch.fx traces, and what we say."""

import importlib.util

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import Context
from modelcheck.rules.predictions import prediction_of
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.text import read_source

torch = pytest.importorskip("torch")

MODULE = """
import torch
from torch import nn
from transformers.utils.deprecation import deprecate_kwarg


class ToyAttention(nn.Module):
    def __init__(self, config=None, layer_idx=0):
        super().__init__()
        self.head_dim = 16
        self.q_proj = nn.Linear(64, 64)
        self.k_proj = nn.Linear(64, 32)
        self.v_proj = nn.Linear(64, 32)

    {decorator}
    def forward(self, {parameters}):
        query = self.q_proj(hidden_states)
        key = self.k_proj(hidden_states)
        return query, key, self.v_proj(hidden_states), {used}
"""
NAME = "ToyAttention"
RENAMED = '@deprecate_kwarg("cache", version="99.0", new_name="past")'
CASES = [
    ("# none", "hidden_states, past=None, **kwargs", "past", True),
    (RENAMED, "hidden_states, past=None", "past", True),
    (RENAMED, "hidden_states, past=None, **kwargs", "past", False),
    (RENAMED, "hidden_states, past=None, *rest", "rest", False),
]


def traces(path):
    """Does torch.fx trace the class?"""
    spec = importlib.util.spec_from_file_location("toy_decorated", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        torch.fx.Tracer().trace(getattr(module, NAME)())
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize(("decorator", "parameters", "used", "traced"), CASES)
def test_as_torch_fx_does(tmp_path, decorator, parameters, used, traced):
    path = tmp_path / "modeling_toy.py"
    path.write_text(MODULE.format(decorator=decorator, parameters=parameters, used=used))
    assert traces(path) == traced
    file = ProjectIndex().add(read_source(path))
    results = prediction_of(Context(file, None, contract_for(None)), file.classes[NAME]).results
    (qkv,) = [r for r in results if r.fuser == "QKV"]
    assert (qkv.fires == "yes") == traced, qkv
    assert traced or "below @deprecate_kwarg" in qkv.reason
