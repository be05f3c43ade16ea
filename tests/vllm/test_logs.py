"""vLLM's log lines, in the shapes that 0.25 to 0.33 print."""

from __future__ import annotations

import pytest

from modelcheck.vllm.logs import FusedLine, LogLine, fused_line, fused_lines, misses, warnings


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "Fused: gate_proj + up_proj (mlp: LlamaMLP) -> "
            "gate_up_proj (MergedColumnParallelLinear)",
            FusedLine("GLU", "LlamaMLP", "mlp", "MergedColumnParallelLinear"),
        ),
        (
            "Fused: q_proj + k_proj + v_proj (self_attn: LlamaAttention) -> "
            "qkv_proj (QKVParallelLinear)",
            FusedLine("QKV", "LlamaAttention", "self_attn", "QKVParallelLinear"),
        ),
        (
            "Fused: c_attn (attn: GPTBigCodeAttention) -> QKVParallelLinear",
            FusedLine("PackedQKV", "GPTBigCodeAttention", "attn", "QKVParallelLinear"),
        ),
        (
            "Fused: in_a + in_b (mix: Mixer) -> merged_proj_in_a_in_b (MergedColumnParallelLinear)",
            FusedLine("MergedColumnParallel", "Mixer", "mix", "MergedColumnParallelLinear"),
        ),
        (
            "Fused: self_attn (DeepseekV3Attention) -> MLAAttention (attention interface); "
            "q_a_proj + kv_a_proj_with_mqa (self_attn: DeepseekV3Attention) -> "
            "fused_qkv_a_proj (MergedColumnParallelLinear)",
            FusedLine("MLA", "DeepseekV3Attention", "self_attn", "MLAAttention"),
        ),
        (
            "Fused: norm (Gemma3RMSNorm) -> GemmaRMSNorm (CustomOp)",
            FusedLine("RMSNorm", "Gemma3RMSNorm", "norm", "GemmaRMSNorm"),
        ),
        (
            "Found: self_attn (LlamaAttention) -> attention interface",
            FusedLine("Attention", "LlamaAttention", "self_attn", "attention interface"),
        ),
        (
            "Fused: gate + experts + shared experts (DeepseekV3MoE) -> "
            "MoERunner (internal routing)",
            FusedLine("MoEBlock", "DeepseekV3MoE", "", "MoERunner", "internal"),
        ),
        (
            "Fused: experts (PhimoeExperts) -> FusedMoE (external routing)",
            FusedLine("MoEBlock", "PhimoeExperts", "", "FusedMoE", "external"),
        ),
    ],
)
def test_fused_lines_are_read(message: str, line: FusedLine) -> None:
    assert fused_line(message) == line


@pytest.mark.parametrize(
    "message",
    ["Using Transformers modeling backend.", "Fused: something else", "Fused: a (B) -> c (D)", ""],
)
def test_other_lines_are_not(message: str) -> None:
    assert fused_line(message) is None


def log(*messages: str, level: str = "DEBUG") -> list[LogLine]:
    return [LogLine(level, message) for message in messages]


def test_only_fused_lines_of_a_log() -> None:
    lines = fused_lines(log("head dtype", "Found: attn (A) -> attention interface"))
    assert [line.fuser for line in lines] == ["Attention"]


def test_misses_name_class_fuser_and_reason() -> None:
    found = misses(
        log(
            "MyRMSNorm looks like an RMSNorm but its computation did not match the expected "
            "pattern, so it was left unfused.",
            "Attempted to fuse <class 'pkg.modeling.MyAttention'> using QKVFuser but failed to "
            "update its forward method: projection input is rebound\nor mutated",
            "Mixer has 2 fusable sibling-linear groups; skipping fusion since which one to merge "
            "is ambiguous",
            "<class 'pkg.OddAttention'> is not compatible with packed QKV fusion",
            "<class 'pkg.OddAttention'> is not compatible with QKV fusion",
            "<class 'pkg.OddAttention'> is not compatible with QKV fusion",
            "head dtype: torch.float32",
        )
    )
    assert [(m.fuser, m.class_name) for m in found] == [
        ("RMSNorm", "MyRMSNorm"),
        ("QKV", "MyAttention"),
        ("MergedColumnParallel", "Mixer"),
        ("PackedQKV", "OddAttention"),
        ("QKV", "OddAttention"),
    ]
    assert found[1].reason.endswith("projection input is rebound or mutated")


def test_warnings_are_those_about_the_model() -> None:
    model = "XRMSNorm looks like an RMSNorm but its computation did not match"
    lines = [*log(model, model, "Triton is not installed.", level="WARNING"), *log(model)]
    assert warnings(lines) == (model,)
