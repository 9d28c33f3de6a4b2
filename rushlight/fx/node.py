"""Nodes of a traced program: what is called, with what."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.overrides.dispatch import Overridable

IMPURE: set[Any] = set()  # functions whose calls stay although nobody reads them
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


def map_arg(value: Any, change: Callable[[Node], Any]) -> Any:
    """The argument with each node in it, also in lists, tuples, dicts and slices, changed."""
    if isinstance(value, Node):
        return change(value)
    if isinstance(value, tuple):
        items = [map_arg(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [map_arg(item, change) for item in value]
    if isinstance(value, dict):
        return {key: map_arg(item, change) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(map_arg(v, change) for v in (value.start, value.stop, value.step)))
    return value


class Node:
    """One step. op: of `OPS`; target: a name, or the function; users: the nodes that read it."""

    def __init__(
        self, graph: Any, name: str, op: str, target: Any, args: tuple, kwargs: dict[str, Any]
    ) -> None:
        if op not in OPS:
            raise ValueError(f"op: got {op!r}, allowed are {', '.join(OPS)}")
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self.type: Any = None
        self._args, self._kwargs = (), {}
        self.args, self.kwargs = args, kwargs

    @property
    def args(self) -> tuple:
        return self._args

    @args.setter
    def args(self, value: Iterable[Any]) -> None:
        self._change(tuple(value), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Any]) -> None:
        self._change(self._args, dict(value))

    def _change(self, args: tuple, kwargs: dict[str, Any]) -> None:
        for node in self.all_input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs = args, kwargs
        for node in self.all_input_nodes:
            node.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that it reads, each once."""
        found: dict[Node, None] = {}
        map_arg((self._args, self._kwargs), lambda node: found.setdefault(node))
        return list(found)

    @property
    def next(self) -> Node | None:
        return self._neighbour(1)

    @property
    def prev(self) -> Node | None:
        return self._neighbour(-1)

    def _neighbour(self, step: int) -> Node | None:
        at = self.graph._nodes.index(self) + step
        return self.graph._nodes[at] if 0 <= at < len(self.graph._nodes) else None

    def update_arg(self, idx: int, arg: Any) -> None:
        args = list(self.args)
        args[idx] = arg
        self.args = args

    def update_kwarg(self, key: str, arg: Any) -> None:
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Read another node in the place of one."""
        swap = lambda node: new_input if node is old_input else node  # noqa: E731
        self._change(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True
    ) -> list[Node]:
        """Whoever reads this node reads another one; gives those nodes."""
        users = [user for user in self.users if user is not replace_with and delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    def is_impure(self) -> bool:
        return self.op in ("placeholder", "output") or (
            self.op == "call_function" and self.target in IMPURE
        )

    def format_node(self) -> str:
        """%add = call_function[target=torch.add](args = (%x, 1), kwargs = {})."""
        if self.op == "output":
            return f"return {self.args[0]}"
        return (
            f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={self.target_text}]"
            f"(args = {self._text(self.args)}, kwargs = {self._text(self.kwargs)})"
        )

    @property
    def target_text(self) -> str:
        if isinstance(self.target, str):
            return self.target
        if isinstance(self.target, Overridable):
            return self.target.public_name
        name = getattr(self.target, "__name__", repr(self.target))
        module = getattr(self.target, "__module__", None) or ""
        return name if module in ("", builtins.__name__) else f"{module}.{name}"

    @staticmethod
    def _text(value: Any) -> str:
        return str(map_arg(value, lambda node: _Name(f"%{node.name}")))

    def __repr__(self) -> str:
        return self.name


class _Name(str):
    __repr__ = str.__str__
