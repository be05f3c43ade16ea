"""What counts as a kind of layer, on small modules of our own."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from torch import nn
from transformers import PretrainedConfig

from modelcheck.dryrun import shrink


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int = 4, sliding: bool = False, index: int = 0) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 4)
        self.sliding = sliding
        self.layer_idx = index
        self.name = f"layer_{index}"


class Other(Layer):
    pass


class Model(nn.Module):  # type: ignore[misc]
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.shared = nn.Linear(4, 4 * len(layers))


@pytest.mark.parametrize(
    ("layers", "needed"),
    [
        ([Layer(index=i) for i in range(6)], 1),  # indices and numbered names make no kind
        ([Layer(), Layer(), Other(), Layer()], 3),
        ([Layer(), Layer(), Layer(width=8)], 3),
        ([Layer(), Layer(sliding=True), Layer()], 2),
    ],
)
def test_needed_layers(layers: list[nn.Module], needed: int) -> None:
    model = Model(layers)
    assert shrink.needed(model) == {len(layers): needed}
    assert shrink.kinds(Model(layers[:needed])) == shrink.kinds(model)
    if needed > 1:
        assert shrink.kinds(Model(layers[: needed - 1])) != shrink.kinds(model)


def config(**values: object) -> PretrainedConfig:
    made = PretrainedConfig()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def test_lists_that_go_with_a_depth_are_cut_and_others_are_not() -> None:
    whole = config(num_hidden_layers=6, kinds=list("aabaab"), widths=[1, 2], num_heads=6)
    ((plan),) = shrink.plans(whole, {6: 1})
    cut, depths = shrink.apply(whole, plan)

    assert depths == (shrink.Depth("num_hidden_layers", 3, 6),)
    assert cut.kinds == list("aab")
    assert (cut.widths, cut.num_heads) == ([1, 2], 6)
    assert (whole.num_hidden_layers, len(whole.kinds)) == (6, 6)


def test_a_list_of_all_indices_asks_for_no_layers() -> None:
    whole = config(num_hidden_layers=9, moe_layers=list(range(9)))
    first, second = shrink.plans(whole, {9: 1})
    assert (first, second) == ({"num_hidden_layers": 2}, {"num_hidden_layers": 4})


def test_a_depth_must_be_measured_as_one() -> None:
    assert list(shrink.plans(config(num_hidden_layers=9), {8: 1})) == []


def test_depths_of_nested_configurations() -> None:
    whole = config(text_config=config(num_hidden_layers=8), vision_config=config(depth=9))
    assert shrink.depths_of(whole) == {
        "text_config.num_hidden_layers": 8,
        "vision_config.depth": 9,
    }
    plan = next(iter(shrink.plans(whole, {8: 1, 9: 3})))
    cut, _ = shrink.apply(whole, plan)
    assert (cut.text_config.num_hidden_layers, cut.vision_config.depth) == (2, 3)


@pytest.mark.parametrize(
    ("values", "depth"),
    [
        ({"num_hidden_layers": 60}, 2),
        ({"num_hidden_layers": 60, "first_k_dense_replace": 3}, 4),
        ({"num_hidden_layers": 60, "attn_layer_period": 8, "attn_layer_offset": 4}, 9),
        ({"num_hidden_layers": 60, "layer_types": ["a"] * 10 + ["b"] * 50}, 11),
    ],
)
def test_hints_for_models_too_large_to_measure(values: dict[str, object], depth: int) -> None:
    assert shrink.hinted(config(**values)) == depth
