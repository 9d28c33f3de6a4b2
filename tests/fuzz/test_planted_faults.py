"""The checks of this folder see the faults they are there for.

Each case plants one fault and names the comparison that must fail with it and hold without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fuzz_graphs import leaf_of
from fuzz_run import (
    Setup,
    compile_for,
    difference,
    failure,
    reference,
    run,
    run_in_pieces,
    same_bits,
)

import rushlight.ops as O
from rushlight.backends.llvm import fold, reduce_columns, reduce_panels
from rushlight.base.dtypes import float32
from rushlight.compiler import pipeline, plan
from rushlight.compiler.fuse import grouping
from rushlight.compiler.fuse.group import Group
from rushlight.compiler.lower.decompose_math import expand
from rushlight.compiler.sizes import Hints
from rushlight.compiler.tile import build_map, build_split, kernel
from rushlight.compiler.tile.rewrite import map_exprs, rewrite_expr
from rushlight.engine.realize import run_program
from rushlight.engine.signature import offset_positions, record
from rushlight.engine.template import make_template
from rushlight.ir import scalar as s
from rushlight.ir.node import Node, topological

Patch = Callable[[pytest.MonkeyPatch], None]
rng = np.random.default_rng(0)


def floats(*shape: int) -> Node:
    return leaf_of(rng.standard_normal(shape).astype(np.float32), float32)


# comparisons: "" when all is well ------------------------------------------------------------


def split_against_rows() -> str:
    """Two long rows: chunks first (static), or row by row (compiled for small sizes)."""

    def roots(n: int) -> list[Node]:
        return [O.reduce_sum(floats(2, n), (1,))]

    small, big = record(roots(300)), record(roots(40_000))
    samples = np.array([small.ints, big.ints], np.int64)
    program = compile_for(small, make_template(samples, offset_positions(small)), "host")
    values = program.template.match(np.array(big.ints, np.int64))
    assert values is not None
    (buffer,) = run_program(program, values, [n.buffer for n in big.inputs], ())
    by_rows = buffer.view(float32, (2,))
    return same_bits([by_rows], run(list(big.roots)))


def contiguous_against_strided() -> str:
    """A sum along memory, and of the same values laid out across it."""
    array = rng.standard_normal((40, 5000)).astype(np.float32)
    along = O.reduce_sum(leaf_of(array, float32), (1,))
    turned = leaf_of(np.ascontiguousarray(array.T), float32)
    across = O.reduce_sum(O.permute(turned, (1, 0)), (1,))
    return same_bits(run([along]), run([across]))


def fused_against_alone() -> str:
    a, b, c = floats(1000), floats(1000), floats(1000)
    roots = [O.add(O.mul(a, b), c)]
    return same_bits(run(roots), run_in_pieces(roots, set(topological(roots)), Setup()))


def donated_against_kept() -> str:
    x, y = floats(50, 50), floats(400)
    roots = [
        O.permute(x, (1, 0)),
        O.slice_scatter_(y, O.slice_(y, (0,), (300,), (1,)), (100,), (300,), (1,)),
    ]
    return same_bits(run(roots, Setup(donate=True)), run(roots))


def compiled_against_interpreted() -> str:
    x = floats(30, 30)
    turned = O.flip(O.reduce_sum(x, (1,)), (0,))
    roots = [O.mul(x, O.reshape(turned, (30, 1))), O.reduce_sum(O.softmax(x, 1), (0,))]
    found = [difference(a, b, 1e-3) for a, b in zip(run(roots), reference(roots), strict=True)]
    return next(filter(None, found), "")


# faults ------------------------------------------------------------


def chunk_of(module: object, length: int = 3072) -> Patch:
    return lambda patch: patch.setattr(module, "CHUNK", length)


def fuse_multiply_and_add(patch: pytest.MonkeyPatch) -> None:
    """The contraction that compilers like to do: a * b + c with one rounding."""

    def fused(e: s.E) -> s.E:
        if e.op == "add" and e.args[0].op == "mul" and e.dtype is float32:
            return s.fma(*e.args[0].args, e.args[1])
        return e

    def contract(program: object) -> object:
        return map_exprs(expand(program), lambda e: rewrite_expr(e, fused))

    patch.setattr(pipeline, "expand", contract)


def take_memory_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kernel.Kernel, "reads_own_element", lambda self, source, result: True)


def update_what_is_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(build_map, "_reads_only", lambda builder, base, value, place: True)


def fuse_what_reads_elsewhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grouping.Grouping, "_reads_of", lambda self, node, where: [])


def forget_what_must_run_first(patch: pytest.MonkeyPatch) -> None:
    one = lambda levels: [list(range(len(levels)))[::-1]]  # noqa: E731
    patch.setattr(plan, "_regions", one)


def fewer_partials_across(patch: pytest.MonkeyPatch) -> None:
    """Sums across memory with 16 interleaved partials in place of 32."""
    for module in (reduce_columns, reduce_panels):
        patch.setattr(module, "PARTIALS", 16)


FAULTS: dict[str, tuple[Patch, Callable[[], str]]] = {
    "chunk of split sums": (chunk_of(build_split), split_against_rows),
    "chunk of row sums": (chunk_of(fold), split_against_rows),
    "partials of column sums": (fewer_partials_across, contiguous_against_strided),
    "multiply-add contracted": (fuse_multiply_and_add, fused_against_alone),
    "memory taken too early": (take_memory_too_early, donated_against_kept),
    "update of what is read": (update_what_is_read, donated_against_kept),
    "fused though read elsewhere": (fuse_what_reads_elsewhere, compiled_against_interpreted),
    "kernels in a wrong order": (forget_what_must_run_first, compiled_against_interpreted),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_planted_fault_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, compare = FAULTS[name]
    assert compare() == ""
    plant(monkeypatch)
    assert failure(lambda roots: compare(), []) != ""


def test_orders_that_are_compared_are_really_different_kernels() -> None:
    """Else the comparisons above would hold whatever the order is."""
    kinds: Sequence[str] = [g.kind for g in _groups(O.reduce_sum(floats(2, 40_000), (1,)))]
    assert kinds == ["split"]
    assert [g.kind for g in _groups(O.reduce_sum(floats(2, 300), (1,)))] == ["rows"]


def _groups(root: Node) -> list[Group]:
    points = pipeline.choose_points([root], Hints({}))
    return grouping.group_points(points, Hints({}))
