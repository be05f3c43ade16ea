"""The submodules that a constructor builds, however the class is called."""

import pytest

from modelcheck.source.callpath import children
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.text import parse_text

CODE = """
from torch import nn
from torch.nn.utils import skip_init


class Layer(nn.Module):
    def __init__(self, config, index=0):
        super().__init__()


def made(cls, *args):
    return cls(*args)


class Model(nn.Module):
    def __init__(self, config, make=made):
        super().__init__()
        BODY
"""


@pytest.mark.parametrize(
    ("body", "many"),
    [
        ("self.part = Layer(config)", False),
        ("self.part = made(Layer, config)", False),
        ("self.part = make(Layer, config)", False),
        ("build = skip_init if config.fast else made; self.part = build(Layer, config)", False),
        ("self.part = nn.ModuleList([make(Layer, config) for _ in range(2)])", True),
        (
            "def build(i):\n            return Layer(config, i)\n"
            "        self.part = nn.ModuleList([build(i) for i in range(2)])",
            True,
        ),
    ],
)
def test_a_class_that_is_built(body, many):
    file = ProjectIndex().add(parse_text("modeling_x.py", CODE.replace("BODY", body)))
    (child,) = [c for c in children(file.classes["Model"]) if c.type_name == "Layer"]
    assert (child.attr, child.many) == ("part", many)


@pytest.mark.parametrize(
    "body",
    ["self.part = isinstance(config, Layer)", "self.part = issubclass(Layer, nn.Module)"],
)
def test_a_class_that_is_only_asked_about(body):
    file = ProjectIndex().add(parse_text("modeling_x.py", CODE.replace("BODY", body)))
    assert not [c for c in children(file.classes["Model"]) if c.type_name == "Layer"]


def test_a_function_that_returns_itself():
    body = "def build():\n            return build()\n        self.part = build()"
    file = ProjectIndex().add(parse_text("modeling_x.py", CODE.replace("BODY", body)))
    assert children(file.classes["Model"]) == ()
