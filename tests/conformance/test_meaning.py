"""The interpreter means what the records mean, its instances are independent, and its tile
programs survive as text.

The suite of every backend (test_backend.py) compares with the interpreter; this says that the
interpreter is right. Integer and bit results must equal `ir/interpret` exactly.
"""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.backends import interp
from rushlight.backends.interp.plan import InterpPlan
from rushlight.compiler.given import Graph
from rushlight.compiler.pipeline import compile_graph
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import Plan
from rushlight.compiler.tile.text import to_text
from rushlight.compiler.tile.text_parse import parse_program
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node, topological
from rushlight.testing.conformance import template_cases
from rushlight.testing.conformance.defined import counted

CASES = {case.name: case for case in template_cases()}


def array_of(leaf: Node) -> np.ndarray:
    return leaf.buffer.view(leaf.dtype, leaf.shape)


def run(roots: list[Node]) -> tuple[list[np.ndarray], Plan]:
    inputs = [n for n in topological(roots) if n.leaf == "buffer"]
    graph = Graph(tuple(inputs), tuple(roots), frozenset(), (), Hints({}), lambda node: node.name)
    caps = interp.BACKEND.require()
    plan = compile_graph(graph, lambda programs: interp.BACKEND.build(programs, caps))
    arrays = [np.zeros(int(spec.size) + 16, spec.dtype.np) for spec in plan.buffers]
    for array, leaf in zip(arrays, inputs, strict=False):
        array[: leaf.numel()] = array_of(leaf).ravel()
    loaded = InterpPlan(plan, races=True)
    assert loaded.run([a.ctypes.data for a in arrays], np.zeros(0, np.int64), ()) == 0
    results = [
        array[: int(np.prod(root.shape))].reshape(root.shape)
        for array, root in zip(arrays[len(inputs) :], roots, strict=False)
    ]
    return results, plan


@pytest.mark.parametrize("case", CASES)
def test_the_interpreter_agrees_with_the_records(case: str) -> None:
    roots = CASES[case].build()
    found, plan = run(roots)
    for root, got, wanted in zip(roots, found, interpret(roots, array_of), strict=True):
        counts = counted(root, array_of)
        if counts is not None:
            got, wanted = got[counts], wanted[counts]
        narrow = got.dtype.itemsize == 2
        tolerance = 1e-2 if narrow else 2e-4 if got.dtype != np.float64 else 1e-9
        if np.dtype(got.dtype).kind in "iub":
            np.testing.assert_array_equal(got, wanted)
        else:
            a, b = got.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    for region in plan.regions:
        for call in region:
            text = to_text(call.executable.program)
            assert to_text(parse_program(text)) == text


def test_one_kernel_gives_an_attention_its_epilogue_and_its_lse() -> None:
    _, plan = run(CASES["attention"].build())
    calls = [call for region in plan.regions for call in region]
    grids = [call.executable.program.grids[0] for call in calls]
    assert sorted(len(item.stores) for grid in grids for item in grid.sums) == [2]
    softmaxes = [grid.softmax for grid in grids]
    assert sorted((len(x.lse_stores), len(x.top_stores)) for x in softmaxes) == [(1, 0), (1, 1)]
