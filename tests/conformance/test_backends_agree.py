"""llvm and interp give the same bits for the same plans, and agree with the meaning of the graph.

The interpreter also checks that instances are independent, so a schedule that needs an order fails
here. Integer and bit results must equal `ir/interpret` exactly, floats within a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rushlight import ops
from rushlight.backends import interp, llvm
from rushlight.backends.interp.plan import InterpPlan
from rushlight.base.dtypes import bfloat16, dtype_of_numpy, float16, float32, float64, int32, int64
from rushlight.compiler.pipeline import Graph, compile_graph
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import Backend, Caps, Missing, Plan
from rushlight.compiler.tile.text import to_text
from rushlight.compiler.tile.text_parse import parse_program
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node, buffer_node, const_node

CAPS = {"llvm": llvm.BACKEND.find(), "interp": interp.BACKEND.find()}
needs_llvm = pytest.mark.skipif(isinstance(CAPS["llvm"], Missing), reason="no llvm backend here")


class Values:
    """Leaves of a graph and the arrays behind them."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(11)
        self.arrays: dict[Node, np.ndarray] = {}

    def leaf(self, array: np.ndarray) -> Node:
        node = buffer_node(None, array.shape, dtype_of_numpy(array.dtype))
        self.arrays[node] = np.ascontiguousarray(array)
        return node

    def normal(self, *shape: int, dtype: str = "float32") -> Node:
        return self.leaf(self.rng.standard_normal(shape).astype(dtype))

    def ints(self, high: int, *shape: int) -> Node:
        return self.leaf(self.rng.integers(0, high, shape))


def compile_for(backend: Backend, caps: Caps, values: Values, roots: list[Node]) -> Plan:
    graph = Graph(
        tuple(values.arrays), tuple(roots), frozenset(), (), Hints({}), lambda node: node.name
    )
    return compile_graph(graph, lambda programs: backend.build(programs, caps))


def run(name: str, values: Values, roots: list[Node]) -> tuple[list[np.ndarray], Plan]:
    backend = {"llvm": llvm.BACKEND, "interp": interp.BACKEND}[name]
    plan = compile_for(backend, CAPS[name], values, roots)
    arrays = [np.zeros(int(spec.size) + 16, spec.dtype.np) for spec in plan.buffers]
    for i, array in enumerate(values.arrays.values()):
        arrays[i][: array.size] = array.ravel()
    loaded = InterpPlan(plan, races=True) if name == "interp" else backend.load(plan, CAPS[name])
    status = loaded.run([a.ctypes.data for a in arrays], np.zeros(0, np.int64), ())
    assert status == 0
    first = len(values.arrays)
    results = [
        array[: int(np.prod(root.shape))].reshape(root.shape)
        for array, root in zip(arrays[first:], roots, strict=False)
    ]
    return results, plan


def unary(name: str, low: float = -3, high: float = 3, dtype: str = "float32") -> Callable:
    def build(v: Values) -> list[Node]:
        x = v.leaf(v.rng.uniform(low, high, (7, 41)).astype(dtype))
        return [ops.all_ops()[name](x)]

    return build


def softmax_rows(v: Values, dims: int = 1) -> list[Node]:
    x = v.normal(9, 77)
    keep = (9, 1) if dims == 1 else (1, 77)
    top = ops.expand(ops.reshape(ops.reduce_max(x, (dims,)), keep), (9, 77))
    e = ops.exp(ops.sub(x, top))
    total = ops.expand(ops.reshape(ops.reduce_sum(e, (dims,)), keep), (9, 77))
    return [ops.div(e, total)]


def low_precision(v: Values) -> list[Node]:
    x = ops.cast(v.normal(33, 20), bfloat16)
    half = ops.cast(v.normal(33, 20), float16)
    return [
        ops.reduce_sum(x, (0,)), ops.mul(half, half), ops.dot(x, ops.permute(x, (1, 0))),
        ops.exp(x), ops.cast(half, bfloat16),
    ]  # fmt: skip


def scatter(v: Values) -> list[Node]:
    x, at = v.normal(30, 5), v.ints(12, 30)
    base = v.normal(12, 5)
    return [ops.scatter_nd(base, x, [at], kind) for kind in ("sum", "set", "max")]


def movement(v: Values) -> list[Node]:
    x = v.normal(6, 8)
    return [
        ops.permute(x, (1, 0)), ops.reshape(ops.permute(x, (1, 0)), (3, 16)), ops.flip(x, (1,)),
        ops.cat([x, ops.neg(x)], 0), ops.pad(x, const_node(1.0, float32), (1, 0), (0, 2), (0, 0)),
    ]  # fmt: skip


def integers(v: Values) -> list[Node]:
    x, y = ops.cast(v.ints(100, 50), int32), ops.cast(v.ints(7, 50), int32)
    shifted = ops.sub(x, ops.mul(y, y))
    return [
        ops.floor_divide(shifted, ops.add(y, 1)), ops.remainder(shifted, ops.add(y, 1)),
        ops.bitwise_xor(x, y), ops.reduce_sum(x, (0,)), ops.argmax_(x, (0,)),
    ]  # fmt: skip


def attention(v: Values) -> list[Node]:
    """The output, what is made of it, and the lse: one kernel; and an lse alone."""
    q, k, w, mask = v.normal(2, 40, 8), v.normal(2, 70, 8), v.normal(2, 70, 5), v.normal(40, 70)
    scores = ops.add(ops.pair_dot(q, k), mask)
    lse = ops.flash_lse(scores)
    out = ops.flash_attention(scores, w, lse)
    causal = ops.pair_mask(ops.pair_dot(ops.mul(q, q), k), None, [], is_causal=True, fill="minus")
    alone = ops.flash_lse(causal)
    return [out, ops.tanh(out), lse, ops.flash_top(scores), alone]


def pairs(v: Values) -> list[Node]:
    """Sums over pairs, and pair values that others read."""
    q, k, w = v.normal(2, 40, 8), v.normal(2, 70, 8), v.normal(2, 40, 5)
    table = v.normal(2, 40 + 70)
    b, i, j = (ops.pair_index((2, 40, 70), dim) for dim in range(3))
    bias = ops.gather_nd(table, [b, ops.add(ops.sub(i, j), 69)])
    product = ops.pair_dot(q, k)
    scores = ops.add(product, bias)
    weight = ops.pair_mask(ops.tanh(scores), ops.ge(i, j), [], fill="zero")
    zeros = ops.expand(const_node(0.0, float32), (2,))
    return [
        ops.pair_sum(weight, k, over="s"), ops.pair_sum(weight, w, over="l"),
        ops.pair_sum(weight, None, over="l"), ops.reduce_sum(weight, (0, 2)), scores,
        ops.scatter_nd(zeros, weight, [b], kind="sum"),
    ]  # fmt: skip


CASES: dict[str, Callable[[Values], list[Node]]] = {
    **{n: unary(n) for n in "exp expm1 tanh erf erfc sigmoid sin cos atan sinh asinh".split()},
    **{n: unary(n, 0.01, 30) for n in "log log2 log10 log1p rsqrt lgamma digamma".split()},
    **{f"{n}_float64": unary(n, -2, 2, "float64") for n in "exp tanh erf sin erfc".split()},
    **{f"{n}_unit": unary(n, -0.99, 0.99) for n in "asin acos atanh erfinv".split()},
    "pow": lambda v: [ops.pow_(ops.abs_(v.normal(50)), v.normal(50))],
    "softmax": softmax_rows,
    "softmax_columns": lambda v: softmax_rows(v, 0),
    "sum_rows": lambda v: [ops.reduce_sum(v.normal(5, 9000), (1,))],
    "sum_columns": lambda v: [ops.reduce_sum(v.normal(300, 70), (0,))],
    "sum_all": lambda v: [ops.reduce_sum(v.normal(70, 900), (0, 1))],
    "argmax": lambda v: [ops.argmax_(v.normal(13, 50), (1,)), ops.argmin_(v.normal(13, 50), (0,))],
    "dot": lambda v: [ops.dot(v.normal(33, 70), v.normal(70, 45))],
    "dot_epilogue": lambda v: [ops.tanh(ops.dot(v.normal(3, 17, 9), v.normal(3, 9, 20)))],
    "dot_float64": lambda v: [
        ops.dot(v.normal(9, 30, dtype="float64"), v.normal(30, 8, dtype="float64"))
    ],
    "scan": lambda v: [
        ops.scan_sum(v.normal(6, 50), 1), ops.scan_sum(v.normal(50, 70), 0),
        ops.scan_max(v.normal(6, 50), 1), ops.scan_argmin(v.normal(6, 50), 1),
    ],
    "sort": lambda v: [
        ops.argsort_(v.ints(9, 5, 40), 1, False),
        ops.argsort_(v.normal(40), 0, True),
    ],
    "gather": lambda v: [ops.gather_nd(v.normal(20, 6), [v.ints(20, 15)])],
    "scatter": scatter, "movement": movement, "integers": integers,
    "low_precision": low_precision, "attention": attention, "pairs": pairs,
    "iota": lambda v: [ops.add(ops.iota(40, int64), v.ints(9, 40))],
    "float64_cast": lambda v: [ops.cast(ops.mul(v.normal(40), 1e3), int64),
                               ops.cast(v.normal(9), float64)],
}  # fmt: skip


@needs_llvm
@pytest.mark.parametrize("case", CASES)
def test_backends_give_the_same_bits(case: str) -> None:
    values = Values()
    roots = CASES[case](values)
    native, _ = run("llvm", values, roots)
    slow, plan = run("interp", values, roots)
    for got, wanted in zip(native, slow, strict=True):
        assert got.tobytes() == wanted.tobytes(), (got, wanted)
    meaning = interpret(roots, values.arrays.__getitem__)
    for got, wanted in zip(slow, meaning, strict=True):
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


EDGES = [
    0.0, -0.0, 1.0, -1.0, 2.0, -2.5, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-44,
    3e38, -3e38, 88.7, -87.5, -103.9, 1e10, 0.5, 1.5, 1e-8, 6.3e6,
]  # fmt: skip
MATH = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh erf erfc erfinv lgamma digamma sigmoid rsqrt"
)


@needs_llvm
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_math_functions_give_the_same_bits_at_the_edges(dtype: str) -> None:
    values = Values()
    x = values.leaf(np.array(EDGES, dtype))
    grid = np.array([(a, b) for a in EDGES for b in EDGES], dtype)
    y, z = values.leaf(grid[:, 0]), values.leaf(grid[:, 1])
    roots = [ops.all_ops()[name](x) for name in MATH.split()]
    roots += [ops.pow_(y, z), ops.atan2(y, z)]
    native, _ = run("llvm", values, roots)
    slow, _ = run("interp", values, roots)
    for root, got, wanted in zip(roots, native, slow, strict=True):
        # A NaN's sign and payload are nobody's business.
        both = [np.where(np.isnan(a), np.nan, a).astype(dtype).tobytes() for a in (got, wanted)]
        assert both[0] == both[1], root.name


@needs_llvm
def test_one_kernel_gives_an_attention_its_epilogue_and_its_lse() -> None:
    values = Values()
    _, plan = run("llvm", values, CASES["attention"](values))
    calls = [call for region in plan.regions for call in region]
    grids = [call.executable.program.grids[0] for call in calls]
    assert sorted(len(item.stores) for grid in grids for item in grid.sums) == [2]
    softmaxes = [grid.softmax for grid in grids]
    assert sorted((len(x.lse_stores), len(x.top_stores)) for x in softmaxes) == [(1, 0), (1, 1)]
