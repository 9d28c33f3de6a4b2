"""A call of a module, noted as a graph: each call of a public function becomes a node.

Always true: a tensor that no node made is a placeholder (input, parameter, buffer) or a constant
that the module holds; in-place calls are nodes like others, in the order in which they ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import rushlight as torch
from rushlight.export.signature import InputKind, InputSpec
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.overrides import TorchFunctionMode, is_tensor_method_or_property
from rushlight.overrides.dispatch import Overridable

# They give a value to Python, which may decide by it what runs.
READERS = frozenset("item tolist numpy __bool__ __int__ __float__ __index__ __array__".split())
READERS |= frozenset(("is_nonzero", "equal", "allclose"))


class Recorder(TorchFunctionMode):
    """graph: what was noted; specs: the inputs so far; constants: tensors by their name."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self.specs: list[InputSpec] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.nodes: dict[int, Node] = {}
        self.kept: list[Any] = []  # a tensor's id is its own while it lives

    def add_input(self, kind: InputKind, name: str, value: Any, **more: Any) -> None:
        """The next input of the graph."""
        node = self.graph.placeholder(name)
        node.meta["val"] = value
        self.specs.append(InputSpec(kind, node.name, **more))
        if isinstance(value, torch.Tensor):
            self._know(value, node)

    def _know(self, value: torch.Tensor, node: Node) -> None:
        self.nodes[id(value)] = node
        self.kept.append(value)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in READERS:
            raise RuntimeError(
                f"Could not guard on data-dependent expression: {name}() of a tensor is asked for "
                "while the module is exported. A program that depends on values has no one graph"
            )
        result = func(*args, **kwargs)
        leaves = torch.utils._pytree.tree_leaves(result)
        gives = any(isinstance(leaf, torch.Tensor) for leaf in leaves)
        if name == "__get__" and gives:
            self._note(getattr, "getattr", (args[0], _property_name(func)), {}, result)
        elif gives or result is None:  # None: an assignment; sizes and the like are no calls
            self._note(func, name, args, kwargs, result)
        return result

    def _note(self, func: Any, name: str, args: tuple, kwargs: dict, result: Any) -> None:
        given, named = self._names(args), self._names(kwargs)
        if is_tensor_method_or_property(func):
            node = self.graph.call_method(name, given, named)
        else:
            node = self.graph.call_function(func, given, named)
        self._know_results(result, node)

    def _know_results(self, result: Any, node: Node) -> None:
        node.meta["val"] = result
        if isinstance(result, torch.Tensor):
            self._know(result, node)
        elif isinstance(result, tuple | list):
            for number, item in enumerate(result):
                if isinstance(item, torch.Tensor | tuple | list):
                    import_item = self.graph.call_function(nth_item, (node, number))
                    self._know_results(item, import_item)

    def _names(self, value: Any) -> Any:
        """The same structure with nodes in the place of tensors."""
        return torch.utils._pytree.tree_map_only(torch.Tensor, self.name_of, value)

    def name_of(self, value: torch.Tensor) -> Node:
        """The node that made a tensor; one that nothing made is a constant from now on."""
        if id(value) not in self.nodes:
            if not value._value().leaf:
                raise RuntimeError(
                    "export: a tensor was computed by a function that could not be noted: call "
                    "torch's functions as torch.NAME or torch.nn.functional.NAME, and no other "
                    "library's"
                )
            name = f"c_{len(self.constants)}"
            self.constants[name] = value
            self._know(value, self.graph.get_attr(name))
        return self.nodes[id(value)]


@contextmanager
def functions_noted(mod: torch.nn.Module) -> Iterator[None]:
    """Inside a mode: functions of torch that modules keep (`activation=F.relu`) are noted too."""
    spaces = (vars(torch), vars(torch.nn.functional))
    public = {f.__wrapped__: f for space in spaces for f in space.values()
              if isinstance(f, Overridable)}  # fmt: skip
    changed = []
    for part in mod.modules():
        for kind in (*reversed(type(part).__mro__), part):
            for name, value in list(vars(kind).items()):
                function = value.__func__ if isinstance(value, staticmethod) else value
                if isinstance(function, FunctionType) and function in public:
                    changed.append((vars(part), name, vars(part).get(name)))
                    vars(part)[name] = public[function]
    try:
        yield
    finally:
        for place, name, value in reversed(changed):
            place.pop(name) if value is None else place.update({name: value})


def nth_item(values: Any, number: int) -> Any:
    return values[number]


def _property_name(getter: Any) -> str:
    owner = getter.__self__
    return next(n for n, v in vars(torch.Tensor).items() if v is owner)
