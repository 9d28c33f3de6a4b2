"""Lowering to thread programs, and their text: what holds for every C-like backend."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cfamily_cases import GPU, programs_of

from rushlight import ops
from rushlight.backends.c.language import C
from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.exprs import ExprPrinter, bare
from rushlight.backends.cfamily.lower import lower_program
from rushlight.backends.cfamily.refuse import refuse
from rushlight.backends.cfamily.run import passes_of
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.metal.language import Metal
from rushlight.backends.opencl.language import OpenCL
from rushlight.backends.wgsl.language import WGSL
from rushlight.base.dtypes import float32, float64, int32, int64
from rushlight.compiler.tile import ir
from rushlight.ir import scalar as s
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import ceildiv, minimum
from rushlight.ir.symint_walk import variables
from rushlight.testing.conformance import template_cases
from rushlight.testing.conformance.cases import leaf

GROUPS = Machine.of(GPU)
ALONE = Machine(1, 32 << 10, 16)


def rows(shape=(6, 100)):
    x = leaf(np.zeros(shape, np.float32))
    return [ops.reduce_sum(x, (1,))]


def writes_and_reads(block: c.Block) -> list[tuple[set, set]]:
    """For the statements of a block: the arrays that each writes and reads."""
    found = []
    for code in block:
        part = (code,)
        reads = set()
        for value in c.values_in(part):
            nodes = s.topological((value if isinstance(value, s.E) else s.index(value),))
            reads |= {n.meta[0] for n in nodes if n.op == "load"}
        loads = (x for x in c.walk(part) if isinstance(x, c.Matrix) and x.kind == "load")
        found.append((c.written_in(part), reads | {x.memory for x in loads}))
    return found


def unguarded(block: c.Block) -> list[str]:
    return walked(block)[0]


def walked(block: c.Block) -> tuple[list[str], set]:
    """Shared arrays that a statement reads or writes after another wrote them, no barrier between.

    A loop that all threads go through together (it has barriers) is looked into, twice over, so
    that its end meets its start. Any other statement is one thread's own business. The second
    result: what is written at the end of the block, with no barrier after it.
    """
    found: list[str] = []
    pending: set = set()
    for code, (written, read) in zip(block, writes_and_reads(block), strict=True):
        if isinstance(code, c.Barrier):
            pending = set()
            continue
        # Matrices of one subgroup go to places of its own.
        touched = pending & (read if isinstance(code, c.Matrix) else read | written)
        found += [a.name for a in touched if isinstance(a, c.Array) and a.space != "private"]
        if isinstance(code, c.For) and any(isinstance(x, c.Barrier) for x in c.walk(code.body)):
            more, pending = walked(code.body + code.body)
            found += more
        else:
            pending |= written
    return found, pending


SLOTS = 1009  # a prime: arrays of so many parts are those of which each group has its own
NO_SHARED = Machine(64, 0, SLOTS)


@pytest.mark.parametrize("case", template_cases(), ids=lambda case: case.name)
def test_groups_keep_to_their_own_part_of_memory_that_is_not_shared(case) -> None:
    """On a machine that shares little memory, tiles lie in one buffer, one part for each group."""
    seen = 0
    for program in programs_of([root for root in case.build() if not root.leaf]):
        for kernel in lower_program(program, NO_SHARED).kernels:
            values = [v if isinstance(v, s.E) else s.index(v) for v in c.values_in(kernel.body)]
            nodes = s.topological(tuple(values))
            touched = [n.meta for n in nodes if n.op == "load"]
            touched += [(store.dest, store.at) for store in c.stores_in(kernel.body)]
            for array, at in touched:
                own = isinstance(array, c.Array) and isinstance(array.size, int)
                is_cut = own and array.size > 0 and array.size % SLOTS == 0
                if is_cut and array.space == "scratch":
                    seen += 1
                    assert c.GROUP.name in variables(at), (kernel.name, array.name)
    assert seen or case.name not in ("dot", "softmax_rows", "attention", "sum_rows")


@pytest.mark.parametrize("case", template_cases(), ids=lambda case: case.name)
def test_a_barrier_stands_between_a_write_and_what_needs_it(case) -> None:
    for program in programs_of([root for root in case.build() if not root.leaf]):
        for kernel in lower_program(program, GROUPS).kernels:
            assert not unguarded(kernel.body), kernel.name


def test_a_missing_barrier_is_seen() -> None:
    (program,) = programs_of(rows())
    (kernel,) = lower_program(program, GROUPS).kernels
    without = tuple(code for code in kernel.body if not isinstance(code, c.Barrier))
    assert unguarded(without)


def test_a_machine_without_groups_has_no_barriers() -> None:
    (program,) = programs_of(rows())
    for kernel in lower_program(program, ALONE).kernels:
        assert not any(isinstance(code, c.Barrier) for code in c.walk(kernel.body))


@pytest.mark.parametrize("machine", [ALONE, GROUPS], ids=["alone", "groups"])
@pytest.mark.parametrize("case", template_cases(), ids=lambda case: case.name)
def test_no_name_stands_for_two_things(case, machine) -> None:
    """Names of the lowering have an underscore; a program's own have none (but for helpers)."""
    for program in programs_of([root for root in case.build() if not root.leaf], vary=True):
        own = {v.name for v in program.sizes} | {b.name for b in program.buffers}
        for kernel in lower_program(program, machine).kernels:
            made = {array.name for array in kernel.arrays}
            for code in c.walk(kernel.body):
                if isinstance(code, c.For):
                    made.add(code.var.name)
                elif isinstance(code, c.Let):
                    made |= {name for name, _ in code.pairs}
            assert not own & made


LANGUAGES = {"c": C(), "opencl": OpenCL(True), "metal": Metal(), "wgsl": WGSL()}


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_text_has_no_trace_of_how_it_was_made(name) -> None:
    """Two builds of one program give the same text, so caches and golden files hold."""
    machine = ALONE if name == "c" else GROUPS
    texts = []
    for _ in range(2):
        (program,) = programs_of(rows())
        texts.append(print_programs([lower_program(program, machine)], LANGUAGES[name]))
    assert texts[0] == texts[1]
    assert "0x" not in texts[0].split("_g0")[-1]


def test_a_part_that_is_used_twice_is_computed_once() -> None:
    x = s.param("x", float32)
    twice = x * x + 1.0
    printer = ExprPrinter(C(), iter(f"t_{i}" for i in range(9)).__next__)
    lines, (text,) = printer.emit([twice * twice])
    assert lines == ["const float t_0 = (x * x) + 1.0f;"]
    assert text == "t_0 * t_0"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, float32, "0.1f"), (1.0, float32, "1.0f"), (-2.5, float64, "(-2.5)"),
        (float("inf"), float32, "(float)(INFINITY)"), (1e-45, float32, "1e-45f"),
        (-(2**31), int32, "(-2147483647 - 1)"), (2**63 - 1, int64, "9223372036854775807LL"),
    ],
)  # fmt: skip
def test_numbers_are_written_so_that_they_are_read_again(value, dtype, text) -> None:
    assert C().literal(value, dtype) == text


def test_every_float_is_read_again_as_itself() -> None:
    bits = np.random.default_rng(5).integers(0, 2**31, 2000, dtype=np.uint32)
    for value in bits.view(np.float32):
        if np.isfinite(value):
            text = C().literal(float(value), float32).strip("()").rstrip("f")
            assert np.float32(text) == value


def test_bare_takes_off_only_what_goes_around_all() -> None:
    assert bare("(a + b)") == "a + b"
    assert bare("(a) + (b)") == "(a) + (b)"
    assert bare("f(a)") == "f(a)"


def test_bounds_see_through_the_last_chunk() -> None:
    chunk = Var("chunk", 0, None, "axis")
    count = minimum(4096, 9000 - chunk * 4096)
    assert at_most(count) == 4096
    assert at_most(2 * ceildiv(count, 4096)) == 2
    assert at_most(Var("offset", 0, None, "offset")) is None


def test_passes_double_until_all_is_one_run() -> None:
    n = Var("n", 1)
    kernel = c.Kernel("k", 1, 1, (), (), c.Passes(16, n, True))
    assert passes_of(kernel, {"n": 16}) == []
    assert passes_of(kernel, {"n": 100}) == [(0, 16, 3), (1, 32, 3), (2, 64, 3)]
    last = c.Kernel("k", 1, 1, (), (), c.Passes(16, n, False))
    assert passes_of(last, {"n": 100}) == [(0, 0, 3)]


# refusals --------------------------------------------------------------------------------------


def test_a_dtype_that_is_not_there_is_refused_by_name() -> None:
    x = leaf(np.zeros(8, np.float64))
    (program,) = programs_of([ops.add(x, x)])
    assert refuse(program, GPU) == ["no float64 on gpu"]


def test_too_many_buffers_are_refused() -> None:
    leaves = [leaf(np.zeros(8, np.float32)) for _ in range(5)]
    total = leaves[0]
    for other in leaves[1:]:
        total = ops.add(total, other)
    (program,) = programs_of([total])
    few = GPU.__class__(**{**GPU.__dict__, "max_buffers": 4})
    assert refuse(program, few) == ["6 buffers in a kernel, 4 at most"]
    assert refuse(program, GPU) == []


@pytest.mark.parametrize("name", ["float", "my_axis", "kernel"])
def test_names_that_a_language_uses_are_refused(name) -> None:
    i = ir.Axis(name, 8)
    y = ir.Buffer("y", float32, 8, "out")
    store = ir.Store(y, i.var, s.const(0.0, float32))
    program = ir.Program("p", (y,), (), (), (ir.Grid((), (ir.Map((i,), (store,)),)),))
    (reason,) = refuse(program, GPU)
    assert re.search(f"the name '{name}'", reason)
