"""What the fixers of experts and projections promise: vLLM fuses the fixed code, same numbers."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import BuildError
from modelcheck.repair import Workshop, prepare
from modelcheck.vllm.load import LoadReport, load_many
from modelcheck.vllm.parity import ParityReport, run_parity

TESTS = Path(__file__).resolve().parents[1]
EXPERTS = runpy.run_path(str(TESTS / "fixers" / "test_experts.py"))
as_repo = runpy.run_path(str(TESTS / "cases_as_repos.py"))["as_repo"]
INSIDE, OUTSIDE = "MoEBlock (internal routing)", "MoEBlock (external routing)"
ROUNDING = 2e-5  # of a log-probability in float32
RENAMED, LATENT = "15_moe_custom_experts_attr", "17_mla_inline_expansion"

# The class that was fixed, and what vLLM makes of it then. A gate that is a module already is
# taken over by vLLM up to 0.32 only, which does not ask in what order it returns.
FUSED = {
    "one_hot": ("OleaMLP", {INSIDE}),
    "compared": ("OleaMLP", {INSIDE}),
    "hit": ("OleaMLP", {OUTSIDE}),  # does not renormalise, and the configuration says to
    "sorted": ("OleaMLP", {INSIDE, OUTSIDE}),
    RENAMED: ("OleaMLP", {INSIDE}),
    LATENT: ("QuillajaAttention", {"Attention", "MLA"}),
}
WIDE = {"hidden_size": 128}  # the CPU's attention takes heads from 32 on


def fixed(name: str, root: Path) -> BuildSpec:
    """The repository of a case, or of a pair's block, after fixing."""
    if name in (RENAMED, LATENT):
        spec: BuildSpec = as_repo(name, root)
    else:
        folder = EXPERTS["write_repo"](root / f"fixed_{name}", EXPERTS["with_block"](name))
        spec = BuildSpec(path=str(folder), trust_remote_code=True, overrides=WIDE)
    folder = Path(spec.path or "")
    with Workshop(str(folder)) as copy:
        assert prepare(str(folder), copy, unsafe=True).changes
        shutil.copyfile(Path(copy, "modeling_case.py"), folder / "modeling_case.py")
    return spec


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, BuildSpec]:
    root = tmp_path_factory.mktemp("fixed")
    return {name: fixed(name, root) for name in FUSED}


@pytest.fixture(scope="module")
def loaded(specs: Mapping[str, BuildSpec]) -> Mapping[str, Any]:
    return dict(zip(specs, load_many(list(specs.values())), strict=True))


@pytest.mark.parametrize("name", FUSED)
def test_vllm_fuses_what_was_fixed(loaded: Mapping[str, Any], name: str) -> None:
    report = loaded[name]
    assert isinstance(report, LoadReport), report
    class_name, expected = FUSED[name]
    (row,) = [row for row in report.comparisons if row.class_name == class_name]
    assert set(row.vllm) and set(row.vllm) <= expected
    assert row.agree


@pytest.mark.slow
def test_the_engine_serves_the_same_numbers(specs: Mapping[str, BuildSpec]) -> None:
    names = [name for name in FUSED if name not in (RENAMED, LATENT)]
    for name, report in zip(names, run_parity([specs[n] for n in names]), strict=True):
        assert isinstance(report, ParityReport) and not isinstance(report, BuildError), name
        assert report.one is not None and report.one.prompts, report
        for prompt in report.one.prompts:
            assert max(prompt.prefill, prompt.decode or 0.0) < ROUNDING, (name, prompt)
