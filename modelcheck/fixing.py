"""The fix loop: apply what can be fixed, look again, until nothing more changes.

    outcome = fix_text(path, text, lint, unsafe=False)

``lint`` gives the findings of a text. In each pass every fixer sees the text of that pass; its
result is turned into edits, and a fix whose edits touch those of an earlier one waits for the
next pass. A fix that leaves the file unparsable, or its finding in place, is undone and named.
"""

from __future__ import annotations

import ast
import codecs
import difflib
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Safety
from modelcheck.source.modular import generated_from as generated_from
from modelcheck.source.text import SourceFile, parse_bytes, parse_text, read_bytes, write_atomic

MAX_PASSES = 100

Lint = Callable[[str], Sequence[Finding]]


@dataclass(frozen=True)
class Unfixed:
    """A finding whose fix was refused or undone, and why; ``line`` is that of the final text."""

    code: str
    class_name: str
    line: int
    reason: str

    def __str__(self) -> str:
        where = f" {self.class_name}" if self.class_name else ""
        return f"{self.line}: {self.code}{where}: {self.reason}"


@dataclass(frozen=True)
class FixOutcome:
    """What the loop did to one text.

    ``applied`` counts fixes by code; ``refused`` are findings that their fixer would not touch,
    ``failed`` those whose fix was undone; ``remaining`` is what is found in ``text``.
    """

    text: str
    applied: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[Unfixed, ...] = ()
    failed: tuple[Unfixed, ...] = ()
    remaining: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class FileFix:
    """What the loop did to one file; nothing is written when ``old`` is ``outcome.text``."""

    path: str
    old: str
    outcome: FixOutcome

    @property
    def changed(self) -> bool:
        """Is the new text another?"""
        return self.old != self.outcome.text

    @property
    def diff(self) -> str:
        """The change as a unified diff, "" without one."""
        return unified_diff(self.path, self.old, self.outcome.text)


@dataclass(frozen=True, order=True)
class _Edit:
    """Characters ``start`` to ``end`` (exclusive) of the old text become ``new``."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class _Taken:
    """A fix of this pass: its finding and its edits."""

    identity: Identity
    finding: Finding
    edits: tuple[_Edit, ...]


Identity = tuple[str, int]  # what a finding says, and how many that say the same precede it


def is_applicable(finding: Finding, *, unsafe: bool) -> bool:
    """Would ``--fix`` (with ``--unsafe-fixes``) try this finding?"""
    if finding.fix is None or finding.fix.safety is Safety.DISPLAY:
        return False
    return unsafe or finding.fix.safety is Safety.SAFE


def fix_text(path: str, text: str, lint: Lint, *, unsafe: bool = False) -> FixOutcome:
    """Fix a text until nothing more changes (at most 100 passes).

    ``path`` names the file in findings and tells JSON from Python. Raises `UnreadableFile` when
    the text given is itself unparsable.
    """
    findings = list(lint(text))
    origin = generated_from(path, text)
    if origin:
        reason = f"this file is generated: --fix edits {os.path.basename(origin)}"
        refused = [_unfixed(f, reason) for f in findings if is_applicable(f, unsafe=unsafe)]
        return FixOutcome(text, refused=tuple(refused), remaining=tuple(findings))
    loop = _Loop(path, lint, unsafe)
    for _ in range(MAX_PASSES):
        step = loop.step(text, findings)
        if step is None:
            break
        text, findings = step
    return FixOutcome(
        text=text,
        applied=dict(sorted(loop.applied.items())),
        refused=tuple(loop.refused),
        failed=tuple(loop.named(findings)),
        remaining=tuple(findings),
    )


class _Loop:
    """The passes over one text; a step is one pass."""

    def __init__(self, path: str, lint: Lint, unsafe: bool) -> None:
        self.path = path
        self.lint = lint
        self.unsafe = unsafe
        self.applied: Counter[str] = Counter()
        self.refused: list[Unfixed] = []
        self._undone: dict[Identity, str] = {}

    def step(self, text: str, findings: Sequence[Finding]) -> tuple[str, list[Finding]] | None:
        """One pass: the next text and its findings, None when nothing could be applied."""
        while batch := self._propose(text, findings):
            while batch:
                after, bad, reason = self._try(text, batch)
                if after is not None:
                    self.applied.update(fix.finding.code for fix in batch)
                    return after
                if len(batch) == 1:  # judged alone, so it is to blame
                    self._undone[batch[0].identity] = reason
                    break
                batch = [fix for fix in batch if fix not in bad] or batch[:1]
        return None

    def named(self, findings: Sequence[Finding]) -> list[Unfixed]:
        """The fixes that were undone and whose findings are still there."""
        return [
            _unfixed(finding, self._undone[identity])
            for identity, finding in _identified(findings)
            if identity in self._undone
        ]

    def _propose(self, text: str, findings: Sequence[Finding]) -> list[_Taken]:
        """The fixes of one pass, none touching another."""
        self.refused = []
        taken: list[_Taken] = []
        for identity, finding in _identified(findings):
            if not is_applicable(finding, unsafe=self.unsafe) or identity in self._undone:
                continue
            try:
                edits = _edits(text, self._fixed(text, finding))
            except UnreadableFile as error:
                self._undone[identity] = f"the fix leaves the file unparsable ({error.cause})"
            except Exception as error:  # a fault of a fixer must not cost the other fixes
                self._undone[identity] = f"the fixer failed ({type(error).__name__}: {error})"
            else:
                if edits and not _collide(edits, [e for fix in taken for e in fix.edits]):
                    taken.append(_Taken(identity, finding, edits))
        return taken

    def _fixed(self, text: str, finding: Finding) -> str:
        """The fixer's text; the old one when it refuses. Raises `UnreadableFile`."""
        import fixers

        assert finding.fix is not None
        try:
            new = fixers.load(finding.fix.fixer).fix(text, finding)
        except fixers.FixRefused as refusal:
            self.refused.append(_unfixed(finding, refusal.reason, refusal.line))
            return text
        if new == text:
            self.refused.append(_unfixed(finding, "the fixer found nothing to change"))
        else:
            _parse(self.path, new)
        return new

    def _try(
        self, text: str, batch: Sequence[_Taken]
    ) -> tuple[tuple[str, list[Finding]] | None, Sequence[_Taken], str]:
        """The text with a batch and its findings; without them, the fixes to leave out and why."""
        edits = sorted({edit for fix in batch for edit in fix.edits})
        new = _apply(text, edits)
        try:
            _parse(self.path, new)
            after = list(self.lint(new))
        except UnreadableFile as error:
            return None, batch[1:], f"the fix leaves the file unparsable ({error.cause})"
        stuck = [fix for fix in batch if _is_still_there(fix.finding, text, edits, new, after)]
        if stuck:
            return None, stuck, "the fix did not remove the finding"
        return (new, after), (), ""


def _says(finding: Finding) -> str:
    return repr((finding.code, finding.class_name, finding.message, finding.fix))


def _identified(findings: Sequence[Finding]) -> list[tuple[Identity, Finding]]:
    """Findings in order, each with an identity that survives a change of lines."""
    seen: Counter[str] = Counter()
    result = []
    for finding in sorted(findings, key=lambda f: f.sort_key):
        said = _says(finding)
        result.append(((said, seen[said]), finding))
        seen[said] += 1
    return result


def _unfixed(finding: Finding, reason: str, line: int | None = None) -> Unfixed:
    return Unfixed(finding.code, finding.class_name, line or finding.span.line, reason)


def _parse(path: str, text: str) -> None:
    """Raise `UnreadableFile` unless the text is valid Python (JSON for a .json file)."""
    if not path.endswith(".json"):
        parse_text(path, text)
        return
    try:
        json.loads(text)
    except ValueError as error:
        raise UnreadableFile(path, f"not valid JSON: {error}") from None


def _edits(old: str, new: str) -> tuple[_Edit, ...]:
    """Whole-line edits that turn one text into the other."""
    before, after = _lines(old), _lines(new)
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    offsets = [0]
    for line in before:
        offsets.append(offsets[-1] + len(line))
    matcher = difflib.SequenceMatcher(
        None, before[first : len(before) - last], after[first : len(after) - last], autojunk=False
    )
    return tuple(
        _Edit(offsets[first + i1], offsets[first + i2], "".join(after[first + j1 : first + j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    )


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items two sequences begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _collide(edits: Sequence[_Edit], taken: Sequence[_Edit]) -> bool:
    """Does an edit touch another? Two equal ones (the same import added twice) do not."""
    known = set(taken)
    return any(
        edit.start <= other.end and other.start <= edit.end
        for edit in edits
        if edit not in known
        for other in taken
    )


def _apply(text: str, edits: Sequence[_Edit]) -> str:
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += [text[position : edit.start], edit.new]
        position = edit.end
    return "".join([*pieces, text[position:]])


def _is_still_there(
    finding: Finding, old: str, edits: Sequence[_Edit], new: str, after: Sequence[Finding]
) -> bool:
    """Does the new text have the same finding at the place to which the edits moved it?"""
    span = finding.span
    first = _offset(old, span.line, span.column)
    last = _offset(old, span.end_line, span.end_column) if span.end_line else first
    exact = [_trimmed(old, edit) for edit in edits]
    start, stop = _moved(first, exact, end=False), _moved(last, exact, end=True)
    return any(
        _says(other) == _says(finding)
        and start <= _offset(new, other.span.line, other.span.column) <= stop
        for other in after
    )


def _trimmed(old: str, edit: _Edit) -> _Edit:
    """The same edit without the characters that it leaves alone at its ends."""
    before = old[edit.start : edit.end]
    head = _common(before, edit.new)
    tail = _common(before[head:][::-1], edit.new[head:][::-1])
    return _Edit(edit.start + head, edit.end - tail, edit.new[head : len(edit.new) - tail])


def _lines(text: str) -> list[str]:
    """Lines as Python counts them, with their ends."""
    return list(io.StringIO(text, newline=""))


def _offset(text: str, line: int, column: int) -> int:
    return sum(map(len, _lines(text)[: max(line - 1, 0)])) + max(column - 1, 0)


def _moved(position: int, edits: Sequence[_Edit], *, end: bool) -> int:
    """Where a position went; within an edit, to the edge of what took its place."""
    shift = 0
    for edit in edits:
        if position < edit.start or (position == edit.start == edit.end and not end):
            break
        if position < edit.end or (end and position == edit.end):
            return edit.start + shift + (len(edit.new) if end else 0)
        shift += len(edit.new) - (edit.end - edit.start)
    return position + shift


def fix_file(path: str, lint: Lint, *, unsafe: bool = False, write: bool = True) -> FileFix:
    """Fix a file in place, keeping its encoding, byte-order mark and line ends.

    Nothing is written without a change or with ``write=False``. Raises `UnreadableFile` when
    the file cannot be read, parsed or written.
    """
    source = _read(path)
    outcome = fix_text(path, source.text, lint, unsafe=unsafe)
    result = FileFix(path, source.text, outcome)
    if write and result.changed:
        write_atomic(path, source.encode(outcome.text))
    return result


def _read(path: str) -> SourceFile:
    data = read_bytes(path)
    if not path.endswith(".json"):
        return parse_bytes(path, data)
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        text = data[len(codecs.BOM_UTF8) if bom else 0 :].decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableFile(path, f"not valid utf-8: {error.reason}") from None
    _parse(path, text)
    return SourceFile(path, text, ast.Module([], []), bom=bom)


def unified_diff(path: str, old: str, new: str) -> str:
    """The change of one file as a unified diff that ``git apply`` and ``patch`` take."""
    name = os.path.normpath(path).lstrip(os.sep)
    # Only "\n" ends a line of a diff.
    before, after = (list(io.StringIO(text, newline="\n")) for text in (old, new))
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
