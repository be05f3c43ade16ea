"""The AST tracer: the graph of a forward by interpreting its source, without torch."""

from __future__ import annotations

import ast
from typing import Any

from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Undecided
from modelcheck.graph.base import LoopExit, Raised
from modelcheck.graph.core import Graph
from modelcheck.graph.interpreter import Interpreter
from modelcheck.graph.recorder import Recorder
from modelcheck.graph.symbolic import decide
from modelcheck.graph.values import (
    MAYBE,
    NONE,
    Instance,
    Module,
    Parameter,
    Stop,
    SuperValue,
    tensor,
)
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name

HIDDEN_STATES = "hidden_states"
# Decorators of transformers that document a function and give it back as it is.
PLAIN_DECORATORS = frozenset(
    {"auto_docstring", "add_start_docstrings_to_model_forward", "replace_return_docstrings"}
)
# Those whose wrapper asks for args[0]: of a forward with *args or **kwargs, torch.fx hands it the
# module itself in place of ``args``, or cannot make up its arguments at all (ValueError from
# CPython's code objects).
STOPPING_DECORATORS = frozenset({"deprecate_kwarg"})
HIDDEN_RANK = 3  # [1, tokens, width]


def trace_instance(instance: Instance, contract: Contract) -> Graph:
    """Interpret an instance's forward under the current oracle."""
    found = find_forward(instance.info)
    if found is None:
        return Graph((), "there is no forward in the scanned files")
    owner, forward = found
    recorder = Recorder(contract, owner.file.path)
    interpreter = Interpreter(contract, recorder)
    names = _placeholders(instance, owner, forward, recorder)
    stopped, line = "", None
    try:
        _check_decorators(forward)
        value = interpreter.run_function(forward, owner.file, names, owner, 0)
        recorder.add("output", "output", (value,), {}, None, MAYBE)
    except Stop as error:
        stopped, line = error.reason, error.line
    except Raised:
        stopped = "forward raises"
    except Undecided as error:
        recorder.doubtful(error.reason, None)
        recorder.doubt_line = recorder.doubt_line or error.line
        stopped, line = error.reason, error.line
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, LoopExit) as error:
        recorder.doubtful(f"forward cannot be followed: {error}", None)
        stopped = recorder.doubt
    return recorder.graph(stopped, line)


def _check_decorators(forward: FunctionNode) -> None:
    """torch.fx gives ``*args`` and ``**kwargs`` to a wrapper in a way that breaks most of them.

    Raises `Stop` in the evaluations where it does.
    """
    arguments = forward.args
    if not (arguments.vararg or arguments.kwarg or arguments.kwonlyargs):
        return
    for decorator in forward.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = dotted_name(called).rpartition(".")[2] or "?"
        several = forward.args.vararg or forward.args.kwarg
        if name in PLAIN_DECORATORS or (name in STOPPING_DECORATORS and not several):
            continue
        if name in STOPPING_DECORATORS or not decide(f"forward can be traced below @{name}"):
            raise Stop(f"forward cannot be traced below @{name}", decorator.lineno)


def find_forward(info: ClassInfo) -> tuple[ClassInfo, FunctionNode] | None:
    """The forward an instance runs: a method, or ``forward = Other.forward``."""
    for current in info.mro:
        if "forward" in current.methods:
            return current, current.methods["forward"]
        value = current.attributes.get("forward")
        if value is not None:
            other = current.file.resolve(dotted_name(value).rpartition(".")[0])
            return find_forward(other) if isinstance(other, ClassInfo) else None
    return None


def _placeholders(
    instance: Instance,
    owner: ClassInfo,
    forward: FunctionNode,
    recorder: Recorder,
) -> dict[str, Any]:
    arguments = forward.args
    names: dict[str, Any] = {"__class__": SuperValue(instance, owner)}
    fixed = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    if fixed:
        names[fixed[0]] = instance
    parameters = [*fixed[1:], *(a.arg for a in arguments.kwonlyargs)]
    known = has_width(instance)
    for name in parameters:
        meta = tensor(HIDDEN_RANK) if name == HIDDEN_STATES and known else NONE
        node = recorder.add("placeholder", name, (), {}, forward, meta)
        concrete = name == "past_key_values" and recorder.contract.meta_execution
        names[name] = None if concrete else node
    if arguments.vararg is not None:
        names[arguments.vararg.arg] = recorder.add(
            "placeholder", f"*{arguments.vararg.arg}", (), {}, forward, NONE
        )
    if arguments.kwarg is not None:
        node = recorder.add("placeholder", f"**{arguments.kwarg.arg}", (), {}, forward, NONE)
        recorder.keywords = node
        names[arguments.kwarg.arg] = node
    return names


def has_width(instance: Instance) -> bool:
    """vLLM makes up an input only where a Linear or a 1-D or 2-D parameter gives the width."""
    owned = any(isinstance(v, Parameter | Module) for v in instance.attributes.values())
    return owned or bool(instance.unknown)
