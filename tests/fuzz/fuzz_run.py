"""Run a graph in many ways that must give the same bits.

In: roots over buffer leaves. Out: numpy arrays. `Setup` says how: the target, sizes as variables or
not, threads, inputs given away. Every run goes through the compiler's own pipeline, without the
engine's cache of programs, so that each way is really compiled.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.backends import find_backend
from rushlight.backends.llvm import executor
from rushlight.backends.llvm.caps import find_caps
from rushlight.engine.program import Program
from rushlight.engine.programs import compile_recording
from rushlight.engine.realize import run_program
from rushlight.engine.signature import Recording, offset_positions, record
from rushlight.engine.template import Template, make_template
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node, buffer_node, make_node, topological
from rushlight.runtime.buffer import allocate
from rushlight.runtime.threads import set_num_threads

NO_AVX512 = "-avx512f,-avx512vl,-avx512bw,-avx512dq"
TARGETS = {"host": "", "avx2": NO_AVX512, "generic": f"-avx,-avx2,-fma,-f16c,{NO_AVX512}"}


@dataclass(frozen=True)
class Setup:
    """target: a name of TARGETS, or of a backend. vary: sizes of these values are variables.
    donate: inputs are copies that the program may overwrite. threads: 2 shares out every launch,
    however small."""

    target: str = "host"
    vary: frozenset[int] = frozenset()
    donate: bool = False
    threads: int = 1


def read_leaf(leaf: Node) -> np.ndarray:
    return leaf.buffer.view(leaf.dtype, leaf.shape)


def reference(roots: Sequence[Node]) -> list[np.ndarray]:
    return interpret(list(roots), read_leaf)


def template_of(recording: Recording, vary: frozenset[int]) -> Template:
    """As if the structure had been seen once more, with the sizes in `vary` changed."""
    first = np.array(recording.ints, np.int64)
    second = np.where(np.isin(first, list(vary)), first * 2 + 1, first)
    return make_template(np.stack([first, second]), offset_positions(recording))


def compile_for(
    recording: Recording, template: Template, target: str, donated: frozenset[int] = frozenset()
) -> Program:
    backend = find_backend("llvm" if target in TARGETS else target)
    caps = find_caps(TARGETS[target]) if target in TARGETS else backend.require()
    return compile_recording(recording, template, donated, backend, caps, lambda node: node.name)


def run(roots: Sequence[Node], setup: Setup = Setup()) -> list[np.ndarray]:  # noqa: B008
    """Values of the roots (which stay pending)."""
    recording = record(list(dict.fromkeys(roots)))
    template = template_of(recording, setup.vary)
    inputs = recording.inputs
    donated = frozenset(range(len(inputs))) if setup.donate else frozenset()
    program = compile_for(recording, template, setup.target, donated)
    values = template.match(np.array(recording.ints, np.int64))
    assert values is not None
    buffers = [copy_buffer(leaf) if setup.donate else leaf.buffer for leaf in inputs]
    with shared_out(setup.threads):
        results = run_program(program, values, buffers, recording.numbers)
    found = {
        root: buffer.view(root.dtype, root.shape)
        for root, buffer in zip(recording.roots, results, strict=True)
    }
    return [found[root] for root in roots]


def run_as_seen_first(first: Recording, second: Recording, target: str) -> list[np.ndarray]:
    """The values of `second` by the program with variables that `first` was compiled to."""
    samples = np.array([first.ints, second.ints], np.int64)
    template = make_template(samples, offset_positions(first))
    program = compile_for(first, template, target)
    values = template.match(samples[1])
    assert values is not None
    inputs = [leaf.buffer for leaf in second.inputs]
    buffers = run_program(program, values, inputs, second.numbers)
    return [b.view(n.dtype, n.shape) for n, b in zip(second.roots, buffers, strict=True)]


def copy_buffer(leaf: Node) -> Any:
    memory = allocate(leaf.buffer.nbytes)
    np.asarray(memory)[...] = np.asarray(leaf.buffer)
    return memory


@contextmanager
def shared_out(threads: int) -> Iterator[None]:
    """With 2 threads every region goes to the pool, however little work it is."""
    if threads == 1:
        yield
        return
    old = executor.PROGRAM_SHARE_PS, executor.REGION_SHARE_PS
    executor.PROGRAM_SHARE_PS = executor.REGION_SHARE_PS = 0
    set_num_threads(threads)
    try:
        yield
    finally:
        executor.PROGRAM_SHARE_PS, executor.REGION_SHARE_PS = old


# comparing ------------------------------------------------------------


def bits(array: np.ndarray) -> bytes:
    """The bytes, with one NaN for all (which of two NaNs an addition gives is not promised)."""
    if array.dtype.kind not in "iub":
        wide = array.astype(np.float64)
        array = np.where(np.isnan(wide), np.array(np.nan, array.dtype), array)
    return np.ascontiguousarray(array).tobytes()


TOLERANCE = {"float64": 1e-7, "float32": 5e-3, "float16": 0.05, "bfloat16": 0.2}


def tolerance_of(node: Node, known: dict[Node, float] | None = None) -> float:
    """That of the coarsest dtype on the way to a node. `known`: values that have one already."""
    found = dict(known or {})
    for here in topological([node], stop=found.__contains__):
        if here not in found:
            own = TOLERANCE.get(here.dtype.name, 0.0)
            found[here] = max([own, *(found[s] for s in here.src)])
    return found[node]


def difference(got: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    """What is wrong with a result, or "" (whole numbers exactly, floats to a tolerance)."""
    if got.dtype.kind in "iub":
        wrong = got != want
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        finite = b[np.isfinite(b)]
        scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
        limit = tolerance * scale
        with np.errstate(invalid="ignore"):
            wrong = ~((np.abs(a - b) <= limit) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    return f"{int(wrong.sum())} of {wrong.size} differ, at {at}: {got[at]} for {want[at]}"


def same_bits(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> str:
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        if bits(a) != bits(b):
            with np.errstate(invalid="ignore"):
                wrong = (a != b) & ~((a != a) & (b != b))
            if not wrong.any():
                return f"root {number}: signs of zeros differ"
            at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
            count = f"{int(wrong.sum())} of {wrong.size}"
            return f"root {number}: {count} differ in bits, at {at}: {a[at]} for {b[at]}"
    return ""


# the same values by other graphs ------------------------------------------------------------


def rebuild(roots: Sequence[Node], known: dict[Node, Node]) -> list[Node]:
    """The graph with some nodes replaced."""
    new = dict(known)
    for node in topological(list(roots), stop=known.__contains__):
        if node in new:
            continue
        if node.leaf:
            new[node] = node
        else:
            src = tuple(new[s] for s in node.src)
            new[node] = make_node(node.op, src, node.attrs, node.shape, node.dtype)
    return [new[root] for root in roots]


def leaf_for(node: Node, array: np.ndarray) -> Node:
    memory = allocate(array.nbytes)
    memory.view(node.dtype, node.shape)[...] = array
    return buffer_node(memory, node.shape, node.dtype)


def run_in_pieces(roots: Sequence[Node], cuts: set[Node], setup: Setup) -> list[np.ndarray]:
    """As a user who looks at every node of `cuts` on the way."""
    known: dict[Node, Node] = {}
    for node in topological(list(roots)):
        if node in cuts and not node.leaf:
            (value,) = run(rebuild([node], known), setup)
            known[node] = leaf_for(node, value)
    rest = rebuild(roots, known)
    pending = [r for r in rest if not r.leaf]
    found = dict(zip(pending, run(pending, setup), strict=True)) if pending else {}
    return [read_leaf(r) if r.leaf else found[r] for r in rest]


def with_views(roots: Sequence[Node], rng: random.Random, ops: Any) -> list[Node]:
    """The same values read through permuted, turned and cut out views of other memory."""
    known: dict[Node, Node] = {}
    for leaf in topological(list(roots)):
        if leaf.leaf == "buffer" and leaf.ndim and 0 not in leaf.shape and rng.random() < 0.7:
            known[leaf] = _view_of(leaf, rng, ops)
    return rebuild(roots, known)


def _view_of(leaf: Node, rng: random.Random, ops: Any) -> Node:
    array = read_leaf(leaf)
    kind = rng.choice(("permute", "flip", "slice", "slice"))
    if kind == "permute":
        order = list(range(leaf.ndim))
        rng.shuffle(order)
        moved = np.ascontiguousarray(array.transpose(order))
        back = tuple(sorted(range(leaf.ndim), key=order.__getitem__))
        return ops.permute(_new_leaf(leaf, moved), back)
    if kind == "flip":
        dims = tuple(d for d in range(leaf.ndim) if rng.random() < 0.6) or (0,)
        return ops.flip(_new_leaf(leaf, np.flip(array, dims)), dims)
    start = tuple(rng.choice((0, 1, 3)) for _ in leaf.shape)
    step = tuple(rng.choice((1, 1, 2)) for _ in leaf.shape)
    whole = tuple(a + n * k + 1 for a, n, k in zip(start, leaf.shape, step, strict=True))
    around = np.full(whole, 7, array.dtype)
    places = zip(start, leaf.shape, step, strict=True)
    around[tuple(slice(a, a + (n - 1) * k + 1, k) for a, n, k in places)] = array
    return ops.slice_(_new_leaf(leaf, around), start, leaf.shape, step)


def _new_leaf(leaf: Node, array: np.ndarray) -> Node:
    memory = allocate(array.nbytes)
    memory.view(leaf.dtype, array.shape)[...] = array
    return buffer_node(memory, array.shape, leaf.dtype)


# making failures small ------------------------------------------------------------

Check = Callable[[Sequence[Node]], str]


def failure(check: Check, roots: Sequence[Node]) -> str:
    """What the check says, or the exception it raises."""
    try:
        return check(roots)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def shrink(check: Check, roots: list[Node], turns: int = 200) -> list[Node]:
    """A smaller graph that fails too: fewer roots, nodes replaced by their values."""
    while turns > 0:
        for candidate in _smaller(roots):
            turns -= 1
            if failure(check, candidate):
                roots = candidate
                break
            if turns <= 0:
                return roots
        else:
            return roots
    return roots


def _smaller(roots: list[Node]) -> Iterator[list[Node]]:
    if len(roots) > 1:
        half = len(roots) // 2
        for part in (roots[:half], roots[half:], *([r] for r in roots)):
            if len(part) < len(roots):
                yield part
        for i in range(len(roots)):
            yield roots[:i] + roots[i + 1 :]
    order = [n for n in topological(roots) if not n.leaf]
    if len(order) > 1:
        for node in reversed(order):
            if node not in roots or len(roots) > 1:
                yield [node]
    values = dict(zip(order, reference(order), strict=True))
    for node in reversed(order):
        if node not in roots:
            yield rebuild(roots, {node: leaf_for(node, values[node])})


def listing(roots: Sequence[Node]) -> str:
    """The graph as text."""
    order = topological(list(roots))
    name = {node: f"%{i}" for i, node in enumerate(order)}
    lines = []
    for node in order:
        src = ", ".join(name[s] for s in node.src)
        attrs = f" {node.attrs}" if node.attrs else ""
        mark = "  <- root" if node in roots else ""
        lines.append(
            f"{name[node]} = {node.name}({src}){attrs} {node.dtype.name}{list(node.shape)}{mark}"
        )
    return "\n".join(lines)
