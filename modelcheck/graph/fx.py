"""The torch.fx tracer: a module on the meta device to a `Graph`.

Reproduces how vLLM (0.27 to 0.33) looks at a forward: every child is one node, each
operation is also run on meta tensors so that questions about shapes have answers where
``hidden_states`` is the input, ``past_key_values`` is None, ``**kwargs`` is empty, the
attention interface is opaque, and a trace that cannot go on is kept as far as it came.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch import fx, nn
from torch.nn import functional

from modelcheck.fusers.contract import Contract
from modelcheck.graph.core import Graph, Node

HIDDEN_STATES = "hidden_states"  # the only input whose shape vLLM makes up
SEQUENCE = 8  # the length it makes up
_NOT_KNOWN = object()
_REAL_CALL = nn.Module.__call__
_REAL_GETATTR = nn.Module.__getattr__


class _Value(fx.Proxy):  # type: ignore[misc]
    """A proxy that remembers what its expression gives on meta tensors, where that is known."""

    known: Any = _NOT_KNOWN

    def __len__(self) -> int:
        if self.known is _NOT_KNOWN:
            raise RuntimeError("the length of a value of unknown shape was asked for")
        return len(self.known)

    def __getattr__(self, name: str) -> fx.Proxy:
        return _AttributeValue(self, name)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self.tracer.contract.item_assignment:
            raise TypeError("item assignment on a traced value")
        self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})


class _AttributeValue(_Value, fx.proxy.Attribute):  # type: ignore[misc]
    """``x.shape``: recorded only when it is used other than as a method call."""

    def __init__(self, root: fx.Proxy, attr: str) -> None:
        super().__init__(root, attr)
        inner = root.__dict__.get("known", _NOT_KNOWN)
        executes = root.tracer.contract.meta_execution
        if inner is not _NOT_KNOWN and (executes or attr == "shape"):
            with contextlib.suppress(Exception):
                self.known = getattr(inner, attr)

    def __len__(self) -> int:
        # Up to 0.26 an attribute is torch.fx's own proxy, which has no length: `f(*x.shape)`
        # asks for one and ends the trace, `f(*x.shape[:-1])` does not.
        if not self.tracer.contract.meta_execution:
            raise RuntimeError("the length of a shape was asked for")
        return super().__len__()


class _Tracer(fx.Tracer):  # type: ignore[misc]
    def __init__(self, contract: Contract, keywords: str | None, file: str | None) -> None:
        super().__init__()
        self.contract = contract
        self.keywords = keywords
        self.file = file
        self.lines: dict[fx.Node, int] = {}
        self.opaque: set[fx.Node] = set()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Value(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **options: Any
    ) -> Any:
        value = super().create_proxy(kind, target, args, kwargs, *rest, **options)
        if isinstance(value, _Value):
            line = _line_of(sys._getframe(1), self.file)
            if line is not None:
                self.lines.setdefault(value.node, line)
            if value.known is _NOT_KNOWN:
                with contextlib.suppress(Exception):
                    value.known = self._run(kind, target, args, kwargs)
        return value

    def iter(self, obj: fx.Proxy) -> Iterator[Any]:
        node = obj.node
        if self.contract.meta_execution and (
            self._is_keywords(node)
            or (
                node.op == "call_method"
                and node.target == "keys"
                and self._is_keywords(node.args[0])
            )
        ):
            return iter(())
        known = obj.__dict__.get("known", _NOT_KNOWN)
        if known is _NOT_KNOWN:
            return super().iter(obj)  # type: ignore[no-any-return]
        return iter([obj[i] for i in range(len(known))])

    def _is_keywords(self, node: Any) -> bool:
        return (
            isinstance(node, fx.Node)
            and node.op == "placeholder"
            and str(node.target).lstrip("*") == self.keywords
        )

    @contextlib.contextmanager
    def _unrecorded(self) -> Iterator[None]:
        """fx records module calls and parameter reads while it traces; these are no part of it.

        Before 0.33 vLLM leaves the reads recorded.
        """
        with contextlib.ExitStack() as patches:
            patches.enter_context(mock.patch.object(nn.Module, "__call__", _REAL_CALL))
            if self.contract.parameters_known:
                patches.enter_context(mock.patch.object(nn.Module, "__getattr__", _REAL_GETATTR))
            yield

    def _run(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        """The operation's result on meta tensors, `_NOT_KNOWN` where an input is not known."""
        if kind == "placeholder":
            if str(target) != HIDDEN_STATES:
                return _NOT_KNOWN
            if not self.contract.meta_execution:  # only its rank is known, but always
                return torch.empty(1, SEQUENCE, 1, device="meta")
            return _made_up_input(self.root)
        if kind == "get_attr":
            if not self.contract.parameters_known:
                return _NOT_KNOWN
            with self._unrecorded():
                value = operator.attrgetter(str(target))(self.root)
            if isinstance(value, torch.Tensor):
                return torch.empty_like(value, device="meta")
            return value
        if not self.contract.meta_execution and not _is_shape_read(kind, target, args):
            return _NOT_KNOWN
        known_args, known_kwargs = fx.node.map_aggregate((args, kwargs), _known_or_raise)
        if kind == "call_function":
            return target(*known_args, **known_kwargs)
        if kind == "call_method":
            return getattr(known_args[0], str(target))(*known_args[1:], **known_kwargs)
        if kind == "call_module":
            child = self.root.get_submodule(str(target))
            state = {
                name: torch.empty_like(tensor, device="meta")
                for name, tensor in [*child.named_parameters(), *child.named_buffers()]
            }
            with self._unrecorded():
                return torch.func.functional_call(child, state, known_args, known_kwargs)
        return _NOT_KNOWN


class _InputNotKnown(Exception):
    pass


def _known_or_raise(value: Any) -> Any:
    if isinstance(value, fx.Proxy):
        known = value.__dict__.get("known", _NOT_KNOWN)
        if known is _NOT_KNOWN:
            raise _InputNotKnown
        return known
    return value


def _is_shape_read(kind: str, target: Any, args: Any) -> bool:
    """Up to 0.26 only ``hidden_states.shape`` and what is cut from it has a length."""
    if kind == "call_function" and target is getattr:
        return bool(args[1] == "shape")
    return kind == "call_function" and target is operator.getitem


def _made_up_input(root: nn.Module) -> Any:
    """[1, 8, width]: the width of the first Linear, else of the first 1-D or 2-D parameter."""
    for module in root.modules():
        if isinstance(module, nn.Linear):
            weight = module.weight
            break
    else:
        weight = next((p for p in root.parameters() if p.ndim in (1, 2)), None)
        if weight is None:
            return _NOT_KNOWN
    return torch.empty(1, SEQUENCE, weight.shape[-1], dtype=weight.dtype, device="meta")


def _line_of(frame: FrameType | None, file: str | None) -> int | None:
    """The line of the traced forward's file that asked for an operation."""
    while frame is not None and file is not None:
        if frame.f_code.co_filename == file:
            return frame.f_lineno
        frame = frame.f_back
    return None


def _file_of(module: nn.Module) -> str | None:
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code.co_filename if code is not None else None


def _opaque_interface() -> Any:
    """Patch ``ALL_ATTENTION_FUNCTIONS.get_interface`` so that its result is one opaque node."""
    from transformers.modeling_utils import AttentionInterface

    original = AttentionInterface.get_interface

    def get_interface(self: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        function = original(self, *args, **kwargs)

        def interface(*inputs: Any, **options: Any) -> Any:
            traced = tuple(value for value in inputs if isinstance(value, fx.Proxy))
            if not traced:
                return function(*inputs, **options)
            tracer = traced[0].tracer
            value = tracer.create_proxy("call_function", function, traced, {})
            tracer.opaque.add(value.node)
            value.known = (_NOT_KNOWN, _NOT_KNOWN)  # (attention output, weights)
            return value

        return interface

    return mock.patch.object(AttentionInterface, "get_interface", get_interface)


def trace_module(module: nn.Module, contract: Contract) -> Graph:
    """Trace ``module.forward`` as the release does; never raises for what the forward does.

    ``module`` may be on the meta device; its ``training`` flag is left as it is (vLLM looks at
    models in training mode).
    """
    try:
        parameters = dict(inspect.signature(type(module).forward).parameters)
    except (TypeError, ValueError):
        parameters = {}
    keywords = next(
        (p.name for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD), None
    )
    concrete = (
        {"past_key_values": None}
        if contract.meta_execution and "past_key_values" in parameters
        else None
    )
    file = _file_of(module)
    tracer = _Tracer(contract, keywords, file)
    stopped, line = "", None
    interface = _opaque_interface() if contract.interface_leaf else contextlib.nullcontext()
    try:
        with interface:
            graph = tracer.trace(module, concrete_args=concrete)
    except Exception as error:
        stopped = _explain_stop(error)
        line = _stop_line(error, file)
        graph = getattr(tracer, "graph", None)
    return _convert(graph, tracer, stopped, line)


def _explain_stop(error: Exception) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "symbolically traced variables cannot be used as inputs to control flow" in text:
        return "a branch depends on the value of an input"
    if "Proxy object cannot be iterated" in text or "unknown shape" in text:
        return (
            "the length of a shape is needed, and only an input named hidden_states has a "
            "known shape"
        )
    return text


def _stop_line(error: Exception, file: str | None) -> int | None:
    line = None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _convert(graph: fx.Graph | None, tracer: _Tracer, stopped: str, line: int | None) -> Graph:
    nodes: dict[fx.Node, Node] = {}

    def value_of(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return nodes[value]
        if isinstance(value, tuple):
            return tuple(value_of(v) for v in value)
        if isinstance(value, list):
            return [value_of(v) for v in value]
        if isinstance(value, dict):
            return {k: value_of(v) for k, v in value.items()}
        if isinstance(value, slice):
            return slice(value_of(value.start), value_of(value.stop), value_of(value.step))
        if isinstance(value, torch.dtype):
            return str(value)
        return value

    for node in graph.nodes if graph is not None else ():
        nodes[node] = Node(
            op=node.op,
            name=node.name,
            target=_function_name(node.target) if node.op == "call_function" else str(node.target),
            args=value_of(tuple(node.args)),
            kwargs=value_of(dict(node.kwargs)),
            line=tracer.lines.get(node),
            leaf=node in tracer.opaque,
        )
    return Graph(tuple(nodes.values()), stopped, line)


_HOMES = (
    ("torch", torch),
    ("torch.nn.functional", functional),
    ("operator", operator),
)


def _function_name(function: Any) -> str:
    """The public dotted name a function is found under."""
    name = getattr(function, "__name__", type(function).__name__)
    for home, module in _HOMES:
        if getattr(module, name, None) is function:
            return f"{home}.{name}"
    for home, module in _HOMES:  # torch.nn.functional.silu is known by another __name__
        for public in dir(module):
            if getattr(module, public, None) is function:
                return f"{home}.{public}"
    return f"{getattr(function, '__module__', '') or ''}.{name}".lstrip(".")
