"""Attention as test cases: a graph with one flash_attention, for any target or schedule."""

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
from rushlight.base.dtypes import dtype_of_numpy
from rushlight.compiler.pipeline import Graph, compile_graph
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import Caps, KernelCall, Plan
from rushlight.compiler.tile.ir import Program
from rushlight.ir.node import Node, buffer_node
from rushlight.ir.symint import Var
from rushlight.ir.symint_walk import evaluate
from tests.unit.backends.llvm_run import run


@dataclass
class Case:
    """q, k, v, mask as arrays. swap: k and v lie with their last two axes swapped in memory."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    mask: np.ndarray | None = None
    causal: bool = False
    swap: bool = False
    symbolic: tuple[str, ...] = ()
    values: dict[str, int] = field(default_factory=dict)

    @property
    def arrays(self) -> list[np.ndarray]:
        """As they lie in memory."""
        k, v = (np.swapaxes(x, -1, -2) if self.swap else x for x in (self.k, self.v))
        found = [self.q, k, v] + ([] if self.mask is None else [self.mask])
        return [np.ascontiguousarray(x) for x in found]

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.q.shape[:-1], self.v.shape[-1])


def make(
    lead: tuple[int, ...], sizes: tuple[int, int, int, int], mask: str = "", seed: int = 0,
    dtype: object = np.float32, **options: object,
) -> Case:  # fmt: skip
    """sizes: L, S, E, Ev. mask: "", "causal", "bool", "add" or "keys" (one for all queries)."""
    rng = np.random.default_rng(seed)
    length, keys, features, width = sizes
    shapes = ((length, features), (keys, features), (keys, width))
    q, k, v = (rng.standard_normal((*lead, *shape)).astype(dtype) for shape in shapes)
    q = q * np.asarray(max(1, features) ** -0.5, dtype)
    masks = {
        "bool": lambda: rng.random((length, keys)) > 0.4,
        "add": lambda: rng.standard_normal((*lead, length, keys)).astype(dtype),
        "keys": lambda: rng.random((*lead, 1, keys)) > 0.3,
    }
    given = masks[mask]() if mask in masks else None
    return Case(q, k, v, given, mask == "causal", **options)  # type: ignore[arg-type]


def graph_of(case: Case) -> tuple[list[Node], Node]:
    """Leaves and the attention; the axes named in case.symbolic ("L", "S", "E", "V") get Vars."""
    names = {name: Var(name, 0, None, "size") for name in case.symbolic}
    length, keys, features, width = (names.get(name, 0) for name in "LSEV")
    case.values = dict(
        zip("LSEV", (*case.q.shape[-2:][:1], *case.k.shape[-2:], case.v.shape[-1]), strict=True)
    )
    last = [(length, features), (keys, features), (keys, width), (length, keys)]
    operands = [case.q, case.k, case.v] + ([] if case.mask is None else [case.mask])
    leaves, nodes = [], []
    for number, (array, pair) in enumerate(zip(operands, last, strict=False)):
        sizes = [n if n == 1 else s or n for s, n in zip(pair, array.shape[-2:], strict=True)]
        swap = case.swap and number in (1, 2)
        shape = (*array.shape[:-2], *(reversed(sizes) if swap else sizes))
        leaf = buffer_node(None, shape, dtype_of_numpy(array.dtype))
        order = (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)
        leaves.append(leaf)
        nodes.append(ops.permute.node(leaf, order) if swap else leaf)
    mask = nodes[3] if len(nodes) > 3 else None
    return leaves, ops.flash_attention.node(*nodes[:3], mask, is_causal=case.causal)


@dataclass
class Compiled:
    """A plan of one kernel, by the interpreter's builder; the program has basic ops only."""

    case: Case
    plan: Plan
    arrays: list[np.ndarray]

    @property
    def call(self) -> KernelCall:
        ((call,),) = self.plan.regions
        assert isinstance(call, KernelCall)
        return call

    @property
    def program(self) -> Program:
        return self.call.executable.program

    @property
    def result(self) -> np.ndarray:
        return self.arrays[-1][:-1].reshape(self.case.shape).copy()

    def interpret(self) -> np.ndarray:
        ints = np.array([self.case.values[name] for name in self.case.symbolic], np.int64)
        pointers = [array.ctypes.data for array in self.arrays]
        assert InterpPlan(self.plan, races=True).run(pointers, ints, ()) == 0
        return self.result

    def native(self, caps: Caps, schedule: object = None, split: int = 1) -> np.ndarray:
        """The llvm backend's result; `split`: the launch in that many parts."""
        sizes = {
            var.name: evaluate(value, self.case.values)
            for var, value in zip(self.program.sizes, self.call.ints, strict=True)
        }
        self.arrays[-1][...] = 7
        arrays = [self.arrays[number] for number in self.call.buffers]
        executable = compile_program(self.program, caps, schedule)
        assert run(executable, arrays, sizes, split=split) == 0
        return self.result


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
    leaves, root = graph_of(case)
    hints = Hints(case.values)
    graph = Graph(tuple(leaves), (root,), frozenset(), case.symbolic, hints, lambda node: "")
    caps = interp.BACKEND.find()
    plan = compile_graph(graph, lambda programs: interp.BACKEND.build(programs, caps), verify=True)
    arrays = [array.copy().ravel() for array in case.arrays]
    arrays.append(np.zeros(int(np.prod(case.shape)) + 1, case.q.dtype))
    return Compiled(case, plan, arrays)


def dense(case: Case) -> np.ndarray:
    """softmax(q @ k^T + mask) @ v in float64."""
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
    return (e / np.where(total == 0, 1, total)) @ v
