"""Windows that a prompt leaves."""

from transformers import CONFIG_MAPPING

from modelcheck.emulate.narrow import changed, shorten_windows
from modelcheck.emulate.spec import WINDOW


def test_a_window_by_either_name():
    mistral = CONFIG_MAPPING["mistral"](sliding_window=4096)
    assert shorten_windows(mistral) == [("sliding_window", WINDOW)]
    neo = CONFIG_MAPPING["gpt_neo"](window_size=256)
    changes = shorten_windows(neo)
    assert changes == [("window_size", WINDOW)]
    assert (changed(neo, changes).window_size, neo.window_size) == (WINDOW, 256)


def test_a_window_that_is_short_or_none():
    assert shorten_windows(CONFIG_MAPPING["gpt_neo"](window_size=WINDOW)) == []
    assert shorten_windows(CONFIG_MAPPING["mistral"](sliding_window=None)) == []


def test_the_windows_of_an_image_go_by_its_size():
    config = CONFIG_MAPPING["qwen2_5_vl"]()
    assert config.vision_config.window_size > WINDOW
    assert [name for name, _ in shorten_windows(config) if "vision" in name] == []
