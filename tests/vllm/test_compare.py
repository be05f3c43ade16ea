"""Putting dryrun's word beside vLLM's deed."""

from __future__ import annotations

from modelcheck.fusers.results import ClassReport, Fires, FusionResult
from modelcheck.vllm.compare import Comparison, compare


def yes(fuser: str, cls: str = "A", **more: object) -> FusionResult:
    return FusionResult(fuser, Fires.YES, cls, **more)  # type: ignore[arg-type]


def report(cls: str, paths: str, *results: FusionResult) -> ClassReport:
    fires = tuple(r for r in results if r.fires is Fires.YES)
    missed = tuple(r for r in results if r not in fires)
    return ClassReport(cls, tuple(paths.split()), fires, missed)


def test_equal_modules_agree_whatever_their_grouping() -> None:
    one = [report("A", "l.0 l.1", yes("QKV"), yes("Attention"))]
    two = [report("A", "l.0", yes("Attention"), yes("QKV")), report("A", "l.1", *one[0].fusions)]
    assert compare(one, two) == (Comparison("A", 2, ("Attention", "QKV"), ("Attention", "QKV")),)
    assert compare(one, two)[0].agree


def test_one_module_of_many_that_differs_has_a_row_of_its_own() -> None:
    said = [report("A", "l.0 l.1 l.2", yes("GLU"))]
    did = [report("A", "l.0 l.2", yes("GLU"))]
    rows = compare(said, did)
    assert [(r.count, r.dryrun, r.vllm, r.agree) for r in rows] == [
        (2, ("GLU",), ("GLU",), True),
        (1, ("GLU",), (), False),
    ]


def test_what_vllm_alone_fuses_differs() -> None:
    (row,) = compare([], [report("N", "norm", yes("RMSNorm", "N"))])
    assert (row.class_name, row.dryrun, row.vllm, row.agree) == ("N", (), ("RMSNorm",), False)


def test_unknown_agrees_with_anything_and_is_told() -> None:
    unknown = FusionResult("MLA", Fires.UNKNOWN, "A", "no matcher yet")
    (row,) = compare(
        [report("A", "l", yes("Attention"), unknown)],
        [report("A", "l", yes("Attention"), yes("MLA"))],
    )
    assert row.agree
    assert row.undecided == ("MLA",)
    (row,) = compare([report("A", "l", unknown)], [report("A", "l", yes("QKV"))])
    assert not row.agree


def test_other_effects_of_the_same_fuser_differ() -> None:
    said = yes("RMSNorm", becomes="RMSNorm", details=(("eps", "eps"),))
    did = yes("RMSNorm", becomes="GemmaRMSNorm", details=(("eps", "1e-06"), ("more", "x")))
    (row,) = compare([report("A", "n", said)], [report("A", "n", did)])
    assert not row.agree
    assert row.differences == (
        "RMSNorm, becomes: dryrun said RMSNorm, vLLM did GemmaRMSNorm",
        "RMSNorm, eps: dryrun said eps, vLLM did 1e-06",
    )


def test_order_of_shards_is_an_effect() -> None:
    said = yes("QKV", shards=(("q", "q"), ("k", "k"), ("v", "v")))
    did = yes("QKV", shards=(("k", "q"), ("q", "k"), ("v", "v")))
    (row,) = compare([report("A", "l", said)], [report("A", "l", did)])
    assert not row.agree


def test_who_routes_is_part_of_the_outcome() -> None:
    said = yes("MoEBlock", becomes="MoERunner (internal routing)")
    did = yes("MoEBlock", becomes="MoERunner (external routing)")
    (row,) = compare([report("A", "l", said)], [report("A", "l", did)])
    assert (row.dryrun, row.vllm) == (
        ("MoEBlock (internal routing)",),
        ("MoEBlock (external routing)",),
    )
    assert not row.agree


def test_reasons_of_both_sides_are_kept() -> None:
    said = FusionResult("GLU", Fires.NO, "A", "no activation module")
    did = FusionResult("GLU", Fires.NO, "A", "cannot be rewritten")
    (row,) = compare([report("A", "m", said)], [report("A", "m", did)])
    assert row.agree
    assert row.reasons == ("dryrun, GLU: no activation module", "vLLM, GLU: cannot be rewritten")
