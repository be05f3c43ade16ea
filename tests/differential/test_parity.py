"""vLLM's engine serves the numbers of transformers, on one rank and on two; where not, it shows."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import BuildError
from modelcheck.vllm.parity import ParityReport, run_parity

HERE = Path(__file__).resolve().parent
REMOTE = HERE.parents[1] / "fixtures" / "models" / "remote_decoder"
CONFIGS = runpy.run_path(str(HERE / "configs.py"))["CONFIGS"]
as_repo = runpy.run_path(str(HERE.parent / "cases_as_repos.py"))["as_repo"]
ROUNDING = 2e-5  # of a log-probability in float32; the largest seen is 6e-6

SOUND = ("llama", "qwen3", "gemma3_text", "qwen3_moe", "olmoe", "remote_decoder")
# Experts are SiLU in vLLM whatever the configuration says: only vLLM itself shows that.
OTHER_ACTIVATION = "qwen3_moe with gelu"
WRONG = {
    "18_additive_mask_bias": ("prefill", "a mask that it made itself"),
    "27_positions_from_arange": ("decode", "position_ids have no effect"),
}

Outcomes = Mapping[str, ParityReport | BuildError]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """All models in two processes: transformers with the emulation, then vLLM."""
    root = tmp_path_factory.mktemp("parity")
    specs = {name: _type(name, CONFIGS[name]) for name in SOUND if name in CONFIGS}
    specs["remote_decoder"] = BuildSpec(path=str(REMOTE), trust_remote_code=True)
    specs[OTHER_ACTIVATION] = _type("qwen3_moe", {**CONFIGS["qwen3_moe"], "hidden_act": "gelu"})
    specs |= {name: as_repo(name, root) for name in WRONG}
    return dict(zip(specs, run_parity(list(specs.values())), strict=True))


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """The same with two ranks over gloo, without the emulation."""
    root = tmp_path_factory.mktemp("ranks")
    specs = {"llama": _type("llama", CONFIGS["llama"])}
    specs |= {name: as_repo(name, root) for name in ("13_packed_gate_up_chunk", MLA)}
    return dict(zip(specs, run_parity(list(specs.values()), tp=2, emulate=False), strict=True))


MLA = "17_mla_inline_expansion"


def _type(model_type: str, config: Mapping[str, object]) -> BuildSpec:
    # The CPU's attention takes heads from 32 on: four of them.
    return BuildSpec(model_type=model_type, overrides={**config, "hidden_size": 128})


def report_of(outcomes: Outcomes, name: str) -> ParityReport:
    report = outcomes[name]
    assert isinstance(report, ParityReport), report
    assert (report.refused, report.one.error) == (None, None)
    return report


@pytest.mark.parametrize("name", SOUND)
def test_the_numbers_are_those_of_transformers(one_rank: Outcomes, name: str) -> None:
    report = report_of(one_rank, name)
    assert report.one.largest < ROUNDING
    assert [(p.length, p.tokens, p.top1, p.greedy) for p in report.one.prompts] == [
        (11, 16, 16, 6),
        (29, 34, 34, 6),
        (17, 22, 22, 6),
    ]
    assert (report.same, report.causes, report.first) == (True, (), None)
    assert report.emulation is not None and not report.emulation.causes


@pytest.mark.parametrize("name", WRONG)
def test_wrong_numbers_are_caught_and_explained(one_rank: Outcomes, name: str) -> None:
    report = report_of(one_rank, name)
    phase, cause = WRONG[name]
    assert not report.same
    assert report.one.largest > 0.01
    prefill = max(p.prefill for p in report.one.prompts)
    assert (prefill < ROUNDING) == (phase == "decode")
    assert cause in report.causes[0]
    assert (report.first is not None) == (phase == "prefill")


def test_what_only_vllm_shows(one_rank: Outcomes) -> None:
    """The emulation runs the model's own experts, and says that the call is not the cause."""
    report = report_of(one_rank, OTHER_ACTIVATION)
    assert report.one.largest > 0.01
    assert report.emulation is not None and report.emulation.same
    assert report.first is not None and report.first.path == "layers.0.mlp.experts"
    assert "layers.0.mlp.experts is the first to make another output" in report.causes[-1]


def test_two_ranks_serve_the_same(two_ranks: Outcomes) -> None:
    report = report_of(two_ranks, "llama")
    assert report.several is not None and report.several.error is None
    assert report.several.largest < ROUNDING
    assert report.same
    held = {h.path: h for h in report.held}
    qkv = held["layers.0.self_attn.qkv_proj"]
    assert (qkv.layer, qkv.sizes) == ("QKVParallelLinear", (128, 64, 64))
    assert qkv.ranks == ((64, 32, 32), (64, 32, 32))
    assert held["layers.0.mlp.down_proj"].inputs == 64


def test_two_ranks_with_other_numbers(two_ranks: Outcomes) -> None:
    """Case 13: each rank halves a packed projection that was cut in one piece."""
    report = report_of(two_ranks, "13_packed_gate_up_chunk")
    assert report.one.same
    assert report.several is not None and report.several.error is None
    assert report.several.largest > 0.01
    assert not report.same


def test_two_ranks_that_fail(two_ranks: Outcomes) -> None:
    """Case 17: a latent and a query are merged and cut by rows."""
    report = report_of(two_ranks, MLA)
    assert report.one.same
    assert report.several is not None and report.several.error is not None
    assert "split_with_sizes" in report.several.error
    assert not report.same


def test_the_plan_says_what_ranks_hold(two_ranks: Outcomes) -> None:
    """``tp`` without vLLM, and vLLM's own ranks: the same rows of every linear."""
    from modelcheck.source.plans import generic_name
    from modelcheck.tensor_parallel import run_tp

    report = report_of(two_ranks, "llama")
    vllm = report.versions["vllm"]
    plan = run_tp(_type("llama", CONFIGS["llama"]), (2,), vllm=vllm).sizes[0]
    said = {
        linear.path: (tuple(s.per_rank for s in linear.shards), linear.inputs_per_rank)
        for linear in plan.linears
    }
    for rank in range(2):
        assert {generic_name(h.path): (h.ranks[rank], h.inputs) for h in report.held} == said
