"""A local server that answers as the Hugging Face Hub does, for the real client to talk to."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
Command = Callable[..., subprocess.CompletedProcess[str]]


@dataclass
class Repository:
    """A model: branches and tags to commits, commits to files. ``access`` is open or gated."""

    refs: dict[str, str]
    commits: dict[str, dict[str, bytes]]
    access: str = "open"


@dataclass
class Hub:
    """What the server has, and each request that it got: (method, path, Range, Authorization)."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    status: int = 200  # of every answer, for a Hub in trouble
    url: str = ""

    def add(self, name: str, files: dict[str, bytes], access: str = "open") -> str:
        """Commit files to main; the commit."""
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        known = self.repositories.setdefault(name, Repository({}, {}, access))
        known.commits[commit] = files
        known.refs["main"] = commit
        return commit

    @property
    def downloads(self) -> list[str]:
        """The names of the files whose contents were asked for."""
        return [
            p.split("/", 5)[-1] for m, p, _, _ in self.requests if m == "GET" and "/resolve/" in p
        ]


class Handler(BaseHTTPRequestHandler):
    """One answer; ``hub`` is set by `serve`."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        hub = self.hub
        path = unquote(urlsplit(self.path).path)
        wants = self.headers.get("range"), self.headers.get("authorization")
        hub.requests.append((self.command, path, *wants))
        if hub.status != 200:
            return self.answer(hub.status, b"")
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path):
            name, what, revision = found.groups()
            return self.api(name, what or "revision", revision or "main")
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/((?:refs/pr/)?[^/]+)/(.+)", path):
            return self.file(*found.groups())
        return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})

    do_HEAD = do_GET

    def commit(self, name: str, revision: str) -> tuple[Repository, str] | None:
        known = self.hub.repositories.get(name)
        if known is None:
            self.answer(401, b"", {"X-Error-Code": "RepoNotFound"})
            return None
        commit = known.refs.get(revision, revision)
        if commit not in known.commits:
            self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            return None
        return known, commit

    def api(self, name: str, what: str, revision: str) -> None:
        found = self.commit(name, revision)
        if found is None:
            return
        known, commit = found
        files = known.commits[commit]
        if what == "tree":
            body: object = [
                {"type": "file", "path": p, "size": len(d), "oid": hashlib.sha1(d).hexdigest()}
                for p, d in files.items()
            ]
        else:
            siblings = [{"rfilename": path} for path in files]
            body = {"id": name, "modelId": name, "sha": commit, "siblings": siblings}
        self.answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def file(self, name: str, revision: str, path: str) -> None:
        found = self.commit(name, revision)
        if found is None:
            return
        known, commit = found
        if known.access == "gated" and not self.headers.get("authorization"):
            return self.answer(403, b"", {"X-Error-Code": "GatedRepo"})
        data = known.commits[commit].get(path)
        if data is None:
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        headers = {
            "X-Repo-Commit": commit,
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
            "Accept-Ranges": "bytes",
        }
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range") or ""):
            first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            return self.answer(206, data[first : last + 1], headers)
        return self.answer(200, data, headers)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve() -> Iterator[Hub]:
    """A Hub without repositories, on a port of this machine."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A Hub for one test."""
    pytest.importorskip("huggingface_hub")
    with serve() as server:
        yield server


@pytest.fixture
def modelcheck(hub: Hub, tmp_path: Path) -> Command:
    """The command in a process of its own, with an empty cache, in an empty folder."""
    here = tmp_path / "here"
    here.mkdir()

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        gone = {"HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "MODELCHECK_VLLM_PYTHON"}
        environment = {
            **{name: value for name, value in os.environ.items() if name not in gone},
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "hf"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "PYTHONPATH": str(ROOT),
            **more,
        }
        return subprocess.run(
            [sys.executable, "-m", "modelcheck", *arguments],
            cwd=here,
            env=environment,
            capture_output=True,
            text=True,
        )

    return run
