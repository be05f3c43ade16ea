"""The forms of a suppression comment, on one finding: MC307 on a class header."""

import pytest

HEADER = "class GinkgoForCausalLM(GinkgoPreTrainedModel, GenerationMixin):"


@pytest.fixture
def codes(bad, scan):
    """The codes that are found with a comment on the header and one at the top."""

    def run(comment, top="", *arguments, select="MC307,MC001,MC5,MC308"):
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
        "# modelcheck: ignore",
        "# modelcheck: ignore  # noqa",
    ],
)
def test_it_silences(codes, comment):
    assert codes(comment) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# modelcheck: ignore MC307",
        "# modelcheck: ignore: MC307",
        "# modelcheck: ignored",
        "# modelcheck: ignore[]",
        "# see modelcheck",
    ],
)
def test_it_silences_nothing(codes, comment):
    assert codes(comment) == ["MC307"]


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
        ("# modelcheck: ignore[XY1]", ""),
    ],
)
def test_an_unused_one_is_reported(codes, comment, top):
    assert sorted(codes(comment, top)) == ["MC001", "MC307"]


def test_a_rule_that_did_not_run_is_not_unused(codes):
    assert codes("# modelcheck: ignore[MC501]", "", "--ignore", "MC501") == ["MC307"]
