"""All modeling files of the installed transformers: no crash, nothing grave said of the good."""

import importlib
import re
from pathlib import Path

import pytest

from modelcheck.findings import Severity
from modelcheck.scan import Scanner

transformers = pytest.importorskip("transformers")
MODELS = Path(transformers.__path__[0]) / "models"
# Decoders that vLLM's backend builds and fuses from transformers' own code.
MAINSTREAM = [
    "deepseek_v3", "gemma2", "gemma3", "glm4", "gpt_oss", "granite", "llama", "mistral", "mixtral",
    "olmo2", "olmoe", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3",
]  # fmt: skip


@pytest.fixture(scope="module")
def corpus():
    return Scanner().scan([str(path) for path in sorted(MODELS.rglob("modeling_*.py"))])


@pytest.mark.slow
def test_every_file_is_read(corpus):
    assert corpus.files == len(list(MODELS.rglob("modeling_*.py"))) > 400
    assert corpus.unreadable == ()
    assert len(corpus.findings) > 100


@pytest.mark.parametrize("name", MAINSTREAM)
def test_mainstream_decoders_have_no_error(name):
    result = Scanner().scan([str(MODELS / name / f"modeling_{name}.py")])
    grave = [f for f in result.findings if f.severity in (Severity.ERROR, Severity.WRONG)]
    assert grave == []


@pytest.mark.slow
def test_the_gate_is_judged_as_transformers_does(corpus):
    """MC301 is an error where both of transformers' own checks say no, else info."""
    flagged = [f for f in corpus.findings if f.code == "MC301"]
    assert len(flagged) > 20
    for finding in flagged:
        match = re.search(r"models/(\w+)/(\w+)\.py$", finding.path)
        module = importlib.import_module(f"transformers.models.{match[1]}.{match[2]}")
        root = getattr(module, finding.class_name)
        family = [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, root)
            and value.__module__ == module.__name__
        ]
        assert not any(each.is_backend_compatible() for each in family), finding
        opens = any(each._can_set_attn_implementation() for each in family)
        assert opens == (finding.severity is Severity.INFO), finding
