"""One source file: bytes to text to tree, and back to the same bytes."""

from __future__ import annotations

import ast
import codecs
import io
import os
import stat
import tokenize
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from modelcheck.errors import UnreadableFile

MAX_BYTES = 20_000_000  # a modeling file is some 100 kB; more than this is data


@dataclass(frozen=True)
class SourceFile:
    """A Python file, parsed once.

    ``text`` keeps the file's own line ends and no byte-order mark; ``encode`` gives back
    the bytes that ``text`` came from, so that a fix changes nothing else.
    """

    path: str
    text: str
    tree: ast.Module
    encoding: str = "utf-8"
    bom: bool = False

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines as ``ast`` counts them (form feeds do not end a line)."""
        text = self.text
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return tuple(text.split("\n"))

    def lines_of(self, node: ast.stmt) -> str:
        """The whole lines of a statement, decorators aside."""
        return "\n".join(self.lines[node.lineno - 1 : node.end_lineno])

    def mentions(self, word: str) -> bool:
        """Is an ASCII word anywhere in the text, in whatever case?"""
        return word.encode() in self._lowered

    @cached_property
    def _lowered(self) -> bytes:
        return self.text.encode(errors="replace").lower()  # a text that is not ASCII takes longer

    def encode(self, text: str) -> bytes:
        """``text`` as this file stores it."""
        data = text.encode(self.encoding)
        return codecs.BOM_UTF8 + data if self.bom else data

    def segment(self, node: ast.AST) -> str:
        """The source text of an expression or statement."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file. Raises `UnreadableFile`."""
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            raise UnreadableFile(path, "not a regular file")
        if info.st_size > MAX_BYTES:
            raise UnreadableFile(path, f"larger than {MAX_BYTES // 1_000_000} MB")
        return Path(path).read_bytes()
    except OSError as error:
        raise UnreadableFile(path, error.strerror or str(error)) from None


def parse_bytes(path: str, data: bytes) -> SourceFile:
    """Decode by PEP 263 and parse. Raises `UnreadableFile` naming the line where there is one."""
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise UnreadableFile(path, f"encoding: {error.msg}") from None
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    try:
        text = data[len(codecs.BOM_UTF8) if bom else 0 :].decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UnreadableFile(path, f"not valid {encoding}: {error.reason}", line) from None
    return parse_text(path, text, encoding, bom)


def parse_text(path: str, text: str, encoding: str = "utf-8", bom: bool = False) -> SourceFile:
    """Parse text already decoded. Raises `UnreadableFile`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in old files are not our finding
            tree = ast.parse(text, filename=path)
    except SyntaxError as error:
        raise UnreadableFile(path, f"syntax error: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableFile(path, f"cannot be parsed: {error}") from None
    return SourceFile(path, text, tree, encoding, bom)


def read_source(path: str | os.PathLike[str]) -> SourceFile:
    """Read and parse a file. Raises `UnreadableFile`."""
    return parse_bytes(str(path), read_bytes(path))


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file's contents in one step, through symlinks, keeping its mode.

    Raises `UnreadableFile` when the folder or file cannot be written.
    """
    import tempfile  # costs a tenth of a clean scan, which writes nothing

    target = Path(os.path.realpath(path))
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
        if not os.access(target, os.W_OK):
            raise UnreadableFile(path, "not writable")
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise UnreadableFile(path, f"cannot be written: {error.strerror}") from None
