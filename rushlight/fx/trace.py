"""Tracing: a function or module runs on proxies, which note what is done to them."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any

import rushlight as torch
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, map_arg
from rushlight.overrides import TorchFunctionMode
from rushlight.overrides.dispatch import turn_on


class TraceError(ValueError):
    """The program asks for something that is known only when it runs."""


class Proxy:
    """Stands for a value of the program while it is traced."""

    def __init__(self, node: Node, tracer: Tracer | None = None) -> None:
        self.node, self.tracer = node, tracer or Tracer()

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.call("call_method", "__call__", (self, *args), kwargs)

    def __bool__(self) -> bool:
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def __iter__(self) -> Iterator[Any]:
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument."
        )

    def __len__(self) -> int:
        raise RuntimeError("'len' is not supported in symbolic tracing by default.")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        found: list[Proxy] = []
        _find((args, kwargs or {}), found)
        tracer = found[0].tracer
        if any(func is method for method in vars(torch.Tensor).values()):
            return tracer.call("call_method", func.__name__, args, kwargs or {})
        return tracer.call("call_function", func, args, kwargs or {})


def _find(value: Any, found: list[Proxy]) -> None:
    if isinstance(value, Proxy):
        found.append(value)
    elif isinstance(value, list | tuple):
        for item in value:
            _find(item, found)
    elif isinstance(value, dict):
        _find(list(value.values()), found)


class Attribute(Proxy):
    """`proxy.name`: a method when it is called, else an attribute."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            made = self.tracer.call("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.call("call_method", self.attr, (self.root, *args), kwargs)


def _operator(function: Callable[..., Any], turned: bool = False) -> Callable[..., Any]:
    def method(self: Proxy, *args: Any) -> Any:
        given = (*args, self) if turned else (self, *args)
        return self.tracer.call("call_function", function, given, {})

    return method


for (
    _name
) in """add sub mul truediv floordiv mod pow matmul and or xor lshift rshift getitem eq ne lt
le gt ge neg abs invert pos""".split():
    _function = getattr(operator, {"and": "and_", "or": "or_"}.get(_name, _name))
    setattr(Proxy, f"__{_name}__", _operator(_function))
    if _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
        setattr(Proxy, f"__r{_name}__", _operator(_function, turned=True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


class _ToProxies(TorchFunctionMode):
    """Functions of torch that are given a proxy are noted."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        found: list[Proxy] = []
        _find((args, kwargs or {}), found)
        if found:
            return Proxy.__torch_function__(func, types, args, kwargs)
        return func(*args, **(kwargs or {}))


class Tracer:
    """Makes graphs. `is_leaf_module` says which modules stay one call."""

    def __init__(self, autowrap_modules: Any = (), autowrap_functions: Any = ()) -> None:
        turn_on()  # a proxy is no tensor: all public functions must ask its class
        self.graph = Graph()
        self.root: Any = None
        self._paths: dict[int, str] = {}
        self._attributes: dict[int, Node] = {}

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """torch's own layers, except containers."""
        own = type(m).__module__.startswith(("rushlight.nn", "torch.nn"))
        return own and not isinstance(m, torch.nn.Sequential)

    def path_of_module(self, mod: Any) -> str:
        if id(mod) not in self._paths:
            raise NameError("module is not installed as a submodule")
        return self._paths[id(mod)]

    def call(self, op: str, target: Any, args: Any, kwargs: Any) -> Proxy:
        """Note a call; gives its proxy."""
        made = self.graph.create_node(op, target, self.create_arg(tuple(args)),
                                      self.create_arg(dict(kwargs)))  # fmt: skip
        return Proxy(made, self)

    def create_arg(self, a: Any) -> Any:
        """The argument with nodes for proxies, parameters and tensors."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, list | tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, dict):
            return {key: self.create_arg(item) for key, item in a.items()}
        if isinstance(a, slice):
            return slice(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, torch.Tensor):
            return self._attribute(a)
        return a

    def _attribute(self, tensor: Any) -> Node:
        """The node that reads a tensor of the module."""
        if id(tensor) not in self._attributes:
            everything = [*self.root.named_parameters(), *self.root.named_buffers()]
            name = next((n for n, value in everything if value is tensor), "")
            if not name:
                name = f"_tensor_constant{len(self._attributes)}"
                self.root.register_buffer(name, tensor, persistent=False)
            self._attributes[id(tensor)] = self.graph.get_attr(name)
        return self._attributes[id(tensor)]

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function. Arguments in `concrete_args` have these values."""
        is_module = isinstance(root, torch.nn.Module)
        self.graph = Graph()
        self.root = root if is_module else torch.nn.Module()
        self._paths = {id(m): name for name, m in self.root.named_modules()}
        function = type(root).forward if is_module else root
        given, keywords = self._inputs(function, is_module, concrete_args or {})
        call = torch.nn.Module.__call__
        torch.nn.Module.__call__ = self._module_call(call)  # type: ignore[method-assign]
        try:
            with _ToProxies():
                result = function(*([root, *given] if is_module else given), **keywords)
        finally:
            torch.nn.Module.__call__ = call  # type: ignore[method-assign]
        self.graph.output(self.create_arg(result))
        return self.graph

    def _inputs(
        self, function: Any, is_module: bool, concrete: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        given: list[Any] = []
        keywords: dict[str, Any] = {}
        params = list(inspect.signature(function).parameters.values())[is_module:]
        for p in params:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                continue
            if p.name in concrete:
                value = concrete[p.name]
            else:
                default = ... if p.default is p.empty else p.default
                value = Proxy(self.graph.placeholder(p.name, default_value=default), self)
            if p.kind is p.KEYWORD_ONLY:
                keywords[p.name] = value
            else:
                given.append(value)
        return given, keywords

    def _module_call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        tracer = self

        def traced(module: Any, *args: Any, **kwargs: Any) -> Any:
            found: list[Proxy] = []
            _find((args, kwargs), found)
            path = tracer._paths.get(id(module))
            if found and path and tracer.is_leaf_module(module, path):
                return tracer.call("call_module", path, args, kwargs)
            return module.forward(*args, **kwargs) if found else call(module, *args, **kwargs)

        return traced


class GraphAppendingTracer(Tracer):
    """What is done with proxies of this tracer is added to a graph that is written by hand."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph, self.root = graph, torch.nn.Module()


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> Any:
    """The module or function as a GraphModule, whose graph can be read and changed.

    >>> import rushlight as torch
    >>> g = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> [node.name for node in g.graph.nodes], g(torch.tensor([-1.0]))
    (['x', 'relu', 'add', 'output'], tensor([1.]))
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, torch.nn.Module) else root.__name__
    module = torch.fx.GraphModule(tracer.root, graph, name)
    return module


__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "Proxy",
    "TraceError",
    "Tracer",
    "map_arg",
    "symbolic_trace",
]
