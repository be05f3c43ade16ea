"""The contract as data: every behaviour has its words, and a difference is what differs."""

import dataclasses
import itertools

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from modelcheck.errors import UsageError
from modelcheck.fusers.contract import Contract, Effect, contract_for, known_releases
from modelcheck.fusers.contract_data import FUSER_WORDS, TOPICS
from modelcheck.fusers.contract_diff import behaviours, differences, matcher_differences


@pytest.mark.parametrize("field", behaviours(), ids=lambda f: f.name)
def test_every_behaviour_has_its_words(field):
    for key in ("gained", "lost"):
        words = field.metadata[key]
        assert len(words.split()) >= 3, field.name
        assert words[0].islower() or words[0] in "_*`" or words[:3] == "MoE", words
        assert not words.endswith("."), words
    assert isinstance(field.metadata["effect"], Effect)
    assert isinstance(field.metadata["reverse"], Effect)
    assert field.metadata["about"]


def test_only_versions_and_fusers_are_no_behaviour():
    plain = {f.name for f in dataclasses.fields(Contract)} - {f.name for f in behaviours()}
    assert plain == {"version", "transformers", "torch", "python", "fusers"}


@pytest.mark.parametrize("field", behaviours(), ids=lambda f: f.name)
def test_no_behaviour_is_the_same_in_all_releases(field):
    """What never differs is no question to ask a contract."""
    assert len({getattr(contract, field.name) for contract in known_releases()}) > 1


def test_every_fuser_has_its_words():
    assert {name for contract in known_releases() for name in contract.fusers} == set(FUSER_WORDS)


def test_equal_behaviour_is_no_difference():
    assert matcher_differences(contract_for("0.31"), contract_for("0.32")) == ()
    assert matcher_differences(contract_for("0.25.1"), contract_for("0.26")) == ()
    for contract in known_releases():
        assert differences(contract, contract) == ()
    assert differences(contract_for("0.32.0"), contract_for("0.32.9")) == ()


def test_a_difference_is_told_once_and_both_ways():
    for old, new in itertools.combinations(known_releases(), 2):
        upward, downward = differences(old, new), differences(new, old)
        assert len(upward) == len(downward)
        assert len(set(upward)) == len(upward)


def test_steps_add_up():
    """What a release brings and a later one does not take back is between the two ends."""
    ends = {d.sentence for d in differences(contract_for("0.25"), contract_for("0.33"))}
    steps = [
        d.sentence
        for old, new in itertools.pairwise(known_releases())
        for d in differences(old, new)
        if d.area != "versions"
    ]
    passing = {"where instances of a class have different children"}  # 0.27 only
    missing = [s for s in steps if s not in ends and not any(s.startswith(p) for p in passing)]
    assert missing == []


@pytest.mark.parametrize(
    ("old", "new", "effect", "words"),
    [
        ("0.26", "0.27", Effect.FUSED, "PackedQKV"),
        ("0.27", "0.28", Effect.FUSED, "MLA"),
        ("0.27", "0.28", Effect.ALLOWED, "final_logit_softcapping"),
        ("0.29", "0.30", Effect.REFUSED, "between the first and the last of merged projections"),
        ("0.29", "0.30", Effect.REFUSED, "does not call the attention interface"),
        ("0.29", "0.30", Effect.ALLOWED, "s_aux=self.<parameter>"),
        ("0.30", "0.31", Effect.FUSED, "x ** -0.5"),
        ("0.31", "0.32", Effect.FUSED, "nn.LayerNorm"),
        ("0.32", "0.33", Effect.ALLOWED, "softmax or sigmoid after its top-k"),
        ("0.33", "0.29", Effect.UNFUSED, "MergedColumnParallel"),
        ("0.33", "0.30", Effect.REFUSED, "ends the load with a ValueError"),
    ],
)
def test_what_changed(old, new, effect, words):
    found = differences(contract_for(old), contract_for(new))
    assert [d for d in found if d.effect is effect and words in d.sentence]


def test_topics_are_of_known_releases():
    known = {Version(c.version).release[:2] for c in known_releases()}
    for topic in TOPICS:
        assert Version(topic.since).release in known
        assert topic.gained and topic.lost and topic.gained != topic.lost


def test_releases_are_in_order_and_ranges_parse():
    versions = [Version(c.version) for c in known_releases()]
    assert versions == sorted(versions)
    for contract in known_releases():
        assert SpecifierSet(contract.transformers)
        assert SpecifierSet(contract.python)
        assert Version(contract.torch)


def test_bad_versions():
    for version in ("0.24", "new"):
        with pytest.raises(UsageError):
            contract_for(version)
