"""Comments that silence findings.

``# modelcheck: ignore[MC501]`` on the line of a finding, or on the header of the class or
function around it; ``# modelcheck: ignore-file[MC501]`` anywhere for the whole file. Words may
follow the brackets. A comment that is only ``# modelcheck: ignore`` silences every rule.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from modelcheck.findings import Finding, Span
from modelcheck.source.text import SourceFile

MARK = re.compile(r"modelcheck:", re.IGNORECASE)
EVERY_RULE = "every rule"  # in place of a code
# Without brackets nothing may follow: "ignore MC501" must not silence everything.
_COMMENT = re.compile(
    r"#\s*modelcheck:\s*(ignore(?:-file)?)\s*(?:\[([\w\s,-]*)\]|(?=\s*(?:$|#)))", re.IGNORECASE
)


@dataclass(frozen=True)
class Suppression:
    """One code named in one comment, and the lines that it silences (inclusive)."""

    code: str
    span: Span  # of the comment
    first: int
    last: int
    whole_file: bool = False
    header: bool = False  # on a class or def header: silences its whole body

    def covers(self, finding: Finding, headers: dict[int, tuple[int, int]]) -> bool:
        """Does it silence this finding?"""
        if self.code not in (finding.code, EVERY_RULE):
            return False
        if self.whole_file:
            return True
        start = finding.span.line
        if self.header:
            return self.first <= start <= self.last
        end = start if start in headers else max(start, finding.span.end_line)
        return start <= self.first <= end


def suppressions(source: SourceFile) -> tuple[Suppression, ...]:
    """All suppressions of a file; the file is tokenised only if it mentions modelcheck."""
    if not MARK.search(source.text):
        return ()
    headers = header_lines(source.tree)
    found: list[Suppression] = []
    for token in _comments(source.text):
        for match in _COMMENT.finditer(token.string):
            line, column = token.start
            span = Span(line, column + 1, line, token.end[1] + 1)
            for code in _codes(match[2]):
                if match[1].lower() == "ignore-file":
                    found.append(Suppression(code, span, 1, 1, whole_file=True))
                elif line in headers:
                    first, last = headers[line]
                    found.append(Suppression(code, span, first, last, header=True))
                else:
                    found.append(Suppression(code, span, line, line))
    return tuple(found)


def _codes(brackets: str | None) -> list[str]:
    """The codes in brackets; `EVERY_RULE` without brackets."""
    if brackets is None:
        return [EVERY_RULE]
    return [code.upper() for code in re.split(r"[\s,]+", brackets) if code]


def apply(
    findings: Iterable[Finding], source: SourceFile
) -> tuple[list[Finding], list[Suppression]]:
    """The findings that no comment silences, and the suppressions that silenced nothing."""
    all_of_them = suppressions(source)
    if not all_of_them:
        return list(findings), []
    headers = header_lines(source.tree)
    kept: list[Finding] = []
    used: set[int] = set()
    for finding in findings:
        matching = [i for i, s in enumerate(all_of_them) if s.covers(finding, headers)]
        used.update(matching)
        if not matching:
            kept.append(finding)
    return kept, [s for i, s in enumerate(all_of_them) if i not in used]


def header_lines(tree: ast.Module) -> dict[int, tuple[int, int]]:
    """Lines of class and def headers (decorators included) to the lines they open."""
    found: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            body = max(node.lineno + 1, node.body[0].lineno)
            for line in range(first, body):
                found[line] = (first, node.end_lineno or body)
    return found


def _comments(text: str) -> Iterator[tokenize.TokenInfo]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT:
                yield token
    except (tokenize.TokenError, IndentationError):
        return  # ast parsed it, so what is lost is at most the comments after an oddity
