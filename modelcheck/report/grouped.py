"""Findings below the file that they are in."""

from __future__ import annotations

from collections.abc import Sequence

from modelcheck.findings import Finding
from modelcheck.report.model import Report, by_file, sentence
from modelcheck.report.text import clean, closing, mark, paint


def render(report: Report) -> str:
    """The verdict, a block for each file, and the count."""
    blocks = [
        "\n".join([f"{clean(path)}:", *_rows(findings, report.colour)])
        for path, findings in by_file(report.findings).items()
    ]
    verdict = clean(report.verdict_line)
    return "\n\n".join(filter(None, [verdict, *blocks, closing(report)]))


def _rows(findings: Sequence[Finding], colour: bool) -> list[str]:
    """Aligned lines: where, which rule, what."""
    places = [f"{finding.span.line}:{finding.span.column}" for finding in findings]
    labels = [f"{finding.code} {finding.severity}" for finding in findings]
    across, wide = max(map(len, places)), max(map(len, labels))
    return [
        f"  {place:>{across}}  {paint(f'{label:{wide}}', finding.severity, colour)}  "
        f"{mark(finding)}{clean(sentence(finding))}"
        for place, label, finding in zip(places, labels, findings, strict=True)
    ]
