"""Give an attention ``self.config`` or ``self.layer_idx``.

The index is followed from the list of layers through the constructors down to the attention:
where one of them has no parameter for it, or does not pass it on, it gets one.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice, parameters
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import callee_name, nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

CONFIG, INDEX = "config", "layer_idx"
KNOWN = (INDEX, "layer_index", "layer_id", "layer_number", "layer_num", "idx", "index")


def fix(text: str, finding: Finding) -> str:
    """``text`` with the attribute. Raises `FixRefused`."""
    doc = document(text, finding)
    splice = Splice(doc)
    info = doc.class_info(finding.class_name)
    attribute = finding.fix.data.get("attribute", "") if finding.fix else ""
    init = _init(splice, info)
    if attribute == CONFIG:
        if CONFIG not in {p.arg for p in parameters(init)}:
            raise splice.refuse(f"{info.name} is not given the config", init)
        value = CONFIG
    elif attribute == INDEX:
        value = _Path(splice).parameter(info)
    else:
        raise FixRefused(f"nothing is known about {attribute!r}", finding.span.line)
    if any(_sets(n, attribute) for n in nodes_of(init)):
        raise splice.refuse(f"self.{attribute} is assigned already", init)
    splice.after(_super_call(splice, init), f"self.{attribute} = {value}")
    return splice.text()


def _sets(node: ast.AST, attribute: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == attribute
        and isinstance(node.ctx, ast.Store)
    )


def _init(splice: Splice, info: ClassInfo) -> FunctionNode:
    init = info.methods.get("__init__")
    if init is None:
        raise splice.refuse(f"{info.name} has no __init__ of its own", info.node)
    return init


def _super_call(splice: Splice, init: FunctionNode) -> ast.stmt:
    for statement in init.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and callee_name(call) == "__init__":
            return statement
    raise splice.refuse("the constructor does not call super().__init__()", init)


def with_config(text: str, finding: Finding, name: str) -> str:
    """``text`` with the configuration given to a class wherever it is built.

    The class keeps it as ``self.config``. Raises `FixRefused`.
    """
    doc = document(text, finding)
    splice = Splice(doc)
    info = doc.class_info(name)
    init = _init(splice, info)
    given = CONFIG in {p.arg for p in parameters(init)}
    value = _ConfigPath(splice).parameter(info)
    if not any(_sets(n, CONFIG) for n in nodes_of(init)):
        splice.after(_super_call(splice, init), f"self.{CONFIG} = {value}")
    elif not given:
        raise splice.refuse(f"self.{CONFIG} is something else", init)
    return splice.text()


class _Path:
    """The way of the index from the list of layers to a class."""

    names: tuple[str, ...] = KNOWN
    what = "the index of the layer"

    def __init__(self, splice: Splice) -> None:
        self.splice = splice
        self.file = splice.doc.index
        self.known: dict[str, str] = {}

    def parameter(self, info: ClassInfo) -> str:
        """The constructor's parameter that holds the index, after the edits."""
        if info.name in self.known:
            return self.known[info.name]
        init = _init(self.splice, info)
        given = [p.arg for p in parameters(init) if p.arg in self.names]
        name = given[0] if given else self.names[0]
        self.known[info.name] = name
        built = [n for n in nodes_of(self.splice.tree) if self._builds(n, info)]
        if not built:
            raise self.splice.refuse(f"{info.name} is built nowhere in this file", info.node)
        if not given:
            self._add_parameter(init, name)
        for call in built:
            assert isinstance(call, ast.Call)
            self._pass(call, init, name, given=bool(given))
        return name

    def _builds(self, node: ast.AST, info: ClassInfo) -> bool:
        if not isinstance(node, ast.Call):
            return False
        target = self.file.resolve(dotted_name(node.func))
        if not isinstance(target, ClassInfo) or info not in target.mro:
            return False
        if target is not info and "__init__" in target.methods:
            reason = f"{target.name} has a constructor of its own"
            raise self.splice.refuse(reason, target.methods["__init__"])
        return True

    def _add_parameter(self, init: FunctionNode, name: str) -> None:
        arguments = init.args
        if arguments.kwonlyargs or arguments.vararg or arguments.posonlyargs:
            raise self.splice.refuse("the parameters of the constructor are not plain", init)
        last: ast.arg | ast.expr = parameters(init)[-1]
        if arguments.defaults:
            last = arguments.defaults[-1]
        first = parameters(init)[0]
        gap = self._gap(first, parameters(init)[-1])
        self.splice.insert(self.splice.span(last)[1], f"{gap}{name}=None")

    def _gap(self, first: ast.arg | ast.expr, last: ast.arg | ast.expr) -> str:
        """What stands between two items: a new line, where each has one of its own."""
        lines = last.lineno != first.lineno
        return f",{self.splice.newline}{' ' * last.col_offset}" if lines else ", "

    def _pass(self, call: ast.Call, init: FunctionNode, name: str, *, given: bool) -> None:
        value = self._value_at(call)
        if any(isinstance(a, ast.Starred) for a in call.args) or None in {
            k.arg for k in call.keywords
        }:
            raise self.splice.refuse("the arguments are passed on as a whole", call)
        place = [p.arg for p in parameters(init)].index(name) - 1 if given else len(call.args)
        passed = [k.value for k in call.keywords if k.arg == name]
        passed += call.args[place : place + 1]
        if passed:
            if dotted_name(passed[0]) != value:
                raise self.splice.refuse(f"{name} is not {self.what}", call)
            return
        last = [*call.args, *(k.value for k in call.keywords)]
        if not last:
            raise self.splice.refuse("the constructor is called without arguments", call)
        end = max(self.splice.span(each)[1] for each in last)
        starts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        gap = ", "
        if starts[-1].lineno != starts[0].lineno:
            gap = f",{self.splice.newline}{' ' * starts[-1].col_offset}"
        self.splice.insert(end, f"{gap}{name}={value}")

    def _value_at(self, call: ast.Call) -> str:
        """The name of the index where a call is: a loop's, or that of the class around it."""
        for node in self.splice.ancestors(call):
            if isinstance(node, ast.ListComp | ast.GeneratorExp):
                loop = node.generators[0]
                if len(node.generators) == 1:
                    return self._counter(call, loop.target, loop.iter)
                raise self.splice.refuse("the layers are built in two loops", call)
            if isinstance(node, ast.For):
                return self._counter(call, node.target, node.iter)
            if isinstance(node, ast.FunctionDef):
                owner = self.splice.parent(node)
                info = self.file.classes.get(getattr(owner, "name", ""))
                if node.name != "__init__" or info is None or info.node is not owner:
                    break
                return self.parameter(info)
        raise self.splice.refuse("it is not built in a list of layers", call)

    def _counter(self, call: ast.Call, target: ast.expr, iterable: ast.expr) -> str:
        called = dotted_name(iterable.func) if isinstance(iterable, ast.Call) else ""
        assert not isinstance(target, ast.Starred)
        if called == "enumerate" and isinstance(target, ast.Tuple):
            target = target.elts[0]
        elif called != "range" or len(getattr(iterable, "args", ())) != 1:
            raise self.splice.refuse("the layers are not counted from 0", call)
        if not isinstance(target, ast.Name):
            raise self.splice.refuse("the layers are not counted by one name", call)
        if target.id == "_":
            self.splice.replace(target, INDEX)
            return INDEX
        return target.id


class _ConfigPath(_Path):
    """The way of the configuration to a class."""

    names = (CONFIG,)
    what = "the configuration of the model"

    def _value_at(self, call: ast.Call) -> str:
        """The configuration where a call is: that of the constructor around it."""
        function = self.splice.function_of(call)
        owner = self.splice.parent(function) if function is not None else None
        info = self.file.classes.get(getattr(owner, "name", ""))
        if function is None or info is None or info.node is not owner:
            raise self.splice.refuse("it is not built in a constructor", call)
        if function.name != "__init__":
            return f"self.{CONFIG}"
        known = {p.arg for p in parameters(function)}
        if CONFIG in known and not any(
            isinstance(n, ast.Name) and n.id == CONFIG and isinstance(n.ctx, ast.Store)
            for n in nodes_of(function)
        ):
            return CONFIG
        return self.parameter(info)
