"""The static check: files in, sorted findings out. Nothing scanned is imported or executed.

from modelcheck.scan import Scanner
result = Scanner().scan(["modeling_x.py"])
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from modelcheck import suppress
from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Severity, Span
from modelcheck.fusers.contract import Contract, newest
from modelcheck.rules.base import Context, Rule, all_rules, codes_of
from modelcheck.settings import PerFileIgnores, ignored_codes
from modelcheck.source import modular
from modelcheck.source.bodies import headline
from modelcheck.source.classes import FileIndex, ProjectIndex, forget_libraries
from modelcheck.source.discovery import discover, is_config, modeling_files
from modelcheck.source.memory import collecting_seldom
from modelcheck.source.repo import CONFIG, Repo, read_config
from modelcheck.source.text import SourceFile, parse_text, read_source

UNUSED_SUPPRESSION = "MC001"


@dataclass(frozen=True)
class Selection:
    """Which rules run: ``select`` (all without one) and ``extend``, less ``ignore``.

    Each entry is a code, a name, or the beginning of codes ("MC5"). Raises `UsageError` for
    one that is no rule. ``per_file`` pairs globs, from the folder ``root``, with what is not
    reported of the files that they name.
    """

    select: tuple[str, ...] = ()
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file: PerFileIgnores = ()
    root: str = ""

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that run, by code."""
        everything = {rule.code for rule in all_rules()}
        chosen = _codes(self.select) if self.select else everything
        active = (chosen | _codes(self.extend)) - _codes(self.ignore)
        _codes(entry for _, entries in self.per_file for entry in entries)  # a wrong one is said
        return tuple(rule for rule in all_rules() if rule.code in active)

    def reported(self, findings: Sequence[Finding], path: str) -> list[Finding]:
        """The findings of a file that its per-file ignores leave."""
        codes = _codes(ignored_codes(path, self.per_file, self.root)) if self.per_file else ()
        return [finding for finding in findings if finding.code not in codes]


def _codes(entries: Iterable[str]) -> set[str]:
    return {code for entry in entries for code in codes_of(entry)}


@dataclass(frozen=True)
class ScanResult:
    """What a scan found, sorted; ``files`` counts what was checked."""

    findings: tuple[Finding, ...]
    unreadable: tuple[UnreadableFile, ...]
    files: int
    empty: tuple[str, ...] = ()  # paths without a modeling file

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The findings that make a run fail: all but ``info``."""
        return tuple(f for f in self.findings if f.severity is not Severity.INFO)


@dataclass
class Folder:
    """The files of one folder, parsed once, from which contexts are made."""

    path: str
    sources: dict[str, SourceFile] = field(default_factory=dict)
    config_path: str | None = None
    config_text: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    package: Path | None = None  # the transformers to look names up in, the installed one without
    findings: dict[str, list[Finding]] = field(default_factory=dict)  # of files checked already

    def context(self, path: str, contract: Contract, text: str | None = None) -> Context:
        """What the rules see of ``path``, with ``text`` in place of what the file holds.

        Raises `UnreadableFile` when ``text`` cannot be parsed.
        """
        if is_config(path):
            return self._config_context(path, contract, text)
        project = ProjectIndex(self.package)
        source = self.sources[path] if text is None else parse_text(path, text)
        file = project.add(source)
        others = [s for name, s in self.sources.items() if name != path and self.config_path]
        files = (file, *(project.add(other) for other in others))
        repo = Repo(Path(self.path), self.config_path, self.config_text, self.config, files)
        return Context(file, repo, contract)

    def _config_context(self, path: str, contract: Contract, text: str | None) -> Context:
        project = ProjectIndex(self.package)
        files = [project.add(source) for source in self.sources.values()]
        config, config_text = self.config, self.config_text
        if text is not None:
            config, config_text = _parse_config(path, text), text
        # A configuration is a file without statements: code rules find nothing in it.
        file = FileIndex(SourceFile(path, config_text, ast.Module([], [])), project)
        repo = Repo(Path(self.path), path, config_text, config, tuple(files))
        return Context(file, repo, contract)


class Scanner:
    """Runs a selection of rules for one vLLM release.

    ``transformers`` is the release that the model will run under; ``package`` the folder of the
    transformers in which inherited classes are looked up, the installed one without it.
    """

    def __init__(
        self,
        contract: Contract | None = None,
        selection: Selection | None = None,
        transformers: str | None = None,
        package: Path | None = None,
    ) -> None:
        self.contract = contract or newest()
        self.selection = selection or Selection()
        self.transformers = transformers
        self.package = package
        self._folders: dict[str, Folder] = {}

    def scan(self, paths: Sequence[str]) -> ScanResult:
        """Check files and folders. Unreadable files are in the result; the others are checked.

        Raises `UsageError` for a rule code that does not exist.
        """
        _ = self.selection.rules  # a wrong code is said before any file is read
        found = discover(paths)
        unreadable = list(found.unreadable)
        findings: list[Finding] = []
        files = 0
        targets = sorted(
            [*found.modeling, *found.configs, *self._configs_beside(found.modeling, found.configs)],
            key=lambda path: (os.path.dirname(path), path),
        )
        for path in collecting_seldom(targets):
            try:
                findings += self.check(path)
                files += 1
            except UnreadableFile as error:
                unreadable.append(error)
        return ScanResult(
            tuple(sorted(findings, key=lambda f: f.sort_key)),
            tuple(unreadable),
            files,
            found.empty,
        )

    def _configs_beside(self, modeling: Iterable[str], known: Iterable[str]) -> list[str]:
        have = {os.path.realpath(path) for path in known}
        beside: dict[str, str] = {}
        for path in modeling:
            config = os.path.join(os.path.dirname(path), CONFIG)
            real = os.path.realpath(config)
            if real not in have and os.path.isfile(config):
                beside.setdefault(real, config)
        return list(beside.values())

    def check(self, path: str, text: str | None = None) -> list[Finding]:
        """The findings of one file, or of ``text`` in its place. Raises `UnreadableFile`."""
        folder = self._folder_of(path)
        context = folder.context(path, self.contract, text)
        if self.transformers is not None:
            context = dataclasses.replace(context, transformers=self.transformers)
        findings = self.check_context(context)
        context.release()
        if text is None:
            folder.findings[path] = findings
        return findings

    def check_context(self, context: Context) -> list[Finding]:
        """The findings of one context, suppressions and generated files taken into account."""
        findings: list[Finding] = []
        for rule in self.selection.rules:
            try:
                findings += rule.check(context)
            except Exception as error:
                error.add_note(f"in rule {rule.code} on {context.file.path}")
                raise
        path, source = context.file.path, context.file.source
        if modular.is_modular(path):
            findings = self._as_generated(context, findings)
        findings, unused = suppress.apply(findings, source)
        findings += self._unused(context, unused)
        origin = modular.generated_from(path, source.text)
        if origin:
            findings = [_pointed_to(f, origin) for f in findings]
        return sorted(findings, key=lambda f: f.sort_key)

    def _as_generated(self, context: Context, findings: list[Finding]) -> list[Finding]:
        """The findings of a modular file as what is generated from it bears them out.

        The generated file runs, and inheritance means less there than in Python (a parent's body
        takes the place of super()): of a class that inherits from another model, it has the word.
        """
        path = modular.generated_of(context.file.path)
        if not path:
            return findings
        folder = self._folder_of(context.file.path)
        try:
            borne_out = folder.findings[path] if path in folder.findings else self.check(path)
        except UnreadableFile:
            return findings  # said when that file is checked
        generated = folder.context(path, self.contract).file.classes
        said = {(f.class_name, f.code) for f in findings}
        known = {(f.class_name, f.code) for f in borne_out}
        kept = [
            f
            for f in findings
            if f.class_name not in generated
            or not _inherits(context, f.class_name)
            or (f.class_name, f.code) in known
        ]
        for f in borne_out:
            info = context.file.classes.get(f.class_name)
            if info is not None and (f.class_name, f.code) not in said:
                span = Span.of(headline(info.node), context.file.source.lines)
                kept.append(dataclasses.replace(f, path=context.file.path, span=span))
        return kept

    def forget(self, path: str) -> None:
        """The file has changed on disk."""
        self._folders.pop(os.path.dirname(path), None)
        forget_libraries()

    def _unused(self, context: Context, unused: Iterable[suppress.Suppression]) -> list[Finding]:
        active = {rule.code for rule in self.selection.rules}
        if UNUSED_SUPPRESSION not in active:
            return []
        return [
            Finding(
                code=UNUSED_SUPPRESSION,
                severity=Severity.INFO,
                path=context.file.path,
                span=item.span,
                class_name="",
                message=item.problem
                or f"this comment silences {item.word}, which finds nothing here",
                advice="Write it as `# modelcheck: ignore[MC501]`, with codes of rules or names."
                if item.problem
                else "Remove it.",
            )
            for item in unused
            if item.codes is None or item.codes <= active
        ]

    def _folder_of(self, path: str) -> Folder:
        """The parsed folder of ``path``. Raises `UnreadableFile` for ``path`` itself only."""
        name = os.path.dirname(path)
        folder = self._folders.get(name)
        if folder is None:
            self._folders.clear()  # targets come folder by folder: one in memory is enough
            folder = self._folders[name] = _read_folder(name)
            folder.package = self.package
        if is_config(path):
            if path != folder.config_path:
                text, config = read_config(Path(path))
                folder.config_path, folder.config_text, folder.config = path, text, config
        elif path not in folder.sources:
            folder.sources[path] = read_source(path)
        return folder


def _read_folder(name: str) -> Folder:
    """A folder's config.json and, where there is one, all its modeling files."""
    folder = Folder(name)
    config_path = os.path.join(name, CONFIG)
    if not os.path.isfile(config_path):
        return folder
    try:
        text, config = read_config(Path(config_path))
    except UnreadableFile:
        return folder  # said when the configuration itself is checked
    folder.config_path, folder.config_text, folder.config = config_path, text, config
    auto_map = config.get("auto_map")
    references = auto_map.values() if isinstance(auto_map, dict) else ()
    for path in modeling_files(name, [r for r in references if isinstance(r, str)]):
        try:
            folder.sources[path] = read_source(path)
        except UnreadableFile:
            continue  # said when the file itself is checked
    return folder


def _parse_config(path: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UnreadableFile(path, f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise UnreadableFile(path, "not a model configuration: the top level is not an object")
    return value


def _pointed_to(finding: Finding, origin: str) -> Finding:
    """A finding in a generated file: nothing is fixed here."""
    where = modular.where_to_change(finding.path, origin, finding.class_name)
    return dataclasses.replace(finding, fix=None, advice=f"{finding.advice} {where}")


def _inherits(context: Context, name: str) -> bool:
    """Has a class of the file a parent that another file writes?"""
    info = context.file.classes.get(name)
    return info is not None and any(each.file is not context.file for each in info.mro)
