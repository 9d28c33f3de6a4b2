"""Attention as test cases: graphs of one kernel, for any target or schedule.

A forward case gives the output, the lse and the largest scores; a gradient case, from the lse and
the row sums of g * out, the gradients of q, k, v and the sums of the weights over keys, over
queries and into bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from llvmlite import ir

from rushlight import ops
from rushlight.backends import interp
from rushlight.backends.interp.plan import InterpPlan
from rushlight.backends.llvm.attention import lower_attention_grid
from rushlight.backends.llvm.build import attach
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.context import KernelContext
from rushlight.backends.llvm.jit import compile_text
from rushlight.backends.llvm.types import LlvmExecutable
from rushlight.base.dtypes import bool_, dtype_of_numpy
from rushlight.compiler.given import Graph
from rushlight.compiler.pipeline import compile_graph
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import Caps, KernelCall, Plan
from rushlight.compiler.tile.ir import Program
from rushlight.ir.node import Node, buffer_node
from rushlight.ir.symint import Var
from rushlight.ir.symint_walk import evaluate
from rushlight.ops.attention import probabilities
from rushlight.ops.pairs import PAIR_GROUP, PAIR_PART, PAIR_ROWS, PAIR_TILE
from tests.unit.backends.llvm_run import run

TABLES = ("starts_l", "spans_l", "starts_s", "spans_s")


@dataclass
class Case:
    """q, k, v, mask as arrays; tables as pair_mask takes them. swap: k and v lie with their last
    two axes swapped in memory. g: of a gradient case, the gradient of the output."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    mask: np.ndarray | None = None
    causal: bool = False
    swap: bool = False
    symbolic: tuple[str, ...] = ()
    g: np.ndarray | None = None
    tables: tuple[np.ndarray, ...] = ()
    values: dict[str, int] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, np.ndarray]:
        """All operands, by name."""
        found = {"q": self.q, "k": self.k, "v": self.v}
        if self.mask is not None:
            found["mask"] = self.mask
        if self.g is not None:
            answer = dense(self)
            delta = (self.g.astype(np.float64) * answer["out"]).sum(-1, keepdims=True)
            wide = np.float64 if self.q.dtype == np.float64 else np.float32
            found |= {"g": self.g, "lse": answer["lse"].astype(wide), "delta": delta.astype(wide)}
        return found | dict(zip(TABLES, self.tables, strict=False))

    @property
    def arrays(self) -> list[np.ndarray]:
        """As they lie in memory."""
        return [
            np.ascontiguousarray(np.swapaxes(x, -1, -2) if self.swap and name in "kv" else x)
            for name, x in self.named.items()
        ]


def make(
    lead: tuple[int, ...], sizes: tuple[int, int, int, int], mask: str = "", seed: int = 0,
    dtype: object = np.float32, grad: bool = False, **options: object,
) -> Case:  # fmt: skip
    """sizes: L, S, E, Ev. mask: "", "causal", "bool", "add", "keys" (one for all queries) or
    "blocks" (bool, with tables)."""
    rng = np.random.default_rng(seed)
    length, keys, features, width = sizes
    shapes = ((length, features), (keys, features), (keys, width), (length, width))
    q, k, v, g = (rng.standard_normal((*lead, *shape)).astype(dtype) for shape in shapes)
    q = q * np.asarray(max(1, features) ** -0.5, dtype)
    masks = {
        "bool": lambda: rng.random((length, keys)) > 0.4,
        "add": lambda: rng.standard_normal((*lead, length, keys)).astype(dtype),
        "keys": lambda: rng.random((*lead, 1, keys)) > 0.3,
        "blocks": lambda: blocks(rng, length, keys),
    }
    given = masks[mask]() if mask in masks else None
    tables = tables_of(given) if mask == "blocks" else ()
    return Case(q, k, v, given, mask == "causal", g=g if grad else None, tables=tables, **options)  # type: ignore[arg-type]


def blocks(rng: np.random.Generator, length: int, keys: int) -> np.ndarray:
    """Whole 128 x 64 blocks absent or full, some with holes, some made of 32 x 32 pieces."""
    kept = np.zeros((length, keys), bool)
    for row in range(0, length, PAIR_ROWS):
        for column in range(0, keys, PAIR_TILE):
            here = kept[row : row + PAIR_ROWS, column : column + PAIR_TILE]
            kind = rng.integers(4)
            if kind < 3:
                here[...] = kind == 1 if kind < 2 else rng.random(here.shape) > 0.5
                continue
            pieces = rng.integers(2, size=(PAIR_ROWS // PAIR_GROUP, PAIR_TILE // PAIR_PART))
            whole = np.kron(pieces, np.ones((PAIR_GROUP, PAIR_PART))) > 0
            here[...] = whole[: here.shape[0], : here.shape[1]]
    return kept


def tables_of(kept: np.ndarray) -> tuple[np.ndarray, ...]:
    """The four tables of ops/pairs [tables] for a mask (L, S)."""
    found: list[np.ndarray] = []
    for mask in (kept, kept.T):
        starts, spans = [0], []
        for row in range(0, mask.shape[0], PAIR_ROWS):
            for tile in range(0, mask.shape[1], PAIR_TILE):
                here = mask[row : row + PAIR_ROWS, tile : tile + PAIR_TILE]
                if here.any():
                    groups = np.split(here, range(PAIR_GROUP, len(here), PAIR_GROUP))
                    parts = [part for g in groups for part in (g[:, :PAIR_PART], g[:, PAIR_PART:])]
                    codes = [int(p.any()) + int(p.size > 0 and p.all()) for p in parts]
                    number = tile // PAIR_TILE
                    spans.append((number, number + 1, sum(x << 2 * i for i, x in enumerate(codes))))
            starts.append(len(spans))
        found += [np.array(starts, np.int32), np.array(spans, np.int32).reshape(-1, 3)]
    return tuple(found)


def graph_of(case: Case) -> tuple[list[Node], list[Node]]:
    """Leaves and results; the axes named in case.symbolic ("L", "S", "E", "V") get Vars."""
    names = {name: Var(name, 0, None, "size") for name in case.symbolic}
    sizes = dict(zip("LSEV", (case.q.shape[-2], *case.k.shape[-2:], case.v.shape[-1]), strict=True))
    case.values = sizes
    letters = {"q": "LE", "k": "SE", "v": "SV", "mask": "LS", "g": "LV", "lse": "L", "delta": "L1"}
    leaves, nodes = [], {}
    for name, array in case.named.items():
        shape: list = list(array.shape)
        for at, letter in enumerate(letters.get(name, ""), -len(letters.get(name, ""))):
            if shape[at] != 1:
                shape[at] = names.get(letter, shape[at])
        swap = case.swap and name in "kv"
        if swap:
            shape[-2:] = reversed(shape[-2:])
        leaf = buffer_node(None, tuple(shape), dtype_of_numpy(array.dtype))
        leaves.append(leaf)
        order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        nodes[name] = ops.permute.node(leaf, order) if swap else leaf
    return leaves, results_of(case, nodes)


def results_of(case: Case, nodes: dict[str, Node]) -> list[Node]:
    scores, mask = ops.pair_dot.node(nodes["q"], nodes["k"]), nodes.get("mask")
    if mask is not None and mask.dtype is not bool_:
        scores = ops.add(scores, ops.cast(mask, scores.dtype))
        mask = None
    if mask is not None or case.causal:
        tables = [nodes[name] for name in TABLES if name in nodes]
        scores = ops.pair_mask.node(scores, mask, tables, is_causal=case.causal, fill="minus")
    dtype = nodes["q"].dtype
    if case.g is None:
        lse = ops.flash_lse.node(scores)
        out = ops.flash_attention.node(scores, nodes["v"], lse)
        out = out if out.dtype is dtype else ops.cast.node(out, dtype)
        return [out, lse, ops.flash_top.node(scores)]
    p = probabilities(scores, nodes["lse"])
    inner = ops.sub(ops.pair_dot.node(nodes["g"], nodes["v"]), nodes["delta"])
    weight = ops.mul(p, inner)
    return [
        ops.pair_sum.node(weight, nodes["k"], over="s"),
        ops.pair_sum.node(weight, nodes["q"], over="l"),
        ops.pair_sum.node(p, nodes["g"], over="l"),
        ops.pair_sum.node(weight, None, over="s"),
        ops.pair_sum.node(weight, None, over="l"),
        ops.pair_bins.node(weight, place_of(weight), bins=(BINS,)),
    ]


BINS, PLACES = 37, 40  # some places are out of range


def place_of(value: Node) -> Node:
    """(3 l + s) mod PLACES."""
    rows, keys = (ops.pair_index.node(value.shape, value.ndim - n) for n in (2, 1))
    return ops.remainder(ops.add(ops.mul(rows, 3), keys), PLACES)


NAMES = (("out", "lse", "top"), ("d_q", "d_k", "d_v", "by_query", "by_key", "binned"))


@dataclass
class Compiled:
    """A plan of one kernel, by the interpreter's builder; the program has basic ops only."""

    case: Case
    plan: Plan
    arrays: list[np.ndarray]
    shapes: list[tuple[int, ...]]

    @property
    def call(self) -> KernelCall:
        ((call,),) = self.plan.regions
        assert isinstance(call, KernelCall)
        return call

    @property
    def program(self) -> Program:
        return self.call.executable.program

    @property
    def results(self) -> dict[str, np.ndarray]:
        own = self.arrays[-len(self.shapes) :]
        names = NAMES[self.case.g is not None]
        return {
            name: array[: int(np.prod(shape))].reshape(shape).copy()
            for name, array, shape in zip(names, own, self.shapes, strict=True)
        }

    @property
    def bits(self) -> bytes:
        return b"".join(array.tobytes() for array in self.results.values())

    def interpret(self) -> dict[str, np.ndarray]:
        ints = np.array([self.case.values[name] for name in self.case.symbolic], np.int64)
        pointers = [array.ctypes.data for array in self.arrays]
        assert InterpPlan(self.plan, races=True).run(pointers, ints, ()) == 0
        return self.results

    def native(self, caps: Caps, schedule: object = None, split: int = 1) -> dict[str, np.ndarray]:
        """The llvm backend's results; `split`: the launch in that many parts."""
        sizes = {
            var.name: evaluate(value, self.case.values)
            for var, value in zip(self.program.sizes, self.call.ints, strict=True)
        }
        for array in self.arrays[-len(self.shapes) :]:
            array[...] = 7
        arrays = [self.arrays[number] for number in self.call.buffers]
        executable = compile_program(self.program, caps, schedule)
        assert run(executable, arrays, sizes, split=split) == 0
        return self.results


def compile_program(program: Program, caps: Caps, schedule: object = None) -> LlvmExecutable:
    """A program with one AttentionGrid."""
    module = ir.Module("attention", context=ir.Context())
    launches, scratch = lower_attention_grid(
        lambda suffix: KernelContext(module, program, caps, f"kernel{suffix}"),
        program, program.grids[0], caps, schedule,
    )  # fmt: skip
    lowered = LlvmExecutable(program, tuple(launches), tuple(scratch))
    return attach([lowered], compile_text(str(module), split_target(caps.features), True))[0]


def compiled(case: Case) -> Compiled:
    leaves, roots = graph_of(case)
    hints = Hints(case.values)
    graph = Graph(tuple(leaves), tuple(roots), frozenset(), case.symbolic, hints, lambda node: "")
    caps = interp.BACKEND.find()
    plan = compile_graph(graph, lambda programs: interp.BACKEND.build(programs, caps), verify=True)
    shapes = [tuple(hints(size) for size in root.shape) for root in roots]
    arrays = [array.copy().ravel() for array in case.arrays]
    arrays += [
        np.zeros(int(np.prod(shape)) + 1, root.dtype.np)
        for root, shape in zip(roots, shapes, strict=True)
    ]
    return Compiled(case, plan, arrays, shapes)


def bits_of(results: dict[str, np.ndarray]) -> bytes:
    return b"".join(array.tobytes() for array in results.values())


def dense(case: Case) -> dict[str, np.ndarray]:
    """What the case gives, from full scores in float64."""
    q, k, v = (x.astype(np.float64) for x in (case.q, case.k, case.v))
    scores = q @ np.swapaxes(k, -1, -2)
    if case.causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if case.mask is not None:
        is_bool = case.mask.dtype == bool
        scores = np.where(case.mask, scores, -np.inf) if is_bool else scores + case.mask
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    p = e / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        lse = np.where(np.isfinite(top), top, 0) + np.log(total)
    found = {"out": p @ v, "lse": lse[..., 0], "top": top[..., 0]}
    if case.g is None:
        return found
    g = case.g.astype(np.float64)
    weight = p * (g @ np.swapaxes(v, -1, -2) - (g * found["out"]).sum(-1, keepdims=True))
    gradients = {
        "d_q": weight @ k, "d_k": np.swapaxes(weight, -1, -2) @ q,
        "d_v": np.swapaxes(p, -1, -2) @ g, "by_query": weight.sum(-1), "by_key": weight.sum(-2),
    }  # fmt: skip
    rows, keys = np.indices(weight.shape[-2:])
    place, binned = (3 * rows + keys) % PLACES, np.zeros((*weight.shape[:-2], PLACES))
    for at in np.ndindex(weight.shape[:-2]):
        np.add.at(binned[at], place, weight[at])
    return found | gradients | {"binned": binned[..., :BINS]}
