"""Predictions from whole files: which configuration a module holds, and from where it is made."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.predicted import ClassPrediction, predict_file
from modelcheck.fusers.results import Fires
from modelcheck.source.classes import ProjectIndex
from modelcheck.source.text import read_source

CONFIGURATION = """
from transformers import PreTrainedConfig
from transformers.models.auto import AutoConfig


class ToyTextConfig(PreTrainedConfig):
    hidden_size: int = 64
    num_attention_heads: int = 4
    num_key_value_heads: int = 4
    head_dim: int = 16
    hidden_act: str = "silu"


class ToyVisionConfig(ToyTextConfig):
    pass


class ToyConfig(PreTrainedConfig):
    sub_configs = {"text_config": ToyTextConfig, "vision_config": ToyVisionConfig}
    text_config: dict | PreTrainedConfig | None = None
    vision_config: dict | PreTrainedConfig | None = None

    def __post_init__(self, **kwargs):
        if not isinstance(self.text_config, PreTrainedConfig):
            self.text_config = ToyTextConfig(**(self.text_config or {}))
        if self.vision_config is None:
            self.vision_config = ToyVisionConfig()
        super().__post_init__(**kwargs)
"""
MODEL = """
import copy
from torch import nn
from transformers import AutoModel, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .configuration_toy import ToyConfig, ToyTextConfig, ToyVisionConfig


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states, **kwargs):
        q, k, v = self.query(hidden_states), self.key(hidden_states), self.value(hidden_states)
        attention = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, None)
        output, _ = attention(self, q, k, v, None, **kwargs)
        return self.out(output)


class VisionAttention(Attention):
    pass


class Toy(PreTrainedModel):
    config_class = ToyConfig


class Text(Toy):
    config_class = ToyTextConfig

    def __init__(self, config):
        super().__init__(config)
        self.attention = Attention(config)


class Vision(Toy):
    config_class = ToyVisionConfig

    def __init__(self, config):
        super().__init__(config)
        self.attention = VisionAttention(config)


class Whole(Toy):
    def __init__(self, config):
        super().__init__(config)
        self.text = MAKE_TEXT
        self.vision = MAKE_VISION
"""


def predicted(
    folder: Path, model: str, configuration: str = CONFIGURATION, roots: bool = False
) -> dict[str, ClassPrediction]:
    (folder / "configuration_toy.py").write_text(configuration)
    path = folder / "modeling_toy.py"
    path.write_text(model)
    file = ProjectIndex().add(read_source(str(path)))
    found = predict_file(file, contract_for("0.32.0"), roots=roots)
    return {prediction.info.name: prediction for prediction in found}


def fires(predictions: dict[str, ClassPrediction], name: str, fuser: str) -> Fires:
    result = predictions[name].result(fuser)
    assert result is not None
    return result.fires


def attention_of(
    folder: Path, text: str, vision: str, configuration: str = CONFIGURATION
) -> tuple[Fires, Fires]:
    model = MODEL.replace("MAKE_TEXT", text).replace("MAKE_VISION", vision)
    found = predicted(folder, model, configuration)
    return fires(found, "Attention", "Attention"), fires(found, "VisionAttention", "Attention")


@pytest.mark.parametrize(
    ("text", "vision"),
    [
        ("Text(config.text_config)", "Vision(config.vision_config)"),
        ("Text._from_config(config.text_config)", "Vision._from_config(config.vision_config)"),
        (
            "AutoModel.from_config(config.text_config)",
            "AutoModel.from_config(config.vision_config)",
        ),
        ("Text(config.get_text_config())", "Vision(copy.deepcopy(config.vision_config))"),
    ],
)
def test_only_the_text_part_gets_vllm_attention(tmp_path: Path, text: str, vision: str) -> None:
    assert attention_of(tmp_path, text, vision) == (Fires.YES, Fires.NO)


def test_a_copy_of_the_text_part_has_its_attention(tmp_path: Path) -> None:
    text = "Text(copy.deepcopy(config.text_config))"
    assert attention_of(tmp_path, text, "Vision(config.vision_config)")[0] is Fires.YES


def test_an_implementation_can_be_handed_over(tmp_path: Path) -> None:
    asked = "attn_implementation=config.text_config._attn_implementation"
    vision = f"Vision._from_config(config.vision_config, {asked})"
    assert attention_of(tmp_path, "Text(config.text_config)", vision) == (Fires.YES, Fires.YES)


def test_without_a_text_part_all_parts_are_switched(tmp_path: Path) -> None:
    configuration = CONFIGURATION.replace("text_config", "words_config")
    answers = attention_of(
        tmp_path, "Text(config.words_config)", "Vision(config.vision_config)", configuration
    )
    assert answers == (Fires.YES, Fires.YES)


def test_only_declared_parts_are_switched(tmp_path: Path) -> None:
    configuration = CONFIGURATION.replace("text_config", "words_config")
    configuration = configuration.replace(', "vision_config": ToyVisionConfig}', "}")
    answers = attention_of(
        tmp_path, "Text(config.words_config)", "Vision(config.vision_config)", configuration
    )
    assert answers == (Fires.YES, Fires.NO)


def test_a_configuration_may_choose_its_text_part(tmp_path: Path) -> None:
    own = "\n    def get_text_config(self, *args, **kwargs):\n        return self.vision_config\n"
    answers = attention_of(
        tmp_path, "Text(config.text_config)", "Vision(config.vision_config)", CONFIGURATION + own
    )
    assert answers == (Fires.NO, Fires.YES)


def test_a_text_part_that_cannot_be_read_is_still_the_text_part(tmp_path: Path) -> None:
    configuration = CONFIGURATION.replace(
        "ToyTextConfig(**(self.text_config or {}))", "AutoConfig.for_model(self.text_config)"
    )
    answers = attention_of(
        tmp_path, "Text(config.text_config)", "Vision(config.vision_config)", configuration
    )
    assert answers == (Fires.YES, Fires.NO)


def test_models_that_nothing_holds_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    model = MODEL.replace("MAKE_TEXT", "Text(config.text_config)")
    model = model.replace("MAKE_VISION", "Vision._from_config(config.vision_config)")
    held = predicted(tmp_path, model)
    assert "Whole" not in held
    assert {"Text", "Vision", "Attention", "VisionAttention"} <= held.keys()
    assert "Whole" in predicted(tmp_path, model, roots=True)


# Single classes ----------------------------------------------------------------------------

HEAD = """
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import BaseModelOutput
from transformers.pytorch_utils import apply_chunking_to_forward
from transformers.utils import torch_compilable_check

from .configuration_toy import ToyTextConfig


"""
MLP = """
class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = nn.Linear(config.hidden_size, 128)
        self.up = nn.Linear(config.hidden_size, 128)
        self.down = nn.Linear(128, config.hidden_size)
        self.act = ACT2FN[config.hidden_act]
        {made}

    def forward(self, x):
        {before}
        return self.down(self.act(self.gate(x)) * self.up(x))
"""
HOLDER = """

class Model(PreTrainedModel):
    config_class = ToyTextConfig

    def __init__(self, config):
        super().__init__(config)
        self.mlp = Mlp(config)
"""


def glu(folder: Path, before: str = "", made: str = "", helpers: str = "") -> Fires:
    mlp = MLP.replace("{before}", before or "pass").replace("{made}", made or "pass")
    found = predicted(folder, HEAD + textwrap.dedent(helpers) + mlp + HOLDER)
    return fires(found, "Mlp", "GLU")


def test_a_check_of_a_plain_value_is_passed(tmp_path: Path) -> None:
    assert glu(tmp_path, "torch_compilable_check(self.training, 'no')") is Fires.YES


def test_a_check_of_an_input_ends_the_trace(tmp_path: Path) -> None:
    assert glu(tmp_path, "torch_compilable_check(x.shape[0] == 1, 'no')") is Fires.NO


def test_a_member_that_does_not_exist_ends_the_trace(tmp_path: Path) -> None:
    assert glu(tmp_path, "self.missing(x)") is Fires.NO


def test_a_function_that_walks_an_unseen_module_ends(tmp_path: Path) -> None:
    helpers = """
    def freeze(module):
        for child in module.children():
            freeze(child)
    """
    assert glu(tmp_path, made="freeze(torch.load('x'))", helpers=helpers) is Fires.YES


def test_a_function_that_walks_the_module_itself_is_not_trusted(tmp_path: Path) -> None:
    helpers = """
    def freeze(module):
        freeze(module)
    """
    assert glu(tmp_path, made="freeze(self)", helpers=helpers) is Fires.UNKNOWN


@pytest.mark.parametrize("size", ["0", "8"])
def test_chunks(tmp_path: Path, size: str) -> None:
    model = HEAD + MLP.replace("{made}", "pass").replace("{before}", "pass").replace(
        "def forward(self, x):", "def inner(self, x):"
    )
    model += (
        "\n    def forward(self, x):\n"
        f"        return apply_chunking_to_forward(self.inner, {size}, 1, x)\n" + HOLDER
    )
    result = predicted(tmp_path, model)["Mlp"].result("GLU")
    assert result is not None
    assert ("the lengths of the chunks" in result.reason) is (size == "8")


def test_instances_that_cannot_be_made_are_not_judged(tmp_path: Path) -> None:
    model = HEAD + MLP.replace("{made}", "pass").replace("{before}", "pass") + HOLDER
    model += "        self.other = Mlp(config.no_config if False else None)\n"
    assert fires(predicted(tmp_path, model), "Mlp", "GLU") is Fires.YES


def test_a_subclass_of_any_module_of_torch_is_predicted(tmp_path: Path) -> None:
    model = (
        HEAD + "class Convolution(nn.Conv2d):\n    def forward(self, x):\n        return x + 1\n"
    )
    found = predicted(tmp_path, model)
    assert fires(found, "Convolution", "RMSNorm") is Fires.NO


@pytest.mark.parametrize(
    ("layers", "expected"),
    [("{}", Fires.YES), ("{1: {'hidden_act': 'relu'}}", Fires.NO)],
)
def test_layers_with_values_of_their_own(tmp_path: Path, layers: str, expected: Fires) -> None:
    configuration = CONFIGURATION.replace(
        'hidden_act: str = "silu"\n',
        'hidden_act: str = "silu"\n\n    def __post_init__(self, **kwargs):\n'
        f'        kwargs["per_layer_config"] = {layers}\n'
        "        super().__post_init__(**kwargs)\n",
        1,
    )
    model = HEAD + MLP.replace("{made}", "pass").replace("{before}", "pass")
    model += HOLDER.replace("Mlp(config)", "Mlp(config.per_layer_config[1])")
    assert fires(predicted(tmp_path, model, configuration), "Mlp", "GLU") is expected
