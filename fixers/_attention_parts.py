"""Where a forward computes attention: the statements, their names, and what they rest on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from fixers._attention_eval import (
    KERNEL,
    Evaluator,
    Facts,
    Kind,
    NotUnderstood,
    Value,
    is_check,
)
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

KERNELS = re.compile(
    r"scaled_dot_product_attention|_?flash_attn\w*|_?flash_attention\w*|_upad_input"
    r"|memory_efficient_attention|flex_attention\w*"
)
REPEATS = frozenset(("repeat_kv", "repeat_interleave", "repeat", "expand", "tile", "broadcast_to"))
PRODUCTS = frozenset(("matmul", "bmm", "baddbmm", "einsum"))


@dataclass(frozen=True)
class Names:
    """The locals that hold query, keys and values where attention begins."""

    query: str
    key: str
    value: str

    def env(self) -> dict[str, Value]:
        """Their values."""
        return {
            self.query: Value(Kind.QUERY),
            self.key: Value(Kind.KEY),
            self.value: Value(Kind.VALUE),
        }


@dataclass(frozen=True)
class Block:
    """Statements of a function's body, or of one branch of an ``if`` in that body."""

    statements: tuple[ast.stmt, ...]
    branch_of: ast.If | None = None
    in_else: bool = False


@dataclass
class Region:
    """Statements of one block that compute attention and nothing else.

    ``moved`` go to the eager function, ``copied`` go there and stay, ``dropped`` only check
    shapes; what is between them stays. ``out`` and ``weights`` are the names of the results.
    """

    block: Block
    names: Names
    facts: Facts
    moved: list[ast.stmt] = field(default_factory=list)
    copied: list[ast.stmt] = field(default_factory=list)
    dropped: list[ast.stmt] = field(default_factory=list)
    end: int = 0  # index in the block of the first statement after it
    out: str = ""
    transposed: bool = False  # is ``out`` [batch, length, heads, width] already?
    weights: str = ""  # "" when nothing reads them
    returned: str = "None"  # what the eager function returns as weights
    masks: list[str] = field(default_factory=list)
    head_masks: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)  # other locals that are read


def pair(
    block: Sequence[cst.CSTNode], statements: Sequence[ast.stmt]
) -> dict[ast.stmt, cst.CSTNode]:
    """The libcst statement of each ``ast`` statement, inside ``if`` too."""
    if len(block) != len(statements):
        raise NotUnderstood("two statements share a line", statements[0] if statements else None)
    found: dict[ast.stmt, cst.CSTNode] = {}
    for node, statement in zip(block, statements, strict=True):
        if isinstance(node, cst.SimpleStatementLine) and len(node.body) != 1:
            raise NotUnderstood("two statements share a line", statement)
        found[statement] = node
        if isinstance(node, cst.If) and isinstance(statement, ast.If):
            found |= pair(node.body.body, statement.body)
            if isinstance(node.orelse, cst.Else):
                found |= pair(node.orelse.body.body, statement.orelse)
            elif node.orelse is not None:
                found |= pair([node.orelse], statement.orelse)
    return found


def parameters(function: FunctionNode) -> list[str]:
    """Names of all parameters but ``*`` and ``**``."""
    arguments = function.args
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def local_names(function: FunctionNode) -> frozenset[str]:
    """Parameters, and every name that is assigned."""
    stored = {
        n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    extra = {a.arg for a in (function.args.vararg, function.args.kwarg) if a is not None}
    return frozenset(stored | extra | set(parameters(function)))


def mask_values(function: FunctionNode) -> dict[str, Value]:
    """The parameters that hold a mask, and locals that are nothing but (a slice of) one."""
    found = {
        name: Value(Kind.HEAD_MASK if "head_mask" in name else Kind.MASK)
        for name in parameters(function)
        if "mask" in name
    }
    stored: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        stored.setdefault(part.id, []).append(node.value)
    for name, values in stored.items():
        sources = {_sliced(v) for v in values} - {name}
        if len(sources) == 1 and (source := sources.pop()) in found:
            found[name] = found[source]
        elif sources and name in found:
            del found[name]  # it becomes something else
    return found


def _sliced(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def callee(node: ast.AST) -> str:
    """The last name of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    return dotted_name(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")


def has_softmax(node: ast.AST) -> bool:
    """Is softmax called in it?"""
    return any(callee(n) in ("softmax", "Softmax") for n in ast.walk(node))


def kernel_calls(node: ast.AST) -> list[ast.AST]:
    """Calls of attention kernels in it."""
    return [n for n in ast.walk(node) if KERNELS.fullmatch(callee(n))]


def _product(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The operands of a matrix product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    name = callee(node)
    if name not in PRODUCTS:
        return None
    assert isinstance(node, ast.Call)
    if name in ("baddbmm", "einsum"):
        return (node.args[1], node.args[2]) if len(node.args) == 3 else None
    if len(node.args) == 2:
        return node.args[0], node.args[1]
    if len(node.args) == 1 and isinstance(node.func, ast.Attribute):
        return node.func.value, node.args[0]
    return None


def _base(node: ast.expr) -> str:
    """The local behind ``x.to(...)``, ``repeat_kv(x, n)``, ``x * s``."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inner = node.func.value
            known = dotted_name(node.func)
            node = node.args[0] if known.startswith(("torch.", "F.")) and node.args else inner
        elif isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        elif isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Attribute) and node.attr == "mT":
            node = node.value
        else:
            return node.id if isinstance(node, ast.Name) else ""


def _products(statement: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    nodes = [n for n in ast.walk(statement) if isinstance(n, ast.expr)]
    for node in sorted(nodes, key=lambda n: (n.lineno, n.col_offset)):
        found = _product(node)
        if found is not None:
            yield found


def blocks(statements: Sequence[ast.stmt]) -> Iterator[Block]:
    """The body and the branches of each ``if`` in it."""
    yield Block(tuple(statements))
    for statement in statements:
        if isinstance(statement, ast.If):
            yield Block(tuple(statement.body), statement)
            if statement.orelse and not isinstance(statement.orelse[0], ast.If):
                yield Block(tuple(statement.orelse), statement, True)


def core_of(block: Block) -> tuple[int, Names] | None:
    """Where in a block the scores are computed, and from what; None if they are not."""
    start: tuple[int, str, str] | None = None
    softmax = False
    for index, statement in enumerate(block.statements):
        products = list(_products(statement))
        simple = not isinstance(statement, ast.If | ast.For | ast.While)
        if start is None and products and simple:
            names = [_base(operand) for operand in products[0]]
            following = block.statements[index:]
            if all(names) and any(has_softmax(s) for s in following):
                start = (index, names[0], names[1])
                products = products[1:]
        softmax = softmax or (start is not None and has_softmax(statement))
        if start is not None and softmax and products:
            value = _base(products[-1][1])
            if value:
                return start[0], Names(start[1], start[2], value)
    return None


def kernel_of(block: Block, info: ClassInfo) -> tuple[int, Names] | None:
    """Where in a block torch's own kernel is called, and with what."""
    for index, statement in enumerate(block.statements):
        if isinstance(statement, ast.If | ast.For | ast.While):
            continue
        for node in kernel_calls(statement):
            assert isinstance(node, ast.Call)
            if info.file.qualify(dotted_name(node.func)) != KERNEL:
                continue
            keywords = {k.arg: k.value for k in node.keywords}
            given = [*node.args[:3]]
            given += [keywords[n] for n in ("query", "key", "value")[len(given) :] if n in keywords]
            names = [_base(g) for g in given]
            if len(names) == 3 and all(names):
                return index, Names(*names)
    return None


def read_region(
    info: ClassInfo, function: FunctionNode, block: Block, at: int, names: Names
) -> Region:
    """What the block computes from the scores to the output. Raises `NotUnderstood`."""
    masks = mask_values(function)
    local = local_names(function)
    env = masks | names.env()
    tuples = tuples_of(function)
    held = {name: value for name, (_, value) in tuples.items()}
    start = _start(info, block, at, env, names, local, held)
    ev = Evaluator(info, env, local.__contains__, tuples=held)
    region = Region(block, names, ev.facts)
    plain: list[ast.stmt] = []
    index = start
    for index in range(start, len(block.statements)):
        statement = block.statements[index]
        done = _output(ev.env)
        if is_check(statement) and not (done and index + 1 == len(block.statements)):
            if done and not _reads(statement) & _result_names(ev.env):
                break
            region.dropped.append(statement)
            continue
        if done:
            if not _goes_on(ev, statement, done):
                break
            region.moved.append(statement)
            continue
        if _is_independent(statement, ev.env):
            before = dict(ev.env)
            try:
                ev.step(statement)
            except NotUnderstood:
                ev.env = before
            else:
                plain.append(statement)
                region.moved.append(statement)
            continue
        ev.step(statement)
        region.moved.append(statement)
    else:
        index = len(block.statements)
    region.end = index
    out = _output(ev.env)
    if not out:
        raise NotUnderstood("the product of weights and values is not found", block.statements[at])
    region.out = out
    region.transposed = ev.env[out].kind is Kind.OUTPUT_T
    if ev.env[out].rank != 4:
        raise NotUnderstood("batch and heads are one dimension here", block.statements[at])
    check_groups(ev.facts, block.statements[at])
    _settle(function, region, ev, plain)
    return region


def check_groups(facts: Facts, node: ast.AST) -> None:
    """Raise `NotUnderstood` unless keys and values are repeated alike, or not at all."""
    if len(facts.repeated) == 1:
        kind = next(iter(facts.repeated)).value
        raise NotUnderstood(f"only {kind} is shown to be repeated for its group", node)


def _start(
    info: ClassInfo,
    block: Block,
    at: int,
    env: Mapping[str, Value],
    names: Names,
    local: frozenset[str],
    tuples: Mapping[str, ast.Tuple],
) -> int:
    """The first of the statements before the scores that only prepare query, keys and values."""
    wanted = {names.query, names.key, names.value}
    start = at
    for index in range(at - 1, -1, -1):
        statement = block.statements[index]
        ev = Evaluator(info, env, local.__contains__, tuples=tuples)
        stored = _stores(statement)
        try:
            ev.step(statement)
        except NotUnderstood:
            break
        if is_check(statement) or (not stored & wanted and not isinstance(statement, ast.Assign)):
            break
        if stored & wanted:
            if any(ev.env[n].kind is Kind.PLAIN for n in stored & wanted):
                break
            start = index
    start = _with_plain(info, block, start, env, local)
    for statement in block.statements[:start]:
        for node in ast.walk(statement):
            if callee(node) in REPEATS and _base_of_call(node) in wanted:
                raise NotUnderstood("keys are repeated in another way, or cached repeated", node)
    return start


def _with_plain(
    info: ClassInfo, block: Block, start: int, env: Mapping[str, Value], local: frozenset[str]
) -> int:
    """The start with the numbers just above it that the region reads."""
    while start:
        statement = block.statements[start - 1]
        read = {name for s in block.statements[start:] for name in _reads(s)}
        if not isinstance(statement, ast.Assign) or not _stores(statement) & read:
            break
        ev = Evaluator(info, env, local.__contains__)
        try:
            ev.step(statement)
        except NotUnderstood:
            break
        if any(ev.env[n].kind is not Kind.PLAIN for n in _stores(statement)) or any(
            isinstance(n, ast.Call) and not kernel_calls(n) and _is_costly(n)
            for n in ast.walk(statement)
        ):
            break
        start -= 1
    return start


def _is_costly(call: ast.Call) -> bool:
    """Is it anything but a size?"""
    return callee(call) not in ("size", "int", "max", "min")


def _base_of_call(node: ast.AST) -> str:
    return _base(node) if isinstance(node, ast.expr) else ""


def _reads(node: ast.AST) -> set[str]:
    return {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)
    } | {
        n.target.id
        for n in ast.walk(node)
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }


def _stores(node: ast.AST) -> set[str]:
    return {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _output(env: Mapping[str, Value]) -> str:
    kinds = (Kind.OUTPUT, Kind.OUTPUT_T)
    return next((name for name, value in env.items() if value.kind in kinds), "")


def _result_names(env: Mapping[str, Value]) -> set[str]:
    kinds = (Kind.OUTPUT, Kind.OUTPUT_T, Kind.WEIGHTS, Kind.SCORES)
    return {name for name, value in env.items() if value.kind in kinds}


def _goes_on(ev: Evaluator, statement: ast.stmt, out: str) -> bool:
    """Does the statement only bring the output into another form?"""
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == out:
            before = dict(ev.env)
            try:
                found = ev.eval(value)
            except NotUnderstood:
                ev.env = before
                return False
            if found.kind in (Kind.OUTPUT, Kind.OUTPUT_T):
                ev.env[out] = found
                return True
    return False


def _is_independent(statement: ast.stmt, env: Mapping[str, Value]) -> bool:
    """Does it leave the tensors of attention alone, but for their shapes?"""
    tensors = {n for n, v in env.items() if v.kind not in (Kind.PLAIN, Kind.LOWEST)}
    if _stores(statement) & tensors or not isinstance(statement, ast.Assign | ast.Expr | ast.If):
        return False
    results = {n for n, v in env.items() if v.kind in (Kind.SCORES, Kind.WEIGHTS)}
    names = [_base(o) for operands in _products(statement) for o in operands]
    return not _reads(statement) & results and not names and not kernel_calls(statement)


def _settle(
    function: FunctionNode, region: Region, ev: Evaluator, plain: Sequence[ast.stmt]
) -> None:
    """Which plain statements move, what is read from outside, and what is read later."""
    after = later_reads(function, region)
    for statement in reversed(plain):
        later = region.moved[region.moved.index(statement) + 1 :]
        used = {name for other in later for name in _reads(other)}
        if not _stores(statement) & used:
            region.moved.remove(statement)
        elif _stores(statement) & after:
            region.copied.append(statement)
    _take_tuples(function, region)
    free = _free(region.moved, set()) & local_names(function)
    masks, names = mask_values(function), region.names
    for name in sorted(free - {names.query, names.key, names.value, "self"}):
        kind = masks[name].kind if name in masks else Kind.PLAIN
        where = {Kind.MASK: region.masks, Kind.HEAD_MASK: region.head_masks}
        if kind is Kind.PLAIN and name in parameters(function) and _cuts_mask(region, masks, name):
            region.head_masks.append(name)  # handed on beside the mask
            continue
        where.get(kind, region.free).append(name)
    weights = (Kind.WEIGHTS, Kind.SCORES)
    written = {n for s in region.moved if s not in region.copied for n in _stores(s)}
    results = sorted(n for n in written & after if n != region.out)
    wrong = [n for n in results if ev.env[n].kind not in weights] or results[1:]
    if wrong:
        raise NotUnderstood(f"{wrong[0]} is read again after attention", region.moved[-1])
    region.weights = results[0] if results else ""
    known = [n for n, v in ev.env.items() if v.kind is Kind.WEIGHTS]
    region.returned = region.weights or (known[-1] if known else "None")


def _cuts_mask(region: Region, masks: Mapping[str, Value], name: str) -> bool:
    """Is a name read only to index a mask, and to see whether it is None?"""
    inside: set[ast.AST] = set()
    for statement in region.moved:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and _sliced(node) in masks:
                inside |= set(ast.walk(node.slice))
            if isinstance(node, ast.Compare) and isinstance(node.comparators[0], ast.Constant):
                inside |= set(ast.walk(node.left))
    reads = [n for s in region.moved for n in ast.walk(s) if isinstance(n, ast.Name)]
    return all(n in inside for n in reads if n.id == name)


def tuples_of(function: FunctionNode) -> dict[str, tuple[ast.stmt, ast.Tuple]]:
    """The locals that are assigned once, and a tuple."""
    found: dict[str, tuple[ast.stmt, ast.Tuple]] = {}
    stored = [n for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name)]
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple() as value):
                found[name] = (statement, value)
    counts = [n.id for n in stored if isinstance(n.ctx, ast.Store)]
    return {name: pair for name, pair in found.items() if counts.count(name) == 1}


def _take_tuples(function: FunctionNode, region: Region) -> None:
    """Move the shapes that the region reads and that are made before it."""
    for name, (statement, _) in tuples_of(function).items():
        if statement in region.moved or name not in _free(region.moved, set()):
            continue
        outside = [s for s in function.body if s not in region.moved and s is not statement]
        region.moved.insert(0, statement)
        if any(name in _reads(s) for s in outside):
            region.copied.append(statement)


def _free(statements: Sequence[ast.stmt], stored: set[str]) -> set[str]:
    """Names that are read before these statements assign them; ``stored`` grows."""
    free: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.If):
            free |= _reads(statement.test) - stored
            other = set(stored)
            free |= _free(statement.body, stored)
            free |= _free(statement.orelse, other)
            stored |= other
        elif isinstance(statement, ast.With):
            free |= {n for item in statement.items for n in _reads(item)} - stored
            free |= _free(statement.body, stored)
        else:
            free |= _reads(statement) - stored
            stored |= _stores(statement)
    return free


def later_statements(function: FunctionNode, region: Region) -> list[ast.stmt]:
    """The statements that run after the region."""
    block = region.block
    rest = list(block.statements[region.end :])
    if block.branch_of is not None:
        place = function.body.index(block.branch_of)
        rest += function.body[place + 1 :]
    return rest


def later_reads(function: FunctionNode, region: Region) -> set[str]:
    """Names that are read after the region before they are written, as far as lines show."""
    read: set[str] = set()
    written: set[str] = set()
    for statement in later_statements(function, region):
        read |= _reads(statement) - written
        if isinstance(statement, ast.Assign):
            written |= _stores(statement)
    return read
