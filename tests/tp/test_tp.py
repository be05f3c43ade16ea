"""The sharding plan against what vLLM does, as read from its source and seen in its ranks."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from modelcheck.dryrun.target import BuildSpec
from modelcheck.tensor_parallel.results import LinearPlan, Origin, SizePlan, Style, TpReport
from modelcheck.tensor_parallel.run import job, run_tp

ROOT = Path(__file__).resolve().parents[2]
REMOTE = BuildSpec(path=str(ROOT / "fixtures/models/remote_decoder"), trust_remote_code=True)
as_repo = runpy.run_path(str(ROOT / "tests" / "cases_as_repos.py"))["as_repo"]
SMALL = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
}

pytestmark = pytest.mark.usefixtures("module_cache")


def planned(spec: BuildSpec, *sizes: int, vllm: str | None = None) -> list[SizePlan]:
    """In this process: an import of torch for each would be most of the time."""
    answer = job({"spec": spec.to_json(), "vllm": vllm, "sizes": list(sizes)})
    return list(TpReport.from_json(answer["report"]).sizes)


def llama(**values: Any) -> BuildSpec:
    return BuildSpec(model_type="llama", overrides={**SMALL, **values})


def linears(plan: SizePlan) -> dict[str, LinearPlan]:
    return {linear.path.rpartition(".")[2]: linear for linear in plan.linears}


def rows(linear: LinearPlan) -> list[tuple[int | None, int]]:
    return [(shard.per_rank, shard.replicas) for shard in linear.shards]


def errors(plan: SizePlan) -> list[str]:
    return [p.message for p in plan.problems if p.severity == "error"]


def test_a_fused_model() -> None:
    one, two, four = planned(llama(), 1, 2, 4)
    found = linears(two)
    assert {n: (x.style, x.origin, x.because, x.count) for n, x in found.items()} == {
        "qkv_proj": (Style.QKV, Origin.FUSER, "QKV", 3),
        "o_proj": (Style.ROW, Origin.FUSER, "QKV", 3),
        "gate_up_proj": (Style.MERGED, Origin.FUSER, "GLU", 3),
        "down_proj": (Style.ROW, Origin.FUSER, "GLU", 3),
    }
    assert [s.name for s in found["qkv_proj"].shards] == ["q_proj", "k_proj", "v_proj"]
    assert rows(found["qkv_proj"]) == [(32, 1), (8, 1), (8, 1)]
    assert rows(linears(four)["qkv_proj"]) == [(16, 1), (8, 2), (8, 2)]  # 2 heads, 4 ranks
    assert rows(found["gate_up_proj"]) == [(48, 1), (48, 1)]
    assert (found["down_proj"].inputs, found["down_proj"].inputs_per_rank) == (96, 48)
    assert [(p.heads, p.kv_heads, p.kv_replicas) for p in (one, two, four)] == [
        (8, 2, 1),
        (4, 1, 1),
        (2, 1, 2),
    ]
    assert not any(p.breaks for p in (one, two, four))


def test_bytes_of_a_rank() -> None:
    one, four = planned(llama(), 1, 4)
    layer = (64 + 16 + 16) * 64 + 64 * 64 + 3 * 96 * 64
    norms = 7 * 64
    # 1000 words are padded to 1024; embeddings and an untied head; two bytes each
    assert one.bytes_per_rank == 2 * (3 * layer + norms + 2 * 1024 * 64)
    sharded = (16 + 8 + 8) * 64 + 64 * 16 + 3 * 24 * 64
    assert four.bytes_per_rank == 2 * (3 * sharded + norms + 2 * 256 * 64)
    (tied,) = planned(llama(tie_word_embeddings=True), 1)
    assert tied.parts["embeddings"] == 2 * 1024 * 64


def test_heads_that_do_not_divide() -> None:
    (plan,) = planned(llama(), 3)
    assert "vLLM refuses: 8 attention heads are not divisible by 3" in errors(plan)
    assert plan.bytes_per_rank is None


def test_kv_heads_that_neither_divide_nor_repeat() -> None:
    spec = llama(num_attention_heads=12, num_key_value_heads=3, hidden_size=96)
    two, three, six = planned(spec, 2, 3, 6)
    assert [m for m in errors(two) if "k_proj has 3 heads" in m]
    assert not errors(three)
    assert rows(linears(six)["qkv_proj"]) == [(16, 1), (8, 2), (8, 2)]


def test_what_does_not_divide_is_not_merged_but_left_to_the_plan() -> None:
    """Since 0.30 vLLM asks first; 0.29 merges, and stops."""
    (new,) = planned(llama(intermediate_size=97), 2)
    assert linears(new)["gate_proj"].origin is Origin.PLAN
    assert [m for m in errors(new) if "gate_proj has 97 rows" in m]
    (old,) = planned(llama(intermediate_size=97), 2, vllm="0.29")
    assert linears(old)["gate_up_proj"].style is Style.MERGED
    assert old.breaks


def test_experts_are_cut_by_width() -> None:
    values = {**SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    one, two = planned(BuildSpec(model_type="qwen3_moe", overrides=values), 1, 2)
    assert one.parts["experts"] == 2 * 3 * 4 * 3 * 32 * 64
    assert two.parts["experts"] * 2 == one.parts["experts"]
    assert linears(one).keys() == {"qkv_proj", "o_proj"}
    assert not two.breaks


@pytest.mark.parametrize("model_type", ["qwen3", "gemma3_text", "olmoe"])
def test_sound_types_of_transformers(model_type: str) -> None:
    """Norms over a whole sharded projection (olmoe) are gathered by vLLM's own norm."""
    report = job({"spec": BuildSpec(model_type=model_type).to_json(), "vllm": None, "sizes": [2]})
    assert not TpReport.from_json(report["report"]).breaks
    assert report["report"]["notes"] == ()  # the forward was followed


def test_latent_attention(tmp_path: Path) -> None:
    spec = as_repo("17_mla_inline_expansion", tmp_path, "modeling_fixed.py")
    (plan,) = planned(spec, 2)
    assert {n: (x.style, x.origin) for n, x in linears(plan).items()} == {
        "q_proj": (Style.COLUMN, Origin.FUSER),
        "kv_a_proj": (Style.REPLICATED, Origin.FUSER),
        "kv_b_proj": (Style.COLUMN, Origin.FUSER),
        "o_proj": (Style.ROW, Origin.FUSER),
        "gate_up_proj": (Style.MERGED, Origin.FUSER),
        "down_proj": (Style.ROW, Origin.FUSER),
    }
    assert not plan.breaks


def test_a_forward_that_fails_on_a_share(tmp_path: Path) -> None:
    """Case 17: a fallback fuser cuts a latent that the forward splits by whole sizes."""
    one, two = planned(as_repo("17_mla_inline_expansion", tmp_path), 1, 2)
    assert not one.breaks
    (message,) = errors(two)
    assert "split_with_sizes" in message and "modeling_case.py:147" in message
    assert linears(two)["kv_b_proj"].origin is Origin.DEFAULT


def test_what_the_rules_know_is_added(tmp_path: Path) -> None:
    """Case 13: halves of a packed projection that each rank cuts again; no shape tells."""
    report = run_tp(as_repo("13_packed_gate_up_chunk", tmp_path), (1, 2))
    one, two = report.sizes
    assert not one.breaks
    assert [p.severity for p in two.problems if "MC801" in p.message] == ["wrong"]
    fixed = run_tp(as_repo("13_packed_gate_up_chunk", tmp_path, "modeling_fixed.py"), (1, 2))
    assert not fixed.breaks
    styles = {n: x.style for n, x in linears(fixed.sizes[1]).items()}
    assert styles["gate_up_proj"] is Style.COLUMN_GATHERED
    assert styles["down_proj"] is Style.ROW_SPLIT


def test_unknown_styles_are_replicated() -> None:
    values = {**SMALL, "num_experts": 4, "num_experts_per_tok": 2}
    (plan,) = planned(BuildSpec(model_type="gpt_oss", overrides=values), 2)
    assert all(x.style is Style.REPLICATED or x.origin is Origin.FUSER for x in plan.linears)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from modelcheck.cli import main; main()", "tp", *arguments],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COLUMNS": "160"},
    )


def test_the_command() -> None:
    assert REMOTE.path is not None
    done = command(REMOTE.path, "--trust-remote-code", "--sizes", "1,8")
    assert done.returncode == 1, done.stderr
    assert "TP 8: error: vLLM refuses: 4 attention heads are not divisible by 8" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("breaks with 8 of the sizes 1, 8")


def test_the_command_as_json() -> None:
    done = command("--model-type", "llama", "--sizes", "2", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["schema_version"], data["evidence"]) == (1, "traced")
    assert data["sizes"][0]["linears"][0]["shards"][0] == {
        "name": "q_proj",
        "rows": 4096,
        "per_rank": 2048,
        "replicas": 1,
    }


@pytest.mark.parametrize("sizes", ["", "0", "two", "1,-2"])
def test_wrong_sizes_are_one_line(sizes: str) -> None:
    done = command("--model-type", "llama", "--sizes", sizes)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("modelcheck: error: --sizes: ")
