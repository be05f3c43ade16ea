"""dryrun and vLLM agree class by class, and vLLM does what the contract says."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modelcheck.dryrun.target import BuildSpec
from modelcheck.dryrun.worker import run_dryrun
from modelcheck.vllm.load import LoadReport, require_vllm

HERE = Path(__file__).resolve().parent
REMOTE = HERE.parents[1] / "fixtures" / "models" / "remote_decoder"
CONFIGS = runpy.run_path(str(HERE / "configs.py"))["CONFIGS"]
UNFUSED = ("functional_gate", "other_norm", "renamed_input")  # one fusion lost in each

# What vLLM 0.30 to 0.33 applies to each class, written down from its source before the first
# run: two layers, of which deepseek_v3's first is dense.
EXPECTED = {
    "llama": {
        "LlamaAttention": (2, ("Attention", "QKV")),
        "LlamaMLP": (2, ("GLU",)),
        "LlamaRMSNorm": (5, ("RMSNorm",)),
    },
    "mistral": {
        "MistralAttention": (2, ("Attention", "QKV")),
        "MistralMLP": (2, ("GLU",)),
        "MistralRMSNorm": (5, ("RMSNorm",)),
    },
    "qwen3": {
        "Qwen3Attention": (2, ("Attention", "QKV")),
        "Qwen3MLP": (2, ("GLU",)),
        "Qwen3RMSNorm": (9, ("RMSNorm",)),
    },
    "qwen3_moe": {
        "Qwen3MoeAttention": (2, ("Attention", "QKV")),
        "Qwen3MoeSparseMoeBlock": (2, ("MoEBlock",)),
        "Qwen3MoeRMSNorm": (9, ("RMSNorm",)),
    },
    "gemma3_text": {
        "Gemma3Attention": (2, ("Attention", "QKV")),
        "Gemma3MLP": (2, ("GLU",)),
        "Gemma3RMSNorm": (13, ("RMSNorm",)),
    },
    "olmoe": {
        "OlmoeAttention": (2, ("Attention", "QKV")),
        "OlmoeSparseMoeBlock": (2, ("MoEBlock",)),
        "OlmoeRMSNorm": (9, ("RMSNorm",)),
    },
    "granitemoe": {  # the block keeps its forward and routes, vLLM runs the experts
        "GraniteMoeAttention": (2, ("Attention", "QKV")),
        "GraniteMoeMoE": (2, ("MoEBlock",)),
        "GraniteMoeRMSNorm": (5, ("RMSNorm",)),
    },
    "gpt_oss": {  # experts with two-dimensional biases stay transformers'
        "GptOssAttention": (2, ("Attention", "QKV")),
        "GptOssRMSNorm": (5, ("RMSNorm",)),
    },
    "deepseek_v3": {
        "DeepseekV3Attention": (2, ("Attention", "MLA")),
        "DeepseekV3MLP": (2, ("GLU",)),
        "DeepseekV3MoE": (1, ("MoEBlock",)),
        "DeepseekV3RMSNorm": (9, ("RMSNorm",)),
    },
    "remote_decoder": {
        "TarnAttention": (2, ("Attention", "QKV")),
        "TarnMLP": (2, ("GLU",)),
        "TarnRMSNorm": (9, ("RMSNorm",)),
    },
}


def report_of(outcomes: Mapping[str, Any], name: str) -> LoadReport:
    outcome = outcomes[name]
    assert isinstance(outcome, LoadReport), outcome
    return outcome


@pytest.mark.parametrize("name", [*CONFIGS, "remote_decoder"])
def test_vllm_does_what_its_source_says(outcomes: Mapping[str, Any], name: str) -> None:
    report = report_of(outcomes, name)
    assert {c.class_name: (c.count, c.fired) for c in report.vllm} == EXPECTED[name]


@pytest.mark.parametrize("name", [*CONFIGS, "remote_decoder", *UNFUSED])
def test_dryrun_agrees(outcomes: Mapping[str, Any], name: str) -> None:
    report = report_of(outcomes, name)
    assert report.comparisons
    assert [row.to_json() for row in report.comparisons if not row.agree or row.undecided] == []


@pytest.mark.parametrize("name", [*CONFIGS, "remote_decoder"])
def test_effects_are_the_same(outcomes: Mapping[str, Any], name: str) -> None:
    """Not only which fusers: also what they merge, in which order, and which eps they read."""
    report = report_of(outcomes, name)

    def effects(classes: Any) -> dict[str, Any]:
        return {
            f"{path} {result.fuser}": (result.becomes, result.shards)
            for c in classes
            for path in c.paths
            for result in c.fusions
        }

    assert effects(report.dryrun) == effects(report.vllm)


def test_who_routes_is_compared(outcomes: Mapping[str, Any]) -> None:
    inside = {row.class_name: row for row in report_of(outcomes, "deepseek_v3").comparisons}
    assert inside["DeepseekV3MoE"].vllm == ("MoEBlock (internal routing)",)
    outside = {row.class_name: row for row in report_of(outcomes, "granitemoe").comparisons}
    assert outside["GraniteMoeMoE"].vllm == ("MoEBlock (external routing)",)


def test_gemma_norm_becomes_gemma_norm(outcomes: Mapping[str, Any]) -> None:
    norms = {c.class_name: c.fusions for c in report_of(outcomes, "gemma3_text").vllm}
    assert [f.becomes for f in norms["Gemma3RMSNorm"]] == ["GemmaRMSNorm"]


def test_lost_fusions_are_named(outcomes: Mapping[str, Any]) -> None:
    norm = report_of(outcomes, "other_norm")
    assert any("TarnRMSNorm looks like an RMSNorm" in text for text in norm.warnings)
    lost = {c.class_name: c.missed for c in norm.vllm if c.missed}
    assert [m.fuser for m in lost["TarnRMSNorm"]] == ["RMSNorm"]

    attention = report_of(outcomes, "renamed_input")
    lost = {c.class_name: c.missed for c in attention.vllm if c.missed}
    reasons = {m.fuser: m.reason for m in lost["TarnAttention"]}
    assert reasons["QKV"] == (
        "its forward cannot be rewritten: projection inputs are written differently"
    )


def test_depth_is_cut_and_told(outcomes: Mapping[str, Any]) -> None:
    report = report_of(outcomes, "remote_decoder")
    assert report.depths == (("num_hidden_layers", 2, 4),)
    assert report_of(outcomes, "llama").depths == ()


def test_versions_are_those_of_the_interpreter(outcomes: Mapping[str, Any], python: str) -> None:
    report = report_of(outcomes, "llama")
    assert report.versions == require_vllm(python)
    assert report.backend == "TransformersForCausalLM"
    assert report_of(outcomes, "olmoe").backend == "TransformersMoEForCausalLM"


def test_dryrun_of_its_own_says_the_same(outcomes: Mapping[str, Any], python: str) -> None:
    """The traced half of ``load`` is what the command ``dryrun`` says, without vLLM imported."""
    report = report_of(outcomes, "remote_decoder")
    spec = BuildSpec(path=str(REMOTE), trust_remote_code=True)
    alone = run_dryrun(spec, vllm=report.versions["vllm"], python=python)
    assert alone.classes == report.dryrun
