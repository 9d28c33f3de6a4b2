"""Which user line recorded a node.

In: `note(node)` while recording. Out: `lines_of(node)`. Lines are kept when somebody will ask:
DEBUG is at least 2, or an explanation runs (`STATE.on`); and always for nodes at which a run may
end, because the error names its line. Nodes do not hold lines: equal nodes are one object,
which several lines may have recorded.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from rushlight.base.config import config
from rushlight.base.errors import user_line
from rushlight.engine.undo import note_risk
from rushlight.ir.node import Node

MAY_FAIL = frozenset(("gather", "scatter", "host"))


class _State:
    """on: keep the line of every node. `wanted` counts explanations that run."""

    on: bool
    wanted: int = 0


STATE = _State()
_LINES: WeakKeyDictionary[Node, tuple[str, ...]] = WeakKeyDictionary()


def refresh() -> None:
    """Look at the settings again (done at every flush)."""
    STATE.on = STATE.wanted > 0 or config.debug >= 2


def note(node: Node) -> None:
    """A node was recorded by the user line that is running, and with it what it is made of."""
    risky = may_fail(node)
    if risky:
        note_risk(node)
    elif not STATE.on:
        return
    line = user_line()
    if _keep(node, line) and STATE.on:
        _note_parts(node, line)


def note_again(node: Node, lines: tuple[str, ...]) -> None:
    """A node at which a run may end was made without its Python. `lines`: those that recorded it
    first; "" stands for the line that is running."""
    note_risk(node)
    for line in lines:
        _keep(node, line or user_line())


def _keep(node: Node, line: str) -> bool:
    """Was it the first line?"""
    known = _LINES.get(node, ())
    if line and line not in known:
        _LINES[node] = (*known, line)
        return not known
    return False


def _note_parts(node: Node, line: str) -> None:
    """Sources that nobody noted belong to the line too: a public function may record several."""
    waiting = list(node.src)
    while waiting:
        part = waiting.pop()
        if not part.leaf and part not in _LINES:
            _LINES[part] = (line,)
            waiting.extend(part.src)


def may_fail(node: Node) -> bool:
    """A run may end there: gathers and scatters, composites of an integer operand (an embedding, a
    lookup), and what the host computes."""
    if node.op is None or node.leaf:
        return False
    if node.op.kind in MAY_FAIL:
        return True
    return (
        node.op.kind == "composite"
        and len(node.src) > 1
        and any(source.shape and source.dtype.is_integral for source in node.src)
    )


def lines_of(node: Node) -> tuple[str, ...]:
    """Every "file:line" that recorded the node, as far as they were kept; oldest first."""
    return _LINES.get(node, ())


refresh()
