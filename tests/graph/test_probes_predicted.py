"""Predicted evidence on every probe, for every release: right, or unknown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.results import Fires

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(Path(__file__).parent)]
from probe_words import ABSENT, CRASH, block, without_reason  # noqa: E402
from probes import CASES, MOE_MLA, constructions, index, judge, moe_construction, verdict  # noqa: E402

del sys.path[:2]

RELEASES = ("0.25.1", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0")
OUTSIDE = {"glu_closure", "rms_nn_RMSNorm", "rms_nn_RMSNorm_default_eps"}  # no classes of the file


@pytest.mark.parametrize("release", RELEASES)
def test_probes(release, expected):
    file = index(CASES)
    made = constructions(file)
    contract = contract_for(release)
    wrong, right, unknown = [], 0, []
    for name, by_release in expected.items():
        for tp in (1, 2):
            wanted = by_release[release][f"tp{tp}"]
            crash = str(wanted).startswith(CRASH)
            found = judge(file, made[name], contract, tp, False) if name in made else {}
            for fuser in contract.fusers:
                results = found.get(fuser, [])
                answer = verdict(results) if results else Fires.UNKNOWN
                fires = not crash and fuser in wanted
                if answer is Fires.UNKNOWN:
                    unknown.append((name, fuser, results[0].reason if results else "no result"))
                elif (answer is Fires.YES) is fires:
                    right += 1
                else:
                    wrong.append((name, tp, fuser, wanted, results[0].reason))
                if crash and fuser == "RMSNorm":
                    assert any(("kind", "crash") in r.details for r in results)
    assert wrong == []
    assert right > 2 * len(contract.fusers) * (len(expected) - 5)
    assert {name for name, _, _ in unknown} == OUTSIDE, unknown


@pytest.mark.parametrize("release", [r for r in RELEASES if r != "0.31.0"])
def test_moe_blocks_and_mla(release, expected_moe_mla):
    file = index(MOE_MLA)
    contract = contract_for(release)
    wrong, right, unknown = [], 0, []
    for name, by_release in expected_moe_mla.items():
        wanted = without_reason(by_release.get(release, ABSENT))
        if wanted == ABSENT:
            continue
        found = judge(file, moe_construction(name), contract, 1, True)
        if name.startswith("mla:"):
            answers = {fuser: verdict(results) for fuser, results in found.items()}
            if not answers or Fires.UNKNOWN in answers.values():
                unknown.append((name, answers))
                continue
            got = "+".join(f for f in contract.fusers if answers[f] is Fires.YES) or "-"
        else:
            blocks = found.get("MoEBlock", [])
            texts = {block(b, contract) for b in blocks if b.fires is Fires.YES}
            if len(texts) != 1 or any(b.fires is Fires.UNKNOWN for b in blocks):
                unknown.append((name, blocks[0].reason if blocks else "no result"))
                continue
            got = texts.pop()
        if got == wanted:
            right += 1
        else:
            wrong.append((name, wanted, got))
    assert wrong == []
    assert right >= 49
    assert unknown == []
