"""Do nodes agree with their records? Run after every pass over graphs.

In: a node, or the roots of a graph. Out: nothing, or InvalidGraph that prints the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rushlight.ir.node import Node
from rushlight.ir.opdef import OpDef, all_ops
from rushlight.ir.text import node_text, short_name


class InvalidGraph(ValueError):
    """A node breaks its record, or a graph holds what it must not: a fault of a rule or pass."""


def verify_node(node: Node) -> None:
    """The node's record, attributes, shape and dtype fit together."""
    if node.leaf:
        if node.leaf not in ("buffer", "scalar", "const"):
            raise InvalidGraph(f"unknown leaf {node.leaf!r}")
        return
    record = node.op
    if not isinstance(record, OpDef) or all_ops().get(record.name) is not record:
        raise InvalidGraph(f"{record!r} is not a declared op")
    if len(node.attrs) < len(record.attr_index):
        names = ", ".join(record.attr_index)
        raise InvalidGraph(f"{node_text(node)} has {len(node.attrs)} attributes, not {names}")
    try:
        call = record.call_of(node)
        if record.check is not None:
            record.check(call)
        shape, dtype = record.shape(call), record.dtype(call)
    except Exception as error:
        raise InvalidGraph(f"{node_text(node)}: its record refuses it: {error}") from error
    if tuple(shape) != node.shape:
        raise InvalidGraph(f"{node_text(node)}: the record gives shape {list(shape)}")
    if dtype is not node.dtype:
        raise InvalidGraph(f"{node_text(node)}: the record gives dtype {short_name(dtype)}")


def verify_graph(
    roots: Sequence[Node],
    ops: Collection[str] | Callable[[OpDef], bool] | None = None,
    check_records: bool = True,
) -> None:
    """No cycles; every node fits its record; every op is in `ops` (names, or a predicate)."""
    for node in acyclic_order(roots):
        if check_records:
            verify_node(node)
        if ops is None or node.op is None:
            continue
        allowed = ops(node.op) if callable(ops) else node.op.name in ops
        if not allowed:
            raise InvalidGraph(f"{node_text(node)} is not allowed here")


def acyclic_order(roots: Sequence[Node]) -> list[Node]:
    """Sources first, as `topological`, but a cycle is an error and not a loop."""
    order: list[Node] = []
    state: dict[Node, bool] = {}  # False: entered, True: done
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            state[node] = True
            order.append(node)
        elif node not in state:
            state[node] = False
            stack.append((node, True))
            for source in reversed(node.src):
                if state.get(source) is False:
                    raise InvalidGraph(f"{node_text(node)} reads itself")
                if source not in state:
                    stack.append((source, False))
    return order
