"""The message of an index check that failed: the op, the user's line, the value and the size.

In: a plan, the number of the check, the memory of the inputs. Out: the error to raise. The value
is found by interpreting the index again, which only an error may cost: a run that fails has
overwritten no input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.base.errors import IndexOutOfRangeError
from rushlight.compiler.checks import Checks
from rushlight.compiler.graph.concrete import concretize
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import Plan
from rushlight.engine.origin import lines_of
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node
from rushlight.runtime.buffer import Buffer

# Of these an index was made non-negative before the check: what the user gave is read from it.
WRAPS = ("where", "remainder", "floor_mod")


def site_text(node: Node) -> str:
    """What is known of a check when the program is compiled: the op and who recorded it."""
    where = " or ".join(lines_of(node))
    return f"index out of range in {node.name}" + (f" (recorded at {where})" if where else "")


def index_error(
    plan: Plan, site: int, sizes: Hints, inputs: Sequence[Buffer], numbers: Sequence[Any]
) -> IndexOutOfRangeError:
    """The error of check `site`. `sizes`: values of the plan's variables."""
    text = plan.sites[site]
    try:
        seen = (
            "" if plan.checks is None else _find_value(plan.checks(), site, sizes, inputs, numbers)
        )
    except Exception:  # a second fault must not hide the first
        seen = ""
    error = IndexOutOfRangeError(text + (f": {seen}" if seen else ""))
    error.seen = seen
    return error


def _find_value(
    checks: Checks, site: int, sizes: Hints, inputs: Sequence[Buffer], numbers: Sequence[Any]
) -> str:
    check = checks.checks[site - 1]
    new = concretize(check.indices, sizes, numbers)
    held: dict[Node, np.ndarray] = {
        new[leaf]: inputs[number].view(leaf.dtype, new[leaf].shape)  # type: ignore[arg-type]
        for leaf, number in checks.leaves.items()
        if leaf in new
    }
    for leaf, slot in checks.slots.items():
        if leaf in new:
            held[new[leaf]] = np.asarray(numbers[slot], leaf.dtype.np)
    for dim, index in enumerate(check.indices):
        size = sizes(check.shape[dim])
        (values,) = interpret([new[index]], held.__getitem__)
        wrong = (values < 0) | (values >= size)
        if wrong.any():
            at = np.unravel_index(int(np.flatnonzero(wrong)[0]), values.shape)
            value = _as_given(new[index], int(values[at]), size, tuple(at), held)
            return f"index {value} is out of bounds for dimension {dim} with size {size}"
    return ""


def _as_given(index: Node, value: int, size: int, at: tuple, held: dict[Node, np.ndarray]) -> int:
    """The user's number: an index that had `size` added because it was negative."""
    while index.name in ("cast", "reshape") and index.src[0].shape == index.shape:
        index = index.src[0]
    if index.name not in WRAPS:
        return value
    for source in index.src:
        if source.shape == index.shape and source.dtype is index.dtype:
            (given,) = interpret([source], held.__getitem__)
            if int(given[at]) + size == value:
                return int(given[at])
    return value
