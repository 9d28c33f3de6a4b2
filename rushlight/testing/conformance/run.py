"""Run a graph on a backend, and judge what came out.

In: a case and a backend's name. Out: an `Outcome`. Always true: nothing is kept, in memory or on
disk: every case is really compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rushlight.backends import find_backend
from rushlight.base.errors import RefusedError
from rushlight.engine.programs import compile_recording
from rushlight.engine.realize import run_program
from rushlight.engine.signature import offset_positions, record
from rushlight.engine.template import make_template
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node, topological
from rushlight.testing.conformance.cases import Case
from rushlight.testing.conformance.defined import counted

# What an inexact backend may differ by, of the largest value of an array.
TOLERANCE = {
    "float64": 1e-11, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2,
    "complex128": 1e-11, "complex64": 1e-5, "complex32": 2e-3,
}  # fmt: skip
REFERENCE = "interp"
# numpy adds in other orders and has other functions; records of narrow floats round differently.
FROM_NUMPY = 16.0
# The tile language lets a backend make these sums with fewer multiplications (DotGrid.slides).
FREE_SUMS = frozenset({"dot_sliding"})
ALWAYS_DEFINED = ("float32", "float64", "")


@dataclass(frozen=True)
class Outcome:
    """status: "supported", "refused" or "failed", or "undefined" where the op is not defined in
    that dtype; `text` says why it is not supported."""

    case: Case
    status: str
    text: str = ""


def check(case: Case, backend: str, vary: bool = False) -> Outcome:
    """Compile and run a case on a backend, and compare with the interpreter.

    `vary`: every size is a variable of the program.
    """
    roots = case.build()
    pending = [root for root in dict.fromkeys(roots) if not root.leaf]
    if not pending:
        return Outcome(case, "supported")
    if backend == REFERENCE:
        return _check_meaning(case, pending, vary)
    try:
        wanted = run_on(REFERENCE, pending, vary)
    except Exception as error:
        if case.dtype in ALWAYS_DEFINED:
            raise
        # A softmax of integers, a linear solver in bfloat16.
        return Outcome(case, "undefined", str(error))
    try:
        got = run_on(backend, pending, vary)
    except RefusedError as error:
        return Outcome(case, "refused", "; ".join(error.reasons))
    except Exception as error:  # whatever it is, the table must go on
        return Outcome(case, "failed", f"{type(error).__name__}: {error}")
    promises = find_backend(backend).require().exact
    for number, (root, have, want) in enumerate(zip(pending, got, wanted, strict=True)):
        exact = promises and not any(node.name in FREE_SUMS for node in topological([root]))
        wrong = different_bits(have, want) if exact else too_far(have, want, _tolerance(root))
        if wrong:
            return Outcome(case, "failed", f"result {number} ({root.name}): {wrong}")
    return Outcome(case, "supported")


def _check_meaning(case: Case, pending: Sequence[Node], vary: bool) -> Outcome:
    """The interpreter, which the others are compared with, against the records in numpy."""
    try:
        wanted = interpret(pending, _held)
    except Exception as error:
        return Outcome(case, "undefined", str(error))
    try:
        got = run_on(REFERENCE, pending, vary)
    except Exception as error:  # whatever it is, the table must go on
        status = "failed" if case.dtype in ALWAYS_DEFINED else "undefined"
        return Outcome(case, status, f"{type(error).__name__}: {error}")
    for number, (root, have, want) in enumerate(zip(pending, got, wanted, strict=True)):
        counts = counted(root, _held)
        if counts is not None:
            have, want = have[counts], want[counts]
        wrong = too_far(have, want, _tolerance(root) * FROM_NUMPY)
        if wrong:
            return Outcome(case, "failed", f"result {number} ({root.name}): {wrong}")
    return Outcome(case, "supported")


def _held(leaf: Node) -> np.ndarray:
    """The values of a leaf."""
    return leaf.buffer.view(leaf.dtype, leaf.shape)  # type: ignore[union-attr]


def run_on(backend: str, roots: Sequence[Node], vary: bool = False) -> list[np.ndarray]:
    """The values of pending nodes (they stay pending)."""
    target = find_backend(backend)
    caps = target.require()
    recording = record(list(roots))
    ints = np.array(recording.ints, np.int64)
    samples = np.stack([ints, np.where(ints > 1, ints * 2 + 1, ints)]) if vary else ints[None]
    template = make_template(samples, offset_positions(recording))
    program = compile_recording(recording, template, frozenset(), target, caps, _site_text)
    values = template.match(ints)
    assert values is not None
    inputs = [leaf.buffer for leaf in recording.inputs]
    buffers = run_program(program, values, inputs, recording.numbers)
    found = {
        root: buffer.view(root.dtype, root.shape)
        for root, buffer in zip(recording.roots, buffers, strict=True)
    }
    return [found[root] for root in roots]


def _site_text(node: Node) -> str:
    return node.name


def _tolerance(root: Node) -> float:
    """That of the coarsest dtype on the way."""
    return max(TOLERANCE.get(node.dtype.name, 0.0) for node in topological([root]))


def different_bits(have: np.ndarray, want: np.ndarray) -> str:
    """Where the bits differ, or "". All NaNs are one; signs of zeros count."""
    have, want = _parts(have), _parts(want)
    a, b = (_one_nan(array).view(f"u{array.itemsize}") for array in (have, want))
    return _told(a != b, have, want)


def too_far(have: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    """Where values differ by more than rounding, or "". Whole numbers must be equal."""
    have, want = _parts(have), _parts(want)
    if have.dtype.kind in "iub":
        return _told(have != want, have, want)
    a, b = have.astype(np.float64), want.astype(np.float64)
    scale = max(1e-30, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * scale
    return _told(~(near | (a == b) | (np.isnan(a) & np.isnan(b))), have, want)


def _parts(array: np.ndarray) -> np.ndarray:
    """Flat; real and imaginary parts as numbers of their own."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.fields is not None:  # complex32, which numpy has not
        return flat.view(flat.dtype[0])
    return flat.view(f"f{flat.itemsize // 2}") if flat.dtype.kind == "c" else flat


def _one_nan(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "iub":
        return np.ascontiguousarray(array)
    with np.errstate(invalid="ignore"):
        nan = np.isnan(array.astype(np.float64))
    return np.ascontiguousarray(np.where(nan, np.array(np.nan, array.dtype), array))


def _told(wrong: np.ndarray, have: np.ndarray, want: np.ndarray) -> str:
    if not wrong.any():
        return ""
    at = int(np.flatnonzero(wrong)[0])
    seen = f"{have[at]} in place of {want[at]}"
    return f"{int(wrong.sum())} of {wrong.size} differ, first at {at}: {seen}"
