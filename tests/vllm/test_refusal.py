"""vLLM's exceptions as one line."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import pytest

from modelcheck.vllm.refusal import refusal


class ValidationError(Exception):
    """What pydantic raises has these two features."""

    def __init__(self, *messages: str) -> None:
        super().__init__("1 validation error for ModelConfig\n  ... input_value=ArgsKwargs")
        self.messages = messages

    def errors(self) -> list[dict[str, str]]:
        return [{"msg": message, "type": "value_error"} for message in self.messages]


def raised_in(filename: str, error: Exception) -> Exception:
    """The error as if a file of that name had raised it."""
    code: CodeType = compile("raise error", filename, "exec")
    with pytest.raises(type(error)) as caught:
        exec(code, {"error": error})
    return caught.value


def test_of_a_validation_error_only_what_was_said() -> None:
    error = ValidationError("Value error, No model architectures are specified")
    assert refusal(error, None) == "vLLM refuses the model: No model architectures are specified"


def test_an_empty_assertion_is_explained() -> None:
    text = refusal(ValidationError("Assertion failed, "), None)
    assert "PreTrainedModel" in text


def test_class_reprs_are_shortened() -> None:
    text = refusal(ValueError("in <class 'transformers_modules.t.abc.modeling_x.XModel'> it"), None)
    assert text == "vLLM refuses the model: in XModel it"


def test_other_errors_have_their_name_and_place() -> None:
    error = raised_in("/site-packages/vllm/model.py", KeyError("spam"))
    assert refusal(error, None) == "vLLM refuses the model: KeyError: 'spam' (vLLM's model.py:1)"


def test_many_lines_become_one() -> None:
    assert "\n" not in refusal(ValueError("one\n\ttwo"), None)


def test_a_limit_of_the_cpu_build_is_not_the_model() -> None:
    error = raised_in("/site-packages/vllm/router/cpu_router.py", AssertionError())
    text = refusal(error, None)
    assert text.startswith("a limit of vLLM's CPU build, not of the model (cpu_router.py:1")
    elsewhere = raised_in("/site-packages/vllm/router/router.py", AssertionError())
    assert "refuses" in refusal(elsewhere, None)
    # a file of the user's own is no part of vLLM
    own = raised_in("/home/user/cpu_model.py", ValueError("bad"))
    assert refusal(own, Path("/home/user")) == "vLLM refuses the model: bad"


def test_building_on_meta_is_not_what_vllm_does() -> None:
    error = RuntimeError("Tensor.item() cannot be called on meta tensors")
    assert refusal(error, None, "meta").endswith("try --device cpu")
    assert "vLLM refuses" in refusal(error, None, "cpu")
