"""config.json and the configuration class, seen as one."""

import json

import pytest

from modelcheck.fusers.contract import newest
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.config_defaults import read_config_class
from modelcheck.source.repo_config import EXPERT_COUNT, Origin, RepoConfig
from modelcheck.source.text import parse_text

SOURCE = """
from transformers import PreTrainedConfig

class XConfig(PreTrainedConfig):
    attribute_map = {"num_experts": "experts", "num_attention_heads": "n_head"}
    shown = 7

    def __init__(self, hidden_size=64, n_head=4, experts=8, secret=None, **kwargs):
        self.hidden_size = hidden_size
        self.n_head = n_head
        self.experts = experts
        self.num_kv_heads = compute(secret)
        super().__init__(**kwargs)
"""


@pytest.fixture
def settings():
    def read(**given):
        file = ProjectIndex().add(parse_text("configuration_x.py", SOURCE))
        config = read_config_class(file.classes["XConfig"], newest(), given)
        return RepoConfig(config, given, json.dumps(given, indent=1))

    return read


def test_where_a_value_is_from(settings):
    view = settings(n_head=2)
    heads = view.value("num_attention_heads")
    assert (heads.value, heads.origin, heads.line) == (2, Origin.CONFIG_JSON, 2)
    width = view.value("hidden_size")
    assert (width.value, width.origin, width.line) == (64, Origin.CLASS_DEFAULT, 8)
    assert view.value("shown").line == 6
    assert view.value("nowhere").origin is Origin.ABSENT


def test_what_the_class_computes_is_unknown(settings):
    assert settings().value("num_kv_heads").origin is Origin.UNKNOWN
    assert settings().kv_heads.origin is Origin.UNKNOWN


def test_aliases(settings):
    found = settings().first(EXPERT_COUNT)
    assert (found.name, found.value) == ("num_experts", 8)
    assert settings().first(("a", "b")).origin is Origin.ABSENT


def test_head_size(settings):
    assert settings().head_size == 16
    assert settings(head_dim=40).head_size == 40
    assert settings(head_dim=0, n_head=2).head_size == 32


def test_a_property_that_makes_its_own_class_ends():
    text = """
from transformers import PreTrainedConfig

class XConfig(PreTrainedConfig):
    hidden_size = 64

    @property
    def encoder_config(self):
        return YConfig(**self.to_dict())

class YConfig(XConfig):
    hidden_size = 32
"""
    file = ProjectIndex().add(parse_text("configuration_x.py", text))
    assert read_config_class(file.classes["XConfig"], newest()).values["hidden_size"] == 64
