"""Values that cannot be had (an index is out of range, the host refuses), and why.

In: a run that ended, and the recorded node at which it did. Out: the values that depend on it are
marked; a flush leaves them out, so that everything else can be computed, and a look at one raises
its error again. A mark goes with its node. Raising the error takes back in-place changes (undo.py).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from weakref import WeakKeyDictionary, ref

from numpy.linalg import LinAlgError as NumpyError

from rushlight.base.errors import IndexOutOfRangeError, LinAlgError
from rushlight.compiler.target import HostError
from rushlight.engine.index_errors import site_text
from rushlight.engine.origin import lines_of
from rushlight.engine.signature import Recording
from rushlight.engine.undo import RISK, take_back
from rushlight.ir.node import Node, topological


class RunFailed(Exception):
    """A run ended at the node with position `at` of its recording, with this error."""

    def __init__(self, at: int | None, error: Exception) -> None:
        super().__init__(str(error))
        self.at, self.error = at, error


def host_failed(refused: HostError) -> RunFailed:
    """What a host function raised, as PyTorch's class where numpy has one of its own."""
    call, error = refused.call, refused.error
    if isinstance(error, NumpyError):
        error = LinAlgError(f"linalg.{call.label}: {error}")
    return RunFailed(call.at, error)


class _Failure:
    """The error of a node, for all values that depend on it."""

    def __init__(self, node: Node, error: Exception) -> None:
        # Without the frames it came through: they hold the node, which must be able to go.
        self.node, self.error = ref(node), error.with_traceback(None)
        error.__cause__ = error.__context__ = None

    def raise_it(self) -> None:
        node = self.node()
        if node is not None:
            take_back(node, lambda other: _FAILED.get(other) is self)
        raise copy.copy(self.error) from None


_FAILED: WeakKeyDictionary[Node, _Failure] = WeakKeyDictionary()


def mark_failed(recording: Recording, failed: RunFailed) -> None:
    """Mark every value that needs the node at which the run ended, and complete the error."""
    if failed.at is None:
        return
    RISK.waits = True  # while it is False, nobody looks for failures here
    first = recording.order[failed.at]
    failure = _Failure(first, _completed(first, failed.error))
    lost = {first}
    for node in recording.order:
        if not lost.isdisjoint(node.src):
            lost.add(node)
    for node in lost:
        _FAILED[node] = failure


def _completed(node: Node, error: Exception) -> Exception:
    """The error with the user's line; the program may have been compiled for another one."""
    if isinstance(error, IndexOutOfRangeError):
        error.args = (site_text(node) + (f": {error.seen}" if error.seen else ""),)
        return error
    return with_line(error, " or ".join(lines_of(node)))


def with_line(error: Exception, where: str) -> Exception:
    """The error of a host function, saying who recorded it ("": not known)."""
    if where and len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]} (recorded at {where})",)
    return error


def has_failed(node: Node) -> bool:
    return node in _FAILED


def any_failed() -> bool:
    """Does some value wait that cannot be had?"""
    return bool(_FAILED)


def raise_failed(nodes: Iterable[Node]) -> None:
    """Raise the error of the first of these nodes that has one, and take back what it undoes."""
    for node in nodes:
        failure = _FAILED.get(node)
        if failure is not None:
            failure.raise_it()


def needed_later(nodes: Iterable[Node]) -> set[Node]:
    """The leaves below these nodes: what may be computed from them later needs their memory."""
    return {node for node in topological(list(nodes)) if node.leaf}
