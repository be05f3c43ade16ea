"""One scan for one or several vLLM releases: files are read and indexed once for all of them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from modelcheck.findings import Finding
from modelcheck.fusers.contract import Contract
from modelcheck.rules.base import Context, all_rules
from modelcheck.scan import (
    UNUSED_SUPPRESSION,
    Scanner,
    ScanResult,
    Selection,
    _parse_config,
    _read_folder,
)
from modelcheck.source.discovery import is_config
from modelcheck.source.text import parse_bytes
from modelcheck.verdict import FileFacts, Verdict, judge

Key = tuple[object, ...]


def _key(finding: Finding) -> Key:
    """A finding is the same in two releases when all but its fix is equal."""
    f = finding
    return (f.code, f.severity, f.path, f.span, f.class_name, f.message, f.advice, f.tp_only)


class ReleaseScanner(Scanner):
    """A scanner for several releases: what it finds is what any of them has, each thing once.

    `releases_of` tells which releases a finding holds for, `verdicts` what becomes of each model.
    """

    def __init__(
        self,
        contracts: Sequence[Contract],
        selection: Selection | None = None,
        transformers: str | None = None,
        package: Path | None = None,
    ) -> None:
        super().__init__(contracts[-1], selection, transformers, package)
        self.contracts = tuple(contracts)
        self._found: dict[tuple[str, str], list[Finding]] = {}  # by path and release
        self._facts: dict[tuple[str, str], FileFacts] = {}
        self._releases: dict[Key, tuple[str, ...]] = {}

    def check_context(self, context: Context) -> list[Finding]:
        """The findings of one context in any of the releases."""
        path = context.file.path
        merged: dict[Key, Finding] = {}
        where: dict[Key, list[str]] = {}
        for contract in self.contracts:
            one = dataclasses.replace(context, contract=contract)
            findings = self.selection.reported(super().check_context(one), path)
            self._found[path, contract.version] = findings
            self._facts[path, contract.version] = self._facts_of(one)
            for finding in findings:
                merged.setdefault(_key(finding), finding)
                releases = where.setdefault(_key(finding), [])
                if contract.version not in releases:  # the same may be said twice of one place
                    releases.append(contract.version)
        for key, finding in list(merged.items()):
            # A comment that one release needs is not unused.
            if finding.code == UNUSED_SUPPRESSION and len(where[key]) < len(self.contracts):
                del merged[key]
        self._releases |= {key: tuple(where[key]) for key in merged}
        return sorted(merged.values(), key=lambda f: f.sort_key)

    @property
    def checked(self) -> tuple[str, ...]:
        """The files that were checked so far."""
        return tuple(dict.fromkeys(path for path, _ in self._found))

    def put(self, path: str, data: bytes) -> str:
        """Let ``data`` stand for the contents of a file, which need not exist; its text.

        Raises `UnreadableFile` when they cannot be parsed.
        """
        folder = _read_folder(os.path.dirname(path))
        if is_config(path):
            text = data.decode("utf-8-sig", "replace")
            folder.config_path, folder.config_text = path, text
            folder.config = _parse_config(path, text)
        else:
            source = folder.sources[path] = parse_bytes(path, data)
            text = source.text
        self._folders = {folder.path: folder}
        return text

    def releases_of(self, finding: Finding) -> tuple[str, ...]:
        """The releases that a finding of the last check of its file holds for."""
        return self._releases.get(_key(finding), ())

    def with_releases(self, finding: Finding) -> Finding:
        """A finding that says which of the releases it is about, when not about all."""
        releases = self.releases_of(finding)
        if len(releases) == len(self.contracts):
            return finding
        message = f"{finding.message} [vLLM {', '.join(releases)}]"
        return dataclasses.replace(finding, message=message)

    def verdicts(self, result: ScanResult) -> tuple[Verdict, ...]:
        """What becomes of each model repository and lone file of a scan, release by release."""
        return tuple(
            judge(
                name,
                contract.version,
                [f for path in paths for f in self._found.get((path, contract.version), ())],
                [self._facts[path, contract.version] for path in paths if not is_config(path)],
                self._doubt(paths, result),
            )
            for name, paths in self._subjects().items()
            for contract in self.contracts
        )

    def _subjects(self) -> dict[str, list[str]]:
        """What is judged, with the files of each, in order."""
        paths = sorted({path for path, _ in self._found})
        groups: dict[str, list[str]] = {}
        for path in paths:
            facts = self._facts[path, self.contracts[0].version]
            if not facts.repo and _generated(path) in paths:
                continue  # what runs is the file generated from it
            groups.setdefault(facts.repo or path, []).append(path)
        return groups

    def _doubt(self, paths: Sequence[str], result: ScanResult) -> str:
        folders = {os.path.dirname(path) for path in paths}
        for error in result.unreadable:
            if os.path.dirname(error.path) in folders:
                return f"{os.path.basename(error.path)} could not be checked"
        version = self.contracts[-1].version
        beside = [other for path in paths for other in self._facts[path, version].beside]
        unchecked = [other for other in beside if (other, version) not in self._found]
        if unchecked:
            return f"{os.path.basename(unchecked[0])} was not checked"
        left_out = len(all_rules()) - len(self.selection.rules)
        return f"{left_out} of the rules did not run" if left_out else ""

    def _facts_of(self, context: Context) -> FileFacts:
        repo = context.repo
        folder = str(repo.folder) if repo is not None and repo.config_path is not None else ""
        path = context.file.path
        if is_config(path) or len(self.selection.rules) < len(all_rules()):
            return FileFacts(path, folder)  # a partial run gets no verdict that needs more
        from modelcheck.verdict_facts import facts

        return facts(context, folder)


def _generated(path: str) -> str:
    """The file that is generated from a modular file, "" for any other."""
    folder, name = os.path.split(path)
    stem = name.removeprefix("modular_")
    return os.path.join(folder, f"modeling_{stem}") if stem != name else ""
