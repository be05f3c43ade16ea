"""The class index: what a file defines and imports, and inheritance across its siblings.

Files are found by their relative imports and parsed when a name is first needed; nothing is
imported or executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from modelcheck.errors import UnreadableFile
from modelcheck.source.text import SourceFile, read_source

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

# Bases outside the scanned files whose nature is known. The value says what a subclass is.
MODULE_BASES = {
    "torch.nn.Module": "module",
    "torch.nn.ModuleList": "module",
    "torch.nn.Linear": "module",
    "torch.nn.Embedding": "module",
    "torch.nn.LayerNorm": "module",
    "torch.nn.RMSNorm": "module",
}
MODULE_NAMES = {
    "GradientCheckpointingLayer": "module",
    "PreTrainedModel": "pretrained",
    "PretrainedConfig": "config",
    "PreTrainedConfig": "config",
}


@dataclass(frozen=True, eq=False)
class ClassInfo:
    """A class statement at module level (also inside ``if``/``try``)."""

    name: str
    node: ast.ClassDef
    file: FileIndex

    @cached_property
    def bases(self) -> tuple[str, ...]:
        """Base expressions as dotted names in this file ("nn.Module"); "" for any other."""
        return tuple(dotted_name(base) for base in self.node.bases)

    @cached_property
    def methods(self) -> Mapping[str, FunctionNode]:
        """Functions defined in this class body; of two with one name, the last."""
        return {
            item.name: item
            for item in _statements(self.node.body)
            if isinstance(item, FunctionNode)
        }

    @cached_property
    def attributes(self) -> Mapping[str, ast.expr]:
        """Class-level assignments ``name = value``."""
        found: dict[str, ast.expr] = {}
        for item in _statements(self.node.body):
            if isinstance(item, ast.Assign):
                for target in item.targets:
                    if isinstance(target, ast.Name):
                        found[target.id] = item.value
            elif (
                isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.value
            ):
                found[item.target.id] = item.value
        return found

    def attributes_annotation(self, name: str) -> ast.expr | None:
        """The annotation of a class-level ``name: Type``, in this class body."""
        for item in _statements(self.node.body):
            if (
                isinstance(item, ast.AnnAssign)
                and isinstance(item.target, ast.Name)
                and item.target.id == name
            ):
                return item.annotation
        return None

    @cached_property
    def mro(self) -> tuple[ClassInfo, ...]:
        """This class and its known ancestors, nearest first (depth first, left to right)."""
        seen: dict[int, ClassInfo] = {}
        stack = [self]
        while stack:
            current = stack.pop()
            if id(current.node) in seen:
                continue
            seen[id(current.node)] = current
            parents = [current.file.resolve(base) for base in current.bases]
            stack.extend(p for p in reversed(parents) if isinstance(p, ClassInfo))
        return tuple(seen.values())

    @cached_property
    def external_bases(self) -> tuple[str, ...]:
        """Fully dotted names of ancestors that no scanned file defines."""
        names: list[str] = []
        for info in self.mro:
            for base in info.bases:
                target = info.file.resolve(base)
                if not isinstance(target, ClassInfo):
                    names.append(target or "?")
        return tuple(names)

    def find_method(self, name: str) -> tuple[ClassInfo, FunctionNode] | None:
        """The method an instance would run, and the class that defines it."""
        for info in self.mro:
            if name in info.methods:
                return info, info.methods[name]
        return None

    def find_attribute(self, name: str) -> tuple[ClassInfo, ast.expr] | None:
        """The class-level value an instance would see, and the class that assigns it."""
        for info in self.mro:
            if name in info.attributes:
                return info, info.attributes[name]
        return None

    @cached_property
    def kind(self) -> str:
        """ "module", "pretrained" (a `PreTrainedModel`), "config", or "" for anything else."""
        kinds = {
            MODULE_BASES.get(base) or MODULE_NAMES.get(base.rpartition(".")[2], "")
            for base in self.external_bases
        }
        if not kinds - {""}:
            # A base we cannot see: names are all there is, as for LlamaPreTrainedModel.
            for base in self.external_bases:
                last = base.rpartition(".")[2]
                if last.endswith("PreTrainedModel"):
                    return "pretrained"
                if last.endswith("Config"):
                    return "config"
        for kind in ("pretrained", "config", "module"):
            if kind in kinds:
                return kind
        return ""

    @property
    def is_module(self) -> bool:
        """Is it known to be an ``nn.Module``?"""
        return self.kind in ("module", "pretrained")

    @cached_property
    def self_assignments(self) -> Mapping[str, tuple[ast.stmt, ast.expr | None]]:
        """``self.name = value`` anywhere in ``__init__`` of this class and its ancestors.

        The statement and value of the nearest class's last such assignment; the value is None
        for a tuple target.
        """
        found: dict[str, tuple[ast.stmt, ast.expr | None]] = {}
        for info in reversed(self.mro):
            init = info.methods.get("__init__")
            if init is None:
                continue
            first = init.args.args[0].arg if init.args.args else "self"
            for node in ast.walk(init):
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        _note_targets(found, node, target, node.value, first)
                elif isinstance(node, ast.AnnAssign) and node.value is not None:
                    _note_targets(found, node, node.target, node.value, first)
        return found


def _note_targets(
    found: dict[str, tuple[ast.stmt, ast.expr | None]],
    statement: ast.stmt,
    target: ast.expr,
    value: ast.expr | None,
    self_name: str,
) -> None:
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            _note_targets(found, statement, element, None, self_name)
    elif is_self_attribute(target, self_name):
        assert isinstance(target, ast.Attribute)
        found[target.attr] = (statement, value)


@dataclass(frozen=True, eq=False)
class FileIndex:
    """One parsed file in a project."""

    source: SourceFile
    project: ProjectIndex

    @property
    def path(self) -> str:
        """The file's path as it was named."""
        return self.source.path

    @cached_property
    def _top_level(self) -> tuple[ast.stmt, ...]:
        return tuple(_statements(self.source.tree.body))

    @cached_property
    def classes(self) -> Mapping[str, ClassInfo]:
        """Classes by name; of two with one name, the last."""
        return {
            node.name: ClassInfo(node.name, node, self)
            for node in self._top_level
            if isinstance(node, ast.ClassDef)
        }

    @cached_property
    def functions(self) -> Mapping[str, FunctionNode]:
        """Module-level functions by name."""
        return {node.name: node for node in self._top_level if isinstance(node, FunctionNode)}

    @cached_property
    def assignments(self) -> Mapping[str, ast.expr]:
        """Module-level ``NAME = value``, and ``A, B = 1, 2``."""
        found: dict[str, ast.expr] = {}
        for node in self._top_level:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found[target.id] = node.value
                    elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                        for name, value in zip(target.elts, node.value.elts, strict=False):
                            if isinstance(name, ast.Name):
                                found[name.id] = value
            elif (
                isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
            ):
                found[node.target.id] = node.value
        return found

    @cached_property
    def imports(self) -> Mapping[str, str]:
        """Local name to what it stands for: "torch.nn", "transformers.PreTrainedModel".

        Relative imports keep their dots: "..llama.modeling_llama.LlamaMLP".
        """
        found: dict[str, str] = {}
        for node in self._top_level:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        found[alias.asname] = alias.name
                    else:
                        top = alias.name.partition(".")[0]
                        found[top] = top
            elif isinstance(node, ast.ImportFrom):
                prefix = "." * node.level + (node.module or "")
                joint = "" if prefix.endswith(".") or not prefix else "."
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{prefix}{joint}{alias.name}"
        return found

    def qualify(self, dotted: str) -> str:
        """The full dotted name of an expression in this file: "nn.Linear" to "torch.nn.Linear".

        A name this file neither imports nor defines comes back as it is.
        """
        head, dot, rest = dotted.partition(".")
        target = self.imports.get(head)
        return f"{target}{dot}{rest}" if target is not None else dotted

    def resolve(self, dotted: str) -> ClassInfo | str:
        """The class a dotted name stands for, or its full dotted name when no file defines it."""
        if not dotted:
            return ""
        if dotted in self.classes:
            return self.classes[dotted]
        full = self.qualify(dotted)
        last = full.rpartition(".")[2]
        if full.startswith(".") and last not in MODULE_NAMES:
            other = self.project.sibling(self, full)
            if other is not None and other is not self:
                found = other.resolve(last)
                if isinstance(found, ClassInfo):
                    return found
        return full


class ProjectIndex:
    """All the files that belong together; siblings are parsed when first asked for."""

    def __init__(self) -> None:
        self._files: dict[Path, FileIndex | None] = {}
        self.unreadable: list[UnreadableFile] = []

    def add(self, source: SourceFile) -> FileIndex:
        """Index a file that was read already."""
        index = FileIndex(source, self)
        self._files[Path(source.path).absolute()] = index
        return index

    def sibling(self, file: FileIndex, relative: str) -> FileIndex | None:
        """The file behind a relative import such as ".configuration_x.XConfig"."""
        level = len(relative) - len(relative.lstrip("."))
        if level > 2:
            return None  # the package's own machinery, not another model
        folder = Path(file.path).absolute().parent
        for _ in range(level - 1):
            folder = folder.parent
        parts = relative[level:].split(".")
        for length in (len(parts) - 1, len(parts)):
            if length <= 0:
                continue
            path = folder.joinpath(*parts[:length]).with_suffix(".py")
            found = self._load(path, Path(file.path).parent)
            if found is not None:
                return found
        return None

    def _load(self, path: Path, beside: Path) -> FileIndex | None:
        if path not in self._files:
            self._files[path] = None
            if path.is_file():
                try:
                    self._files[path] = FileIndex(read_source(path), self)
                except UnreadableFile as error:
                    self.unreadable.append(error)
        return self._files[path]

    def __iter__(self) -> Iterator[FileIndex]:
        return (f for f in list(self._files.values()) if f is not None)


@dataclass(frozen=True)
class Signature:
    """The parameters of a forward as a caller sees them (without self)."""

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    var_positional: str | None
    var_keyword: str | None
    required: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, function: FunctionNode) -> Signature:
        """Read it off a method."""
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1:]
        with_default = len(arguments.defaults)
        keyword_required = [
            a.arg
            for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is None
        ]
        return cls(
            positional=tuple(names),
            keyword_only=tuple(a.arg for a in arguments.kwonlyargs),
            var_positional=arguments.vararg.arg if arguments.vararg else None,
            var_keyword=arguments.kwarg.arg if arguments.kwarg else None,
            required=tuple(names[: len(names) - with_default] + keyword_required),
        )

    def accepts(self, name: str) -> bool:
        """May a caller pass ``name=``?"""
        return name in self.positional or name in self.keyword_only or self.var_keyword is not None

    def names(self, name: str) -> bool:
        """Is ``name`` written in the signature?"""
        return name in self.positional or name in self.keyword_only


def dotted_name(node: ast.AST) -> str:
    """ "a.b.c" for a chain of names, else ""."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return ".".join([node.id, *reversed(parts)])
    return ""


def is_self_attribute(node: ast.AST, self_name: str = "self") -> bool:
    """Is it ``self.<name>``?"""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == self_name
    )


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, those in ``if``/``try``/``with`` included, in order."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements(node.body)
            yield from _statements(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _statements(node.body)
            for handler in node.handlers:
                yield from _statements(handler.body)
            yield from _statements(node.orelse)
            yield from _statements(node.finalbody)
        elif isinstance(node, ast.With):
            yield from _statements(node.body)
        else:
            yield node
