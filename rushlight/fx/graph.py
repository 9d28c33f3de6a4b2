"""A traced program as a list of nodes, which can be changed, run and read as Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.fx.node import Node, map_arg


class Graph:
    """Nodes in the order in which they run: placeholders first, the output last."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._names: dict[str, int] = {}
        self._before: Node | None = None  # where new nodes go; None: at the end

    @property
    def nodes(self) -> list[Node]:
        """A copy of the list, so that a loop over it may change the graph."""
        return list(self._nodes)

    def create_node(
        self, op: str, target: Any, args: tuple | None = None, kwargs: dict | None = None,
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A new node where nodes are put now."""
        wanted = name or (target if isinstance(target, str) else getattr(
            target, "__name__", "node"))  # fmt: skip
        node = Node(self, self._own_name(wanted), op, target, args or (), kwargs or {})
        node.type = type_expr
        at = len(self._nodes) if self._before is None else self._nodes.index(self._before)
        self._nodes.insert(at, node)
        return node

    def _own_name(self, wanted: str) -> str:
        base = re.sub(r"\W", "_", wanted).strip("_").lower() or "node"
        base = f"_{base}" if base[0].isdigit() else base
        count = self._names.get(base)
        self._names[base] = 0 if count is None else count + 1
        return base if count is None else self._own_name(f"{base}_{count + 1}")

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: tuple | None = None,
        kwargs: dict | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        return self.create_node("call_function", the_function, args, kwargs)

    def call_method(
        self, method_name: str, args: tuple | None = None, kwargs: dict | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        return self.create_node("call_method", method_name, args, kwargs)

    def call_module(
        self, module_name: str, args: tuple | None = None, kwargs: dict | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        return self.create_node("call_module", module_name, args, kwargs)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        return self.create_node("output", "output", (result,))

    def output_node(self) -> Node:
        return next(node for node in reversed(self._nodes) if node.op == "output")

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        return [n for n in self._nodes if n.op == op and target in (None, n.target)]

    @contextmanager
    def _inserting(self, before: Node | None) -> Iterator[None]:
        old, self._before = self._before, before
        try:
            yield
        finally:
            self._before = old

    def inserting_before(self, n: Node | None = None) -> Any:
        """Inside, new nodes go before this one; None: to the front."""
        return self._inserting(n if n is not None else (self._nodes or [None])[0])

    def inserting_after(self, n: Node | None = None) -> Any:
        """Inside, new nodes go behind this one; None: to the front."""
        return self._inserting(self._nodes[0] if n is None else n.next)

    def erase_node(self, to_erase: Node) -> None:
        """Take a node away that nobody reads."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        to_erase.args, to_erase.kwargs = (), {}
        self._nodes.remove(to_erase)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda n: n) -> Node:
        """A copy of another graph's node."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Any]) -> Any:
        """All nodes of another graph; gives what its output gives, here."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                return map_arg(node.args[0], lambda n: val_map[n])
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def eliminate_dead_code(self, is_impure_node: Any = None) -> bool:
        """Take away what nobody reads; were there such nodes?"""
        impure = is_impure_node or Node.is_impure
        before = len(self._nodes)
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return len(self._nodes) != before

    def lint(self) -> None:
        """RuntimeError when a node reads one that comes later or is gone."""
        seen: set[Node] = set()
        for node in self._nodes:
            for source in node.all_input_nodes:
                if source not in seen:
                    raise RuntimeError(f"Argument '{source}' of Node '{node}' was used before it "
                                       "has been defined!")  # fmt: skip
            seen.add(node)

    def python_code(self, root_module: str = "self") -> Any:
        """The program as the text of a `forward`; `.src` of the result."""
        inputs = [n.name for n in self._nodes if n.op == "placeholder"]
        lines = [f"def forward({', '.join([root_module, *inputs])}):"]
        lines += [f"    {_line(n, root_module)}" for n in self._nodes if n.op != "placeholder"]
        return _Code("\n".join(lines) + "\n")

    def print_tabular(self) -> None:
        """A line for each node."""
        for n in self._nodes:
            print(f"{n.op:14s} {n.name:20s} {n.target_text:30s} {n.args} {n.kwargs}")

    def __str__(self) -> str:
        inputs = ", ".join(f"%{n.name}" for n in self._nodes if n.op == "placeholder")
        rest = [n.format_node() for n in self._nodes if n.op != "placeholder"]
        return "\n    ".join([f"graph({inputs}):", *rest])


class _Code:
    def __init__(self, src: str) -> None:
        self.src = src


def _path(root: str, target: str) -> str:
    """`root.a.b` as Python: a part that is no name, as "0" of a Sequential, needs getattr."""
    for part in target.split("."):
        root = f"{root}.{part}" if part.isidentifier() else f'getattr({root}, "{part}")'
    return root


def _line(node: Node, root: str) -> str:
    given = [repr(a) for a in node.args] + [f"{k} = {v!r}" for k, v in node.kwargs.items()]
    if node.op == "output":
        return f"return {node.args[0]!r}"
    if node.op == "get_attr":
        return f"{node.name} = {_path(root, node.target)}"
    if node.op == "call_method":
        return f"{node.name} = {given[0]}.{node.target}({', '.join(given[1:])})"
    called = _path(root, node.target) if node.op == "call_module" else node.target_text
    return f"{node.name} = {called}({', '.join(given)})"
