"""The class index: what a file defines and imports, and inheritance across files.

Files are found by their imports, beside the file and in the installed transformers, and parsed
when a name is first needed; nothing is imported or executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from modelcheck.errors import UnreadableFile
from modelcheck.source import installed
from modelcheck.source.syntax import FunctionNode as FunctionNode
from modelcheck.source.syntax import Signature as Signature
from modelcheck.source.syntax import dotted_name as dotted_name
from modelcheck.source.syntax import is_self_attribute as is_self_attribute
from modelcheck.source.syntax import statements
from modelcheck.source.text import SourceFile, read_source
from modelcheck.source.tree import nodes_of

LIBRARY_FILES = 48  # of transformers, kept parsed: some 5 MB each

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


_ASSIGNMENTS = frozenset((ast.Assign, ast.AnnAssign))


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
            item.name: item for item in statements(self.node.body) if isinstance(item, FunctionNode)
        }

    @cached_property
    def attributes(self) -> Mapping[str, ast.expr]:
        """Class-level assignments ``name = value``."""
        found: dict[str, ast.expr] = {}
        for item in statements(self.node.body):
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
        for item in statements(self.node.body):
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
            parents = [current.file.parent(current, base) for base in current.bases]
            stack.extend(p for p in reversed(parents) if isinstance(p, ClassInfo))
        return tuple(seen.values())

    @cached_property
    def external_bases(self) -> tuple[str, ...]:
        """Fully dotted names of ancestors that no scanned file defines."""
        names: list[str] = []
        for info in self.mro:
            for base in info.bases:
                target = info.file.parent(info, base)
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
    def constructors(self) -> tuple[tuple[ClassInfo, FunctionNode], ...]:
        """The ``__init__`` of this class and of its ancestors, nearest first.

        Without those that one skips by calling a class further up: ``nn.Module.__init__(self)``.
        """
        found: list[tuple[ClassInfo, FunctionNode]] = []
        beyond: ClassInfo | str | None = None
        for info in self.mro:
            if beyond not in (None, info) or "__init__" not in info.methods:
                continue
            init = info.methods["__init__"]
            found.append((info, init))
            beyond = _constructor_called(info.file, init)
        return tuple(found)

    @cached_property
    def self_assignments(self) -> Mapping[str, tuple[ast.stmt, ast.expr | None]]:
        """``self.name = value`` anywhere in ``__init__`` of this class and its ancestors.

        The statement and value of the nearest class's last such assignment; the value is None
        for a tuple target.
        """
        found: dict[str, tuple[ast.stmt, ast.expr | None]] = {}
        for _, init in reversed(self.constructors):
            first = init.args.args[0].arg if init.args.args else "self"
            for node in nodes_of(init):
                if node.__class__ not in _ASSIGNMENTS:
                    continue
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        _note_targets(found, node, target, node.value, first)
                elif isinstance(node, ast.AnnAssign) and node.value is not None:
                    _note_targets(found, node, node.target, node.value, first)
        return found


def _constructor_called(file: FileIndex, init: FunctionNode) -> ClassInfo | str | None:
    """The class whose constructor one calls by name, None where it (also) calls super()'s."""
    if not file.names_constructors:
        return None
    called = [
        node.func.value
        for node in nodes_of(init)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "__init__"
    ]
    names = {dotted_name(each) for each in called}
    return file.resolve(names.pop()) or None if len(names) == 1 else None


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
    def location(self) -> Path:
        """Its absolute path."""
        return Path(self.path).absolute()

    @cached_property
    def tree(self) -> Path | None:
        """The root of the transformers tree that it lies in, None for any other file."""
        return installed.tree_of(self.location)

    @cached_property
    def _top_level(self) -> tuple[ast.stmt, ...]:
        return tuple(statements(self.source.tree.body))

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
    def names_constructors(self) -> bool:
        """Is a constructor called by its class's name, as in ``nn.Module.__init__(self)``?"""
        text = self.source.text
        return text.count(".__init__(") > text.count(").__init__(")

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

    def release(self) -> None:
        """Let go of everything: nothing can be asked of this file or its classes any more.

        They refer to each other, and so does what was found out about them; without this it
        takes Python's collector to find them, among all the nodes of their trees.
        """
        for info in self.__dict__.get("classes", {}).values():
            info.__dict__.clear()
        self.__dict__.clear()

    def qualify(self, dotted: str) -> str:
        """The full dotted name of an expression in this file: "nn.Linear" to "torch.nn.Linear".

        A name this file neither imports nor defines comes back as it is.
        """
        head, dot, rest = dotted.partition(".")
        target = self.imports.get(head)
        return f"{target}{dot}{rest}" if target is not None else dotted

    def resolve(self, dotted: str) -> ClassInfo | str:
        """The class a dotted name stands for, or its full dotted name when no file defines it."""
        known = self._resolved.get(dotted)
        if known is None:
            self._resolved[dotted] = self.qualify(dotted)  # ends a circle of imports
            known = self._resolved[dotted] = self._resolve(dotted)
        return known

    def parent(self, info: ClassInfo, dotted: str) -> ClassInfo | str:
        """What a class of this file inherits under a name: `resolve`, as of the class statement.

        ``class PreTrainedModel(PreTrainedModel)`` derives from what is imported under its name.
        """
        own = self.classes.get(dotted)
        if own is not None and own.node.lineno >= info.node.lineno and dotted in self.imports:
            return self._beyond(dotted)
        return self.resolve(dotted)

    @cached_property
    def _resolved(self) -> dict[str, ClassInfo | str]:
        return {}

    def _resolve(self, dotted: str) -> ClassInfo | str:
        if not dotted:
            return ""
        return self.classes[dotted] if dotted in self.classes else self._beyond(dotted)

    def _beyond(self, dotted: str) -> ClassInfo | str:
        """What an imported name stands for."""
        full = self.qualify(dotted)
        last = full.rpartition(".")[2]
        if last not in MODULE_NAMES:
            other = self.project.sibling(self, full)
            if other is not None and other is not self:
                found = other.resolve(last)
                if isinstance(found, ClassInfo):
                    return found
        return full


class ProjectIndex:
    """All the files that belong together; siblings are parsed when first asked for.

    ``transformers`` is the folder of the package in which names of transformers are looked up,
    the installed one without it. Its files are parsed once for all projects and never checked.
    """

    def __init__(self, transformers: Path | None = None) -> None:
        self._files: dict[str, FileIndex | None] = {}  # by absolute path
        self._siblings: dict[tuple[str, str], FileIndex | None] = {}
        self._transformers = transformers
        self.unreadable: list[UnreadableFile] = []

    def add(self, source: SourceFile) -> FileIndex:
        """Index a file that was read already."""
        index = FileIndex(source, self)
        self._files[str(index.location)] = index
        return index

    def sibling(self, file: FileIndex, name: str) -> FileIndex | None:
        """The file behind an import: ".configuration_x.XConfig", or of a model of transformers.

        None for what no file shows, and for the machinery of transformers itself.
        """
        key = (file.path, name)
        if key not in self._siblings:
            self._siblings[key] = self._sibling(file, name)
        return self._siblings[key]

    def _sibling(self, file: FileIndex, name: str) -> FileIndex | None:
        level = len(name) - len(name.lstrip("."))
        if level == 0 and not name.startswith(f"{installed.PACKAGE}."):
            return None
        if level != 1:
            if level == 0:
                root = self._transformers or file.tree or installed.installed_root()
                return _from_library(root, name)
            if file.tree is not None:
                return _from_library(file.tree, installed.absolute_name(file.location, name))
            if level > 2:
                return None
        folder = file.location.parents[level - 1]
        parts = name[level:].split(".")
        for length in (len(parts) - 1, len(parts)):
            if length > 0:
                found = self.load(folder.joinpath(*parts[:length]).with_suffix(".py"))
                if found is not None:
                    return found
        return None

    def load(self, path: Path | None) -> FileIndex | None:
        """The file with this absolute path, parsed at most once; None for one that is none."""
        if path is None:
            return None
        name = str(path)
        if name not in self._files:
            self._files[name] = None
            if path.is_file():
                try:
                    self._files[name] = FileIndex(read_source(path), self)
                except UnreadableFile as error:
                    self.unreadable.append(error)
        return self._files[name]

    def __iter__(self) -> Iterator[FileIndex]:
        return (f for f in list(self._files.values()) if f is not None)


class _Library(ProjectIndex):
    """The files of one transformers tree, the latest few of them kept."""

    def sibling(self, file: FileIndex, name: str) -> FileIndex | None:
        return self._sibling(file, name)  # what is remembered is kept

    def load(self, path: Path | None) -> FileIndex | None:
        found = super().load(path)
        if path is not None:
            self._files[str(path)] = self._files.pop(str(path))  # the latest is last
        while len(self._files) > LIBRARY_FILES:
            del self._files[next(iter(self._files))]
        return found


@lru_cache(maxsize=4)
def _library(root: Path) -> _Library:
    return _Library(root)


def _from_library(root: Path | None, name: str) -> FileIndex | None:
    return _library(root).load(installed.locate(root, name)) if root is not None else None


def forget_libraries() -> None:
    """A file has changed on disk: read what is inherited from transformers again."""
    _library.cache_clear()
    installed.forget()
