"""Comments that silence findings.

``# modelcheck: ignore[MC501]`` on the line of a finding, or on the header of the class or
function around it; ``# modelcheck: ignore-file[MC501]`` anywhere for the whole file. In the
brackets stand codes, beginnings of codes (``MC5``) and names of rules; words may follow them. A
comment that is only ``# modelcheck: ignore`` silences every rule. What cannot be understood
silences nothing, and is said.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from modelcheck.errors import UsageError
from modelcheck.findings import Finding, Span
from modelcheck.rules.base import codes_of
from modelcheck.source.text import SourceFile

MARK = "modelcheck:"
EVERY_RULE = "every rule"  # in place of a code
# Without brackets nothing may follow: "ignore MC501" must not silence everything.
_COMMENT = re.compile(
    r"#\s*modelcheck:\s*(ignore(?:-file)?)\s*(?:\[([\w\s,-]*)\]|(?=\s*(?:$|#)))", re.IGNORECASE
)
# What was meant to be one, in this tool's words or another's.
_MEANT = re.compile(r"#\s*modelcheck:\s*(ignore|disable|noqa|skip|off\b)", re.IGNORECASE)


@dataclass(frozen=True)
class Suppression:
    """One word in the brackets of one comment, and the lines that it silences (inclusive).

    ``codes`` are the rules that the word stands for, None for every rule; ``problem`` says why it
    stands for none.
    """

    word: str
    codes: frozenset[str] | None
    span: Span  # of the comment
    first: int
    last: int
    whole_file: bool = False
    header: bool = False  # on a class or def header: silences its whole body
    problem: str = ""

    def covers(self, finding: Finding, headers: dict[int, tuple[int, int]]) -> bool:
        """Does it silence this finding?"""
        if self.codes is not None and finding.code not in self.codes:
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
    if not source.mentions(MARK):
        return ()
    headers = header_lines(source.tree)
    found: list[Suppression] = []
    for token in _comments(source.text):
        matches = list(_COMMENT.finditer(token.string))
        for match in matches:
            whole_file = match[1].lower() == "ignore-file"
            found += _read(match[2], token, headers, whole_file)
        if not matches and _MEANT.search(token.string):
            found.append(_misread(token, "this comment is not understood and silences nothing"))
    return tuple(found)


def _read(
    brackets: str | None,
    token: tokenize.TokenInfo,
    headers: dict[int, tuple[int, int]],
    whole_file: bool,
) -> Iterator[Suppression]:
    """One suppression for each word in brackets, one for every rule without brackets."""
    line = token.start[0]
    header = line in headers and not whole_file
    first, last = headers[line] if header else (line, line)
    span = _span(token)
    if brackets is None:
        yield Suppression(EVERY_RULE, None, span, first, last, whole_file, header)
        return
    words = [word for word in re.split(r"[\s,]+", brackets) if word]
    if not words:
        yield _misread(token, "this comment names no rule and silences nothing")
    for word in words:
        try:
            codes, problem = codes_of(word), ""
        except UsageError as error:
            codes, problem = frozenset(), str(error)
        yield Suppression(word, codes, span, first, last, whole_file, header, problem)


def _misread(token: tokenize.TokenInfo, problem: str) -> Suppression:
    return Suppression("", frozenset(), _span(token), 1, 1, problem=problem)


def _span(token: tokenize.TokenInfo) -> Span:
    (line, column), (_, end) = token.start, token.end
    return Span(line, column + 1, line, end + 1)


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
