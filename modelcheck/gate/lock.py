"""The lock: a TOML file of what fuses in a model, class by class, written to be reviewed.

Comments, order and blanks of a file that is written anew are kept.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelcheck.errors import UsageError
from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.results import Evidence

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import Table

SCHEMA = 1
NAME = "modelcheck.lock"
HEADER = "What vLLM fuses in this model: `modelcheck gate` fails when it is less."

Key = tuple[str, str]  # a class and a fuser


@dataclass(frozen=True)
class Expectation:
    """One fuser on one class.

    ``fuser`` is as in a `FusionResult`, an MoE block's with who routes ("MoEBlock (internal
    routing)"). ``count`` is how many modules of the whole model, None where the source alone was
    read. ``names`` are the attributes that hold them ("mlp"), sorted; none where not known.
    ``wrong`` says how the numbers change, "" where they do not.
    """

    class_name: str
    fuser: str
    count: int | None = None
    names: tuple[str, ...] = ()
    wrong: str = ""

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.class_name, self.fuser


@dataclass(frozen=True)
class Lock:
    """What fuses in one model, and what that is known by.

    ``layers`` is the text model's depth and ``transformers`` a release, None where not known;
    ``verdict`` the scan's outcome in words; ``path`` the file, "" for what was just measured.
    """

    vllm: str
    transformers: str | None
    model_type: str | None
    layers: int | None
    evidence: Evidence
    verdict: str
    expectations: tuple[Expectation, ...]
    path: str = ""

    def expectation(self, key: Key) -> Expectation | None:
        """What is expected of a class and fuser."""
        return next((e for e in self.expectations if e.key == key), None)


def read(path: Path) -> Lock:
    """A lock file. Raises `UsageError` when it is missing, newer than we know, or none."""
    return _lock(_parse(path), path)


def write(path: Path, lock: Lock) -> None:
    """Write a lock; of a file that is there, what people wrote into it is kept.

    Raises `UsageError` when that file is no lock, or cannot be written.
    """
    import tomlkit

    if path.exists():
        known = _lock(_parse(path), path)
        gone = {e.key for e in known.expectations} - {e.key for e in lock.expectations}
        document = tomlkit.parse(_without(path.read_text(encoding="utf-8-sig"), gone))
    else:
        document = tomlkit.document()
        document.add(tomlkit.comment(HEADER))
    _fill(document, lock)
    try:
        path.write_text(tomlkit.dumps(document), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _parse(path: Path) -> TOMLDocument:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; modelcheck gate --update writes it") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a lock: not valid utf-8") from None
    except TOMLKitError as error:
        raise UsageError(f"{path}: not a lock: {' '.join(str(error).split())}") from None


def _lock(document: TOMLDocument, path: Path) -> Lock:
    data: dict[str, Any] = document.unwrap()
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise UsageError(f"{path}: not a lock: it has no schema number")
    if schema > SCHEMA:
        raise UsageError(
            f"{path}: written by a newer modelcheck (schema {schema}, this one knows {SCHEMA})"
        )
    try:
        return Lock(
            vllm=_release(data),
            transformers=_text(data, "transformers") or None,
            model_type=_text(data, "model_type") or None,
            layers=_count(data, "layers"),
            evidence=Evidence(_text(data, "evidence")),
            verdict=_text(data, "verdict"),
            expectations=tuple(_expectations(data.get("classes", {}))),
            path=str(path),
        )
    except _Malformed as error:
        raise UsageError(f"{path}: not a lock: {error}") from None
    except ValueError:  # of Evidence
        words = ", ".join(Evidence)
        raise UsageError(
            f"{path}: not a lock: evidence is {data.get('evidence')!r}, none of {words}"
        ) from None


class _Malformed(Exception):
    """A value of another kind than a lock has there."""


def _expectations(classes: Any) -> Iterable[Expectation]:
    for class_name, fusers in _table(classes, "classes").items():
        for fuser, values in _table(fusers, class_name).items():
            entry = _table(values, f"{class_name}.{fuser}")
            names = entry.get("names", [])
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise _Malformed(f"{class_name}.{fuser}.names is not a list of texts")
            yield Expectation(
                class_name, fuser, _count(entry, "count"), tuple(names), _text(entry, "wrong")
            )


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _Malformed(f"{name} is not a table")
    return value


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key, "")
    if not isinstance(value, str):
        raise _Malformed(f"{key} is not a text")
    return value


def _release(data: Mapping[str, Any]) -> str:
    """vLLM's release, of those that have fusers."""
    value = _text(data, "vllm")
    try:
        contract_for(value)
    except UsageError:
        raise _Malformed(f"vllm is {value!r}, not a release with fusers") from None
    return value


def _count(data: Mapping[str, Any], key: str) -> int | None:
    value = data.get(key)
    if value is not None and (type(value) is not int or value < 0):
        raise _Malformed(f"{key} is not a number of modules")
    return value


def _without(text: str, gone: set[Key]) -> str:
    """A lock's text less some tables, each with the comment above its header.

    To a TOML library that comment belongs to the table before.
    """
    blocks: list[list[str]] = [[]]
    above: list[str] = []  # comments that may belong to the next header
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("#"):
            above.append(line)
        elif line.startswith("["):
            blocks.append([*above, line])
            above = []
        else:
            blocks[-1] += [*above, line]
            above = []
    blocks[-1] += above
    kept = [block for block in blocks if _key(block) not in gone]
    return "".join(line for block in kept for line in block)


def _key(block: list[str]) -> Key | None:
    """The class and fuser that a table is about; None for another part of the file."""
    header = next((line for line in block if line.startswith("[")), "")
    try:
        (classes,) = tomllib.loads(header).items()
        ((class_name, fusers),) = classes[1].items()
        (fuser,) = fusers
    except (ValueError, AttributeError, TypeError):
        return None
    return (class_name, fuser) if classes[0] == "classes" else None


def _fill(document: TOMLDocument, lock: Lock) -> None:
    """Set all values, and take away what is no longer so."""
    import tomlkit

    _set(
        document,
        {
            "schema": SCHEMA,
            "model_type": lock.model_type,
            "layers": lock.layers,
            "vllm": lock.vllm,
            "transformers": lock.transformers,
            "evidence": str(lock.evidence),
            "verdict": lock.verdict,
        },
    )
    if "classes" not in document:
        document.add("classes", tomlkit.table(is_super_table=True))
    classes: Any = document["classes"]
    wanted: dict[str, dict[str, Expectation]] = {}
    for expectation in lock.expectations:
        wanted.setdefault(expectation.class_name, {})[expectation.fuser] = expectation
    for class_name in [name for name in classes if name not in wanted]:
        del classes[class_name]
    for class_name, fusers in wanted.items():
        if class_name not in classes:
            classes.append(class_name, tomlkit.table(is_super_table=True))
        table = classes[class_name]
        for fuser in [name for name in table if name not in fusers]:  # written inline
            del table[fuser]
        for fuser, expectation in fusers.items():
            if fuser not in table:
                table.append(fuser, tomlkit.table())
            _set(
                table[fuser],
                {
                    "count": expectation.count,
                    "names": list(expectation.names) or None,
                    "wrong": expectation.wrong or None,
                },
            )


def _set(table: TOMLDocument | Table, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if value is None:
            table.pop(key, None)
        elif key not in table or table[key] != value:
            table[key] = value
