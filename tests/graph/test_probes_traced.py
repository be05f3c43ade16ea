"""Traced evidence on every probe, for every release: what vLLM really did."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import modelcheck
from modelcheck.fusers.contract import contract_for

sys.path.insert(0, str(Path(__file__).parent))
from probe_words import ABSENT, CRASH, block, names, without_reason

del sys.path[0]

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

HEAD_SIZE = 8
RELEASES = ("0.25.1", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0")


@pytest.mark.parametrize("release", RELEASES)
def test_probes(release, expected, probe_cases):
    assert set(probe_cases.CASES) == set(expected)
    wrong = []
    for name, (_, make) in probe_cases.CASES.items():
        for tp in (1, 2):
            wanted = expected[name][release][f"tp{tp}"]
            results = modelcheck.trace(make(), vllm=release, tp=tp, head_size=HEAD_SIZE)
            got = names(results)
            if str(wanted).startswith(CRASH):
                crashes = [r for r in results if ("kind", "crash") in r.details]
                if got or not crashes or any(r.fires != "no" for r in crashes):
                    wrong.append((name, tp, wanted, got))
            elif got != wanted:
                wrong.append((name, tp, wanted, got))
    assert wrong == []


def test_a_crash_is_among_the_probes(expected):
    """Else the branch for it above would test nothing."""
    crashing = {
        (name, release)
        for name, by_release in expected.items()
        for release, outcome in by_release.items()
        if str(outcome["tp1"]).startswith(CRASH)
    }
    assert ("rms_pow_kw", "0.30.0") in crashing
    assert ("rms_pow_kw", "0.31.0") not in crashing


@pytest.mark.parametrize("release", [r for r in RELEASES if r != "0.31.0"])
def test_moe_blocks_and_mla(release, expected_moe_mla, probe_moe_mla):
    contract = contract_for(release)
    wrong, seen = [], 0
    for name, by_release in expected_moe_mla.items():
        wanted = without_reason(by_release.get(release, ABSENT))
        if wanted == ABSENT:
            continue
        seen += 1
        with torch.device("meta"):
            module = probe_moe_mla.CASES[name]()
        results = modelcheck.trace(module, vllm=release, head_size=HEAD_SIZE)
        if name.startswith("mla:"):
            got = "+".join(names(results)) or "-"
        else:
            (found,) = [r for r in results if r.fuser == "MoEBlock"]
            got = block(found, contract)
        if got != wanted:
            wrong.append((name, wanted, got))
    assert wrong == []
    assert seen >= 49
