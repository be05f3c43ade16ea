"""Model repositories of the Hugging Face Hub, as ``hf://org/name[@revision][/path]``.

Only what modelcheck reads is fetched, at one commit, through huggingface_hub and its cache: Python
and JSON files, and of ``model.safetensors`` the header. Nothing that is fetched is executed.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from modelcheck import __version__
from modelcheck.errors import HubError, MissingDependency, UnreadableFile, UsageError
from modelcheck.isolated import cache_folder
from modelcheck.source.checkpoint import INDEX, SINGLE, header_only, read_header
from modelcheck.source.repo import CONFIG, read_config

if TYPE_CHECKING:
    from huggingface_hub import HfApi

PROTOCOL = "hf://"
INSTALL = "pip install 'modelcheck[hub]'"
WANTED = ("*.py", "*.json")
UNREAD = ("*tokenizer.json", "*vocab.json")  # vocabularies: megabytes that say nothing of the code
# The Hub's own names for pull requests and conversions have slashes that need no %2F.
_REF = re.compile(r"refs/(?:pr/\d+|convert/[\w.-]+)")
_NAME = re.compile(r"[\w-](?:[\w.-]{0,94}[\w-])?")


@dataclass(frozen=True)
class HubPath:
    """What an hf:// path says: ``repo`` is "org/name", ``inside`` a path in it, "" for all."""

    repo: str
    revision: str | None = None
    inside: str = ""

    @property
    def root(self) -> str:
        """The repository, as it was named."""
        return f"{PROTOCOL}{self.repo}" + (f"@{_quoted(self.revision)}" if self.revision else "")


def parse(uri: str) -> HubPath:
    """``hf://[models/]org/name[@revision][/path]``; a slash in a revision is written %2F.

    Raises `UsageError`.
    """
    body = uri.removeprefix(PROTOCOL).removeprefix("models/").rstrip("/")
    if body.startswith(("datasets/", "spaces/", "kernels/", "buckets/")):
        raise UsageError(f"{uri}: only models are checked")
    org, _, rest = body.partition("/")
    name, at, more = rest.partition("@")
    if "/" in name:
        name, _, inside = rest.partition("/")
        at = revision = ""
    elif special := _REF.match(more):
        revision, inside = special[0], more[special.end() :].removeprefix("/")
    else:
        revision, _, inside = more.partition("/")
    parts = inside.split("/") if inside else []
    good = _NAME.fullmatch(org) and _NAME.fullmatch(name) and (revision or not at)
    if not good or any(part in ("", ".", "..") for part in parts):
        raise UsageError(f"{uri}: not of the form {PROTOCOL}org/name[@revision][/path]")
    return HubPath(f"{org}/{name}", unquote(revision) or None, inside)


def _quoted(revision: str) -> str:
    return revision if _REF.fullmatch(revision) else revision.replace("/", "%2F")


@dataclass(frozen=True)
class Snapshot:
    """The files of a repository at one commit, in a folder of this machine.

    ``uri`` is as the user named it, ``endpoint`` the Hub's address, ``notes`` what the user
    should know of how it was come by.
    """

    uri: str
    named: HubPath
    commit: str
    folder: Path
    endpoint: str
    notes: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """What was named, on this machine."""
        return str(self.folder / self.named.inside)

    @property
    def pinned(self) -> str:
        """What was named, at the commit that was read."""
        return self.at_commit(self.path)

    @property
    def url(self) -> str:
        """The repository's page."""
        return f"{self.endpoint}/{self.named.repo}"

    def shown(self, text: str) -> str:
        """``text`` with the repository as the user named it, for the folder."""
        return text.replace(str(self.folder), self.named.root)

    def at_commit(self, text: str) -> str:
        """``text`` with the repository at its commit, for the folder."""
        return text.replace(str(self.folder), replace(self.named, revision=self.commit).root)


@contextlib.contextmanager
def fetched(uri: str, *, weights: bool = False) -> Iterator[Snapshot]:
    """A repository's files in a temporary folder, while the context lasts.

    ``weights`` asks for the names of its tensors too: the index, or the header of a single file.
    Raises `UsageError` for what is no hf:// path, `MissingDependency` without huggingface_hub,
    `HubError` with one line for all that the Hub or the network refuses.
    """
    import tempfile

    named = parse(uri)
    with tempfile.TemporaryDirectory(prefix="modelcheck-hub-") as home:
        # The folder's name is that of the repository: transformers names modules after it.
        folder = Path(home).resolve() / named.repo.partition("/")[2]
        folder.mkdir()
        yield _fetch(uri, named, folder, weights)


def _fetch(uri: str, named: HubPath, folder: Path, weights: bool) -> Snapshot:
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
        from huggingface_hub.utils import disable_progress_bars
    except ImportError:
        raise MissingDependency(f"{PROTOCOL} needs huggingface_hub: {INSTALL}") from None
    if not sys.stderr.isatty():
        disable_progress_bars()
    client = {"library_name": "modelcheck", "library_version": __version__}
    # The HTTP library differs from release to release; its errors have a base of this one's.
    trouble = (*HfHubHTTPError.__bases__, OSError, HFValidationError)
    api = HfApi(**client)
    asked = _Asked()
    try:
        asked = _ask(api, named, trouble)
        snapshot = Path(
            snapshot_download(
                named.repo,
                revision=named.revision,
                allow_patterns=list(WANTED),
                ignore_patterns=_unread(weights),
                local_files_only=bool(asked.unreachable),
                **client,
            )
        )
        _copy(snapshot, folder, weights)
        notes = [f"{asked.unreachable}: the copy in the cache is used"] * bool(asked.unreachable)
        if weights and not (folder / INDEX).exists():
            notes += _add_header(api, named.repo, snapshot, folder, asked)
    except trouble as error:
        raise HubError(f"{named.root}: {_cause(error, named, asked, api.endpoint)}") from None
    found = Snapshot(uri, named, snapshot.name, folder, api.endpoint)
    if not Path(found.path).exists():
        raise HubError(f"{uri}: no such Python or JSON file at commit {found.commit}")
    return replace(found, notes=tuple(f"{named.root}: {n}" for n in (*notes, *_elsewhere(found))))


@dataclass(frozen=True)
class _Asked:
    """What the Hub said first: its files, or why it was not asked."""

    files: tuple[str, ...] = ()
    unreachable: str = ""


def _ask(api: HfApi, named: HubPath, trouble: tuple[type[Exception], ...]) -> _Asked:
    """Ask for the revision. Raises what the Hub answers, but not for a Hub that is away."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        info = api.model_info(named.repo, revision=named.revision)
        return _Asked(tuple(item.rfilename for item in info.siblings or ()))
    except OfflineModeIsEnabled:
        return _Asked(unreachable="offline, by HF_HUB_OFFLINE")
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status < 500:
            raise
        return _Asked(unreachable=f"{api.endpoint} answers with {status}")
    except trouble as error:
        return _Asked(unreachable=f"{api.endpoint} cannot be reached ({_line(error)})")


def _unread(weights: bool) -> list[str]:
    return [*UNREAD, *(() if weights else (f"*{INDEX}",))]


def _copy(snapshot: Path, folder: Path, weights: bool) -> None:
    """Copy what was asked for: the cache may hold more, weights above all, and links them."""
    if not snapshot.is_dir():
        return  # the repository has no such file
    for root, _, names in os.walk(snapshot):
        for name in names:
            path = Path(root, name)
            wanted = any(fnmatch.fnmatch(name, pattern) for pattern in WANTED)
            if wanted and not any(fnmatch.fnmatch(name, pattern) for pattern in _unread(weights)):
                target = folder / path.relative_to(snapshot)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def _add_header(
    api: HfApi, repo: str, snapshot: Path, folder: Path, asked: _Asked
) -> Iterator[str]:
    """Put a file into the folder that has the header of the weights alone; notes."""
    from huggingface_hub.errors import SafetensorsParsingError

    kept = cache_folder() / "hub" / repo.replace("/", "--") / f"{snapshot.name}.safetensors"
    header = read_header(snapshot / SINGLE) or read_header(kept)
    if header is None and asked.unreachable:
        yield "the names of the weights are not in the cache, and are not checked"
    if header is None and SINGLE in asked.files:
        try:
            found = api.parse_safetensors_file_metadata(repo, SINGLE, revision=snapshot.name)
        except SafetensorsParsingError as error:
            yield f"{SINGLE} is not read: {_line(error)}"
            return
        header = json.dumps({n: asdict(t) for n, t in found.tensors.items()}).encode()
        with contextlib.suppress(OSError):  # without it the next run asks again
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(header_only(header))
    if header is not None:
        (folder / SINGLE).write_bytes(header_only(header))


def _elsewhere(found: Snapshot) -> Iterator[str]:
    """Notes on code that another repository holds, and that was not fetched."""
    path = found.folder / CONFIG
    try:
        entries = read_config(path)[1].get("auto_map")
    except UnreadableFile:
        return  # said where it is checked, if it is there at all
    values = entries.values() if isinstance(entries, dict) else ()
    others = {v.partition("--")[0] for v in values if isinstance(v, str) and "--" in v}
    for other in sorted(others - {found.named.repo}):
        yield f"auto_map takes code of {PROTOCOL}{other}, which was not fetched"


def _cause(error: Exception, named: HubPath, asked: _Asked, endpoint: str) -> str:
    """One line for what the Hub or the network refuses."""
    from huggingface_hub import errors

    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return f"gated: accept its terms on {endpoint}/{named.repo}, and set HF_TOKEN"
    if isinstance(error, errors.RevisionNotFoundError):
        return "no such branch, tag or commit"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"no such model on {endpoint}, or a private one: HF_TOKEN gives access"
    if status == 401:
        return f"{endpoint} refuses the token (HF_TOKEN)"
    if isinstance(error, errors.LocalEntryNotFoundError):
        return f"{asked.unreachable or f'{endpoint} cannot be reached'}, and it is not in the cache"
    return _line(error)


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
