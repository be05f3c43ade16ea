"""The forms of a suppression comment, on one finding: MC307 on a class header."""

import pytest

HEADER = "class GinkgoForCausalLM(GinkgoPreTrainedModel, GenerationMixin):"


@pytest.fixture
def codes(bad, scan):
    """The codes that are found with a comment on the header and one at the top."""

    def run(comment, top="", *arguments, select="MC307,MC001,MC5,MC308,MC8"):
        text = bad.read_text().replace(HEADER, f"{HEADER}  {comment}")
        bad.write_text(f"{top}\n{text}")
        shown = scan(bad, "--output-format", "concise", "--select", select, *arguments).stdout
        return [line.split()[1] for line in shown.splitlines() if ": MC" in line]

    return run


@pytest.mark.parametrize(
    "comment",
    [
        "# modelcheck: ignore[MC307]",
        "#modelcheck:ignore[mc307]",
        "# Modelcheck: IGNORE[MC307]",
        "# modelcheck: ignore[MC307] the head is ours",
        "# noqa: E501  # modelcheck: ignore[MC307]",
        "# modelcheck: ignore[MC30]",
        "# modelcheck: ignore[mc]",
        "# modelcheck: ignore[no-base-model]",
        "# modelcheck: ignore[No-Base-Model, MC307]",
        "# modelcheck: ignore",
        "# modelcheck: ignore  # noqa",
    ],
)
def test_it_silences(codes, comment):
    assert codes(comment) == []


def test_a_comment_that_is_not_for_modelcheck(codes):
    assert codes("# see modelcheck") == ["MC307"]
    assert codes("# modelcheck: this one is ours") == ["MC307"]


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("# modelcheck: ignore MC307", "not understood"),
        ("# modelcheck: ignore: MC307", "not understood"),
        ("# modelcheck: ignored", "not understood"),
        ("# modelcheck: ignore[MC307: ours]", "not understood"),
        ("# modelcheck: disable=MC307", "not understood"),
        ("# modelcheck: noqa", "not understood"),
        ("# modelcheck: ignore[]", "names no rule"),
        ("# modelcheck: ignore[XY1]", "no rule 'XY1'"),
        ("# modelcheck: ignore[MC999]", "no rule 'MC999'"),
        ("# modelcheck: ignore[no-base-modle]", "did you mean no-base-model?"),
    ],
)
def test_what_cannot_be_understood_silences_nothing_and_is_said(codes, scan, bad, comment, words):
    assert codes(comment) == ["MC307", "MC001"]
    lines = scan(bad, "--output-format", "concise").stdout.splitlines()
    (said,) = [line for line in lines if " MC001 " in line]
    assert "info" in said
    assert words in said


@pytest.mark.parametrize("top", ["# modelcheck: ignore-file[MC307]", "# modelcheck: ignore-file"])
def test_a_whole_file(codes, top):
    assert codes("", top) == []


@pytest.mark.parametrize(
    ("comment", "top"),
    [
        ("", "# modelcheck: ignore"),
        ("", "# modelcheck: ignore[MC307]"),
        ("", "# modelcheck: ignore-file[MC501]"),
        ("# modelcheck: ignore[MC308]", ""),
        ("# modelcheck: ignore[MC8]", ""),
        ("# modelcheck: ignore[embeddings-not-found]", ""),
    ],
)
def test_an_unused_one_is_reported(codes, comment, top):
    assert sorted(codes(comment, top)) == ["MC001", "MC307"]


def test_a_rule_that_did_not_run_is_not_unused(codes):
    assert codes("# modelcheck: ignore[MC501]", "", "--ignore", "MC501") == ["MC307"]
    assert codes("# modelcheck: ignore[MC5]", "", "--ignore", "MC501") == ["MC307"]
