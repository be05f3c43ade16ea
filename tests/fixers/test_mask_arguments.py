"""The fixer of calls that transformers 5.9 refuses."""

from pathlib import Path

import pytest

import fixers
from modelcheck.findings import Finding
from modelcheck.scan import Scanner, Selection

HEAD = """from torch import nn
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask


class ToyStack(nn.Module):
    def forward(self, x, attention_mask=None, cache_position=None, **kwargs):
"""


def findings(path: Path) -> tuple[Finding, ...]:
    return tuple(Scanner(selection=Selection(select=("MC911",))).scan([str(path)]).findings)


def fixed(tmp_path: Path, body: str) -> str:
    """The text when the rule finds nothing more; each fix takes a finding away."""
    path = tmp_path / "modeling_toy.py"
    path.write_text(HEAD + body)
    found = findings(path)
    assert found, "there is nothing to fix"
    while found:
        assert found[0].fix is not None
        new = fixers.load(found[0].fix.fixer).fix(path.read_text(), found[0])
        path.write_text(new)
        fewer = findings(path)
        assert len(fewer) < len(found)
        found = fewer
    return path.read_text().removeprefix(HEAD)


def refusal(tmp_path: Path, body: str) -> fixers.FixRefused:
    path = tmp_path / "modeling_toy.py"
    path.write_text(HEAD + body)
    (finding,) = findings(path)
    with pytest.raises(fixers.FixRefused) as caught:
        fixers.load("v5_mask_arguments").fix(path.read_text(), finding)
    assert caught.value.line, "it names no line"
    return caught.value


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "(config=c, input_embeds=x, cache_position=cache_position, attention_mask=None)",
            "(config=c, inputs_embeds=x, attention_mask=None)",
        ),
        ("(c, input_embeds=x, cache_position=cache_position)", "(c, inputs_embeds=x)"),
        ("(cache_position=cache_position)", "()"),
        ("(\n            cache_position=cache_position,\n        )", "()"),
        ("(c, cache_position=(x), input_embeds = (x) ).to(x)", "(c, inputs_embeds = (x) ).to(x)"),
        ('(c, "ä", input_embeds=x, **kwargs)', '(c, "ä", inputs_embeds=x, **kwargs)'),
        (
            "(\n    c,\n    input_embeds=x,\n    cache_position=x,\n        )",
            "(\n    c,\n    inputs_embeds=x,\n        )",
        ),
    ],
)
def test_a_call(tmp_path: Path, old: str, new: str) -> None:
    text = "        return create_causal_mask{}\n"
    assert fixed(tmp_path, text.format(old)) == text.format(new)


def test_a_dictionary_of_two_calls(tmp_path: Path) -> None:
    text = (
        '        given = {"config": self.config, "INPUT_embeds": x, CACHE"attention_mask": None}\n'
        "        return create_causal_mask(**given), create_sliding_window_causal_mask(**given)\n"
    )
    before = text.replace("INPUT", "input").replace("CACHE", '"cache_position": cache_position, ')
    assert fixed(tmp_path, before) == text.replace("INPUT", "inputs").replace("CACHE", "")


def test_a_copy_with_an_entry_of_its_own(tmp_path: Path) -> None:
    """As multimodal models have it."""
    text = (
        '        given = {"config": self.config, "INPUT_embeds": x, "attention_mask": NoneCACHE}\n'
        "        windowed = given.copy()\n"
        '        windowed["or_mask_function"] = self.images\n'
        "        few = create_sliding_window_causal_mask(**windowed)\n"
        "        return create_causal_mask(**given), few\n"
    )
    before = text.replace("INPUT", "input").replace("CACHE", ', "cache_position": cache_position')
    assert fixed(tmp_path, before) == text.replace("INPUT", "inputs").replace("CACHE", "")


def test_two_calls_in_one_line(tmp_path: Path) -> None:
    text = (
        "        return create_causal_mask(c, {}=x), create_sliding_window_causal_mask(c, {}=x)\n"
    )
    assert fixed(tmp_path, text.format("input_embeds", "input_embeds")) == text.format(
        "inputs_embeds", "inputs_embeds"
    )


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("(c, input_embeds=x, cache_position=(y := x))", "worked out on the spot"),
        ("(c, input_embeds=x, cache_position=self.positions(x))", "worked out on the spot"),
        ("(c, input_embeds=x, inputs_embeds=x)", "both input_embeds and inputs_embeds"),
        ("(*c, input_embeds=x)", "unpacks a sequence"),
    ],
)
def test_what_it_does_not_understand(tmp_path: Path, call: str, reason: str) -> None:
    refused = refusal(tmp_path, f"        return create_causal_mask{call}\n")
    assert reason in refused.reason
    assert refused.line == HEAD.count("\n") + 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["c,", "cache_position=x,  # why"], 3),
        (["c,", "# why", "cache_position=x,", "input_embeds=x"], 4),
        (["c,  # why", "cache_position=x"], 1),
        (["# why", "cache_position=x"], 3),
    ],
)
def test_a_comment_is_neither_lost_nor_left_alone(
    tmp_path: Path, arguments: list[str], line: int
) -> None:
    inner = "".join(f"            {argument}\n" for argument in arguments)
    refused = refusal(tmp_path, f"        return create_causal_mask(\n{inner}        )\n")
    assert "the comment '# why'" in refused.reason
    assert refused.line == HEAD.count("\n") + line


def test_an_empty_dictionary_remains(tmp_path: Path) -> None:
    text = "        given = {}\n        return create_causal_mask(c, **given)\n"
    before = text.replace("{}", "{\n            'cache_position': x,\n        }")
    assert fixed(tmp_path, before) == text


def test_a_dictionary_that_others_read(tmp_path: Path) -> None:
    text = (
        '        given = {"config": self.config, "input_embeds": x}\n'
        "        self.last = given\n"
        "        return create_causal_mask(**given)\n"
    )
    refused = refusal(tmp_path, text)
    assert "something else" in refused.reason
    assert refused.line == HEAD.count("\n") + 2
