"""Which classes may take a fuser at all, by the words of their source: told without interpreting.

Everything a fuser looks for is a word somewhere in what a forward or a constructor runs. A class
without any of them takes none, whatever its configuration; the prediction leaves it out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from modelcheck.source.attention import INTERFACE
from modelcheck.source.bodies import Body, body, self_name
from modelcheck.source.classes import ClassInfo, FileIndex, dotted_name
from modelcheck.source.memory import remembered

LINEAR = "Linear"
MANY = 3
NORM = frozenset(("mean", "rms_norm", "norm"))  # contract 2.11, and the spellings it misses
PRODUCTS = frozenset(("mul", "mul_", "multiply"))
CUTS = frozenset(("split", "chunk", "unbind", "getitem"))
EXPERTS = "experts"
ADDED = frozenset(("add_module", "register_module", "setattr"))
BY_CONFIG = frozenset(("from_config", "_from_config"))
_LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)

_Code = tuple[FileIndex, ast.AST, str]  # what may run, where, and its name for the object itself


@dataclass(frozen=True)
class Parts:
    """What the source of a class holds: ``linears`` is how many at most, `MANY` for any number."""

    linears: int
    norm: bool
    product: bool
    cut: bool
    experts: bool
    attention: bool

    def allows(self, fuser: str) -> bool:
        """May an instance take this fuser, or nearly? False only where it cannot.

        A module with children is traced only when two of them are Linears.
        """
        match fuser:
            case "RMSNorm":
                return self.norm
            case "MoEBlock":
                return self.experts
            case "Attention":
                return self.attention
            case "GLU":
                return self.linears > 1 and self.product
            case "QKV":
                return self.linears >= MANY
            case "PackedQKV":
                return self.linears > 1 and self.cut
            case _:
                return self.linears > 1

    @property
    def anything(self) -> bool:
        """May it take any fuser at all?"""
        return self.linears > 1 or self.norm or self.experts or self.attention


def may_fuse(info: ClassInfo) -> bool:
    """May an instance of the class take a fuser? False only where none can match."""
    return parts_of(info).anything


@remembered(maxsize=512)
def parts_of(info: ClassInfo) -> Parts:
    """Everything a fuser could match in what a class's methods run."""
    words: set[str] = set()
    own: set[str] = set()
    linears, product, cut = 0, False, False
    for code, direct in _reached(info):
        facts = _facts(*code)
        words |= facts.words
        if direct:
            own |= body(code[0], code[1]).identifiers
        linears += MANY if facts.linears and not direct else facts.linears
        product |= facts.product
        cut |= facts.cut
    if not ADDED.isdisjoint(words | own) or _builds_what_it_is_given(info):
        linears, own = MANY, own | {EXPERTS}
    return Parts(
        linears=linears,
        norm=not words.isdisjoint(NORM),
        product=product or not words.isdisjoint(PRODUCTS),
        cut=cut or not words.isdisjoint(CUTS),
        experts=EXPERTS in own,
        attention=INTERFACE in words,
    )


@dataclass(frozen=True)
class _Facts:
    """What one piece of code says: ``behind`` is the code that its names stand for."""

    words: frozenset[str]
    linears: int
    product: bool
    cut: bool
    behind: tuple[_Code, ...]


@remembered(maxsize=4096)
def _facts(file: FileIndex, part: ast.AST, first: str) -> _Facts:
    nodes = body(file, part)
    used = nodes.foreign(first)
    names = used & _module_names(file)
    aliases = {name: _aliases(file, name) for name in names}
    linear = {name for name, others in aliases.items() if LINEAR in others} | {LINEAR}
    return _Facts(
        words=frozenset(used).union(*aliases.values()),
        linears=0 if used.isdisjoint(linear) else _linears(nodes, linear),
        product=ast.Mult in nodes.operators,
        cut=ast.Subscript in nodes.kinds,
        behind=tuple(behind for name in names for behind in _behind(file, name)),
    )


def _linears(nodes: Body, named: set[str]) -> int:
    """How often a piece of code names a Linear; any number where it may be run repeatedly."""
    if not nodes.kinds.isdisjoint(_LOOPS):
        return MANY
    return sum(map(nodes.words.count, named))


def _reached(info: ClassInfo) -> Iterator[tuple[_Code, bool]]:
    """What a method of the class may run, and whether it is one of its own methods."""
    pending: list[tuple[_Code, bool]] = []
    for owner in info.mro:
        values = [v for v in owner.attributes.values() if not isinstance(v, ast.Constant)]
        pending += [((owner.file, value, ""), False) for value in values]
        pending += [((owner.file, f, self_name(f)), True) for f in owner.methods.values()]
    seen: set[ast.AST] = set()
    while pending:
        code, direct = pending.pop()
        if code[1] in seen:
            continue
        seen.add(code[1])
        yield code, direct
        pending += [(behind, False) for behind in _facts(*code).behind]


@remembered(maxsize=16)
def leading(file: FileIndex) -> frozenset[str]:
    """The classes of a file that may construct, directly or not, one that may take a fuser."""
    uses = {name: _used(file, parts) for name, parts in _definitions(file).items()}
    users: dict[str, set[str]] = {}
    for name, used in uses.items():
        for word in used if used.isdisjoint(BY_CONFIG) else uses:
            users.setdefault(word, set()).add(name)
    # A model that nothing in the file mentions is no part of another, and left out anyway.
    parts = [i for i in file.classes.values() if i.kind != "pretrained" or i.name in users]
    pending = [info.name for info in parts if may_fuse(info)]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += users.get(name, ())
    return frozenset(found)


def _definitions(file: FileIndex) -> Mapping[str, list[ast.AST]]:
    """What a file defines by name, with what it consists of; a class inherits from its bases."""
    found: dict[str, list[ast.AST]] = {name: [value] for name, value in file.assignments.items()}
    found |= {name: [function] for name, function in file.functions.items()}
    for name, info in file.classes.items():
        parts: list[ast.AST] = [*info.methods.values(), *info.attributes.values()]
        found[name] = [*parts, *info.node.bases]
    return found


def _used(file: FileIndex, parts: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset().union(*(_words(file, part) for part in parts))


def _words(file: FileIndex, part: ast.AST) -> Iterable[str]:
    """Every name and attribute in a piece of code, most of which are a base or a constant."""
    if isinstance(part, ast.Constant):
        return ()
    dotted = dotted_name(part)
    return dotted.split(".") if dotted else body(file, part).identifiers


def _functions(info: ClassInfo) -> Iterator[tuple[ClassInfo, ast.FunctionDef]]:
    for owner in info.mro:
        for function in owner.methods.values():
            yield owner, function  # type: ignore[misc]


def _builds_what_it_is_given(info: ClassInfo) -> bool:
    """Is a child made by a parameter of the constructor, or a parameter itself?"""
    called = {n for o, f in _functions(info) for n in body(o.file, f).called()}
    for owner in info.mro:
        init = owner.methods.get("__init__")
        if init is None:
            continue
        arguments = init.args
        given = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        if any(
            isinstance(c.func, ast.Name) and c.func.id in given
            for _, c in body(owner.file, init).calls
        ):
            return True
    return any(
        isinstance(value, ast.Name) and name in called
        for name, (_, value) in info.self_assignments.items()
    )


@remembered(maxsize=16)
def _module_names(file: FileIndex) -> frozenset[str]:
    return frozenset((*file.imports, *file.classes, *file.functions, *file.assignments))


@remembered(maxsize=512)
def _aliases(file: FileIndex, name: str) -> frozenset[str]:
    """What else a name stands for: what is imported under it, a Linear that it derives from."""
    found = set()
    if name in file.imports:
        found.add(file.imports[name].rpartition(".")[2])
    if name in file.imports or name in file.classes:
        target = file.resolve(name)
        if isinstance(target, ClassInfo) and any(
            base.rpartition(".")[2] == LINEAR for base in target.external_bases
        ):
            found.add(LINEAR)
    return frozenset(found)


@remembered(maxsize=512)
def _behind(file: FileIndex, name: str) -> tuple[_Code, ...]:
    """The code that a module-level name stands for; nothing for a submodule's class."""
    if name in file.functions:
        return ((file, file.functions[name], ""),)
    if name in file.assignments:
        return ((file, file.assignments[name], ""),)
    if name in file.classes or name in file.imports:
        target = file.resolve(name)
        if isinstance(target, ClassInfo):
            if target.is_module:
                return ()
            return tuple((c.file, f, self_name(f)) for c in target.mro for f in c.methods.values())
        if name in file.imports:
            full = file.imports[name]
            other = file.project.sibling(file, full)
            last = full.rpartition(".")[2]
            if other is not None and other is not file and last in other.functions:
                return ((other, other.functions[last], ""),)
    return ()
