"""CHECK=2: every pass keeps the meaning. Graphs and tile programs are interpreted and compared.

In: stages of a compilation and the values of its inputs. Out: nothing, or PassError that names the
pass and the value. Graphs run by the references of their records, tile programs in the interpreter
backend; floats may differ by rounding. An index that is out of range ends the check: the program
itself reports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.backends import find_backend
from rushlight.base.dtypes import DType
from rushlight.base.errors import PassError
from rushlight.compiler.compilation import Compilation
from rushlight.compiler.graph.concrete import concretize
from rushlight.compiler.step import HostStep
from rushlight.compiler.target import BufferSpec, Caps, KernelCall, Plan
from rushlight.compiler.tile.kernel import Kernel
from rushlight.engine.listen import Listener, Stage
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node
from rushlight.ir.text import node_text

INTERPRETER = "interp"
# Relative to the largest absolute value of an array: roundings add up.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "bfloat16": 3e-2, "float16": 4e-3}


class Checker(Listener):
    """Checks one compilation."""

    def stage(self, stage: Stage) -> None:
        if stage.log.sample is None or stage.before is None:
            return
        try:
            if stage.kind == "graph":
                self._graph(stage)
            elif stage.name == "expand_math":
                self._tiles(stage)
        except IndexError:
            return

    def _graph(self, stage: Stage) -> None:
        assert stage.before is not None
        assert stage.log.sample is not None
        given = stage.log.sample()
        before = _interpret(stage.before, stage.before.roots, given)
        after = _interpret(stage.state, stage.state.roots, given)
        for number, root in enumerate(stage.before.roots):
            new = stage.state.roots[number]
            difference = find_difference(before[root], after[new], root.dtype)
            if difference:
                raise PassError(
                    f"the pass {stage.name} changed the value of result {number}, "
                    f"{node_text(root)}: {difference}. It became {node_text(new)}"
                )

    def _tiles(self, stage: Stage) -> None:
        assert stage.log.sample is not None
        given = stage.log.sample()
        state = stage.state
        kernels = [step for step in state.steps if not isinstance(step, HostStep)]
        wanted = {node: None for step in kernels for node in step.nodes if node is not None}
        wanted.update({source: None for step in kernels for _, source in step.inplace})
        values = _interpret(state, list(wanted), given)
        for step in kernels:
            arrays = _run_program(step, state, values, given[1])
            for node, buffer, array in zip(step.nodes, step.program.buffers, arrays, strict=True):
                if node is None or buffer.role == "in":
                    continue
                difference = find_difference(values[node].reshape(-1), array, node.dtype)
                if difference:
                    name = state.kernel_name(step.group)
                    raise PassError(
                        f"after the pass {stage.name} the tile program {step.program.name} of "
                        f"{name} gives another value for {node_text(node)}: {difference}"
                    )


def _interpret(
    state: Compilation, roots: Sequence[Node], given: tuple[Sequence[np.ndarray], Sequence[Any]]
) -> dict[Node, np.ndarray]:
    arrays, numbers = given
    new = concretize(roots, state.graph.hints, numbers)
    held = {
        new[leaf]: array
        for leaf, array in zip(state.graph.inputs, arrays, strict=True)
        if leaf in new
    }
    found = interpret([new[root] for root in roots], held.__getitem__)
    return dict(zip(roots, found, strict=True))


def _run_program(
    step: Kernel, state: Compilation, values: dict[Node, np.ndarray], numbers: Sequence[Any]
) -> list[np.ndarray]:
    """Flat arrays of the program's buffers after it has run."""
    hints = state.graph.hints
    ints = tuple(hints(value) for value in step.ints)
    names = [var.name for var in step.program.sizes]
    size_of = type(hints)(dict(zip(names, ints, strict=True)))
    start = dict(step.inplace)
    arrays, specs = [], []
    for node, buffer in zip(step.nodes, step.program.buffers, strict=True):
        size = size_of(buffer.size)
        array = np.zeros(size, buffer.dtype.np)
        source = node if buffer.role == "in" else start.get(node) if node is not None else None
        if source is not None:
            array[...] = values[source].reshape(-1)
        arrays.append(array)
        specs.append(BufferSpec(buffer.dtype, size, "input"))
    backend = find_backend(INTERPRETER)
    caps = backend.find()
    assert isinstance(caps, Caps)
    (executable,) = backend.build([step.program], caps)
    call = KernelCall(executable, tuple(range(len(arrays))), ints, step.slots)
    loaded = backend.load(Plan(tuple(specs), ((call,),), ()), caps)
    if loaded.run([a.ctypes.data for a in arrays], np.zeros(0, np.int64), numbers):
        raise IndexError("an index check failed")
    return arrays


def find_difference(want: np.ndarray, have: np.ndarray, dtype: DType) -> str:
    """Where two arrays differ by more than rounding, or ""."""
    if want.shape != have.shape:
        return f"shape {list(have.shape)} in place of {list(want.shape)}"
    if want.size == 0:
        return ""
    if dtype.name not in TOLERANCE:
        wrong = want != have
    else:
        want, have = want.astype(np.float64), have.astype(np.float64)
        finite = np.isfinite(want)
        scale = float(np.abs(want[finite]).max(initial=1e-6))
        with np.errstate(all="ignore"):
            near = np.abs(want - have) <= TOLERANCE[dtype.name] * scale
        wrong = ~(near | (want == have) | (np.isnan(want) & np.isnan(have)))
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.unravel_index(int(np.flatnonzero(wrong)[0]), wrong.shape))
    return f"{have[at]} in place of {want[at]} at {list(at)}, {int(wrong.sum())} of {wrong.size}"
