"""What the generated code looks like, and that it can be unloaded and loaded again."""

from __future__ import annotations

import gc
import json
import re
import resource

import numpy as np
import pytest
from llvm_run import run
from llvm_targets import caps_of, each_target
from test_llvm_body import centered_rows
from test_llvm_map import program_of
from test_llvm_reduce import row_sums

from rushlight.backends import find_backend
from rushlight.backends.llvm.build import build, lower, lower_text
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.jit import assembly_of, compile_text
from rushlight.backends.llvm.stored import record_of, restore
from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS, float32, int32, int64
from rushlight.compiler.target import Caps, Missing
from rushlight.compiler.tile.ir import Axis, Buffer, Program
from rushlight.ir import scalar as s
from rushlight.ir.size_text import parse_size
from rushlight.ir.symint import Var
from rushlight.ops.random import random_bits_scalar

# No tile program sees a complex number: a pass of the compiler makes two of each.
REAL_DTYPES = tuple(d for d in ALL_DTYPES if d.kind != "complex")


def many_programs() -> list[Program]:
    """Maps over all dtypes, with a gather; reductions; tiles."""
    n = Var("n", 1)
    axis = Axis("i", n)
    programs = []
    for source in REAL_DTYPES:
        x = Buffer("x", source, n)
        wide = s.cast(s.load(x, axis.var), float32)
        value = s.floor(s.sqrt(s.abs_(wide)) + s.rint(wide)) * s.trunc(s.ceil(wide))
        programs.append(program_of(s.cast(value, source), (x,), n, axis))
    ids, x = Buffer("ids", int32, n), Buffer("x", float32, n)
    row = s.as_index(s.check_index(s.load(ids, axis.var), n, 1))
    programs.append(program_of(s.load(x, row), (x, ids), n, axis))
    for layout in ("rows", "columns"):
        for kind in ("sum", "argmax"):
            programs.append(row_sums(layout, True, Var("m", 0), n, float32, kind))
    return [*programs, centered_rows(n, 3)]


def vector_bits(text: str) -> set[int]:
    widths = {"float": 32, "double": 64, "half": 16, "ptr": 64}
    found = re.findall(r"<(\d+) x (\w+)>", text)
    return {
        int(count) * (widths.get(kind) or int(kind[1:])) for count, kind in found if kind != "i1"
    }


@each_target
def test_no_vector_is_wider_than_the_target(target: str) -> None:
    caps = caps_of(target)
    widths = vector_bits("\n".join(lower_text(p, caps) for p in many_programs()))
    assert max(widths) == 8 * caps.vector_bytes


@each_target
def test_no_calls_remain_in_the_code(target: str) -> None:
    caps = caps_of(target)
    module, _ = lower(many_programs(), caps)
    assembly = assembly_of(str(module), split_target(caps.features))
    assert not re.search(r"^\s+(call|jmp)q?\s+\*?[A-Za-z_]\w*(@PLT)?$", assembly, re.M)


def test_target_has_its_registers() -> None:
    axis = Axis("i", 4096)
    x = Buffer("x", float32, 4096)
    program = program_of(s.load(x, axis.var) + 1.0, (x,), 4096, axis)
    for target, register in (("host", "%zmm"), ("avx2", "%ymm"), ("generic", "%xmm")):
        caps = caps_of(target)
        assembly = assembly_of(lower_text(program, caps), split_target(caps.features))
        if caps.vector_bytes == {"%zmm": 64, "%ymm": 32, "%xmm": 16}[register]:
            assert register in assembly
    assert "fma" not in assembly.split(".rodata")[0]


def test_multiply_and_add_are_not_contracted() -> None:
    axis = Axis("i", 64)
    x = Buffer("x", float32, 64)
    value = s.load(x, axis.var) * s.load(x, axis.var) + 1.0
    caps = caps_of("host")
    assembly = assembly_of(
        lower_text(program_of(value, (x,), 64, axis), caps), split_target(caps.features)
    )
    assert "vfmadd" not in assembly


@pytest.mark.parametrize("target", ["host", "avx2"])
def test_random_bits_do_not_widen_their_words(target: str) -> None:
    """High halves of products are those of pairs of words, as they lie in a vector."""
    axis = Axis("i", 4096)
    keys = Buffer("keys", int64, 2)
    seed, offset = s.load(keys, 0), s.load(keys, 1)
    program = program_of(random_bits_scalar(seed, offset, s.index(axis.var)), (keys,), 4096, axis)
    caps = caps_of(target)
    assembly = assembly_of(lower_text(program, caps), split_target(caps.features))
    assert "vpmuludq" in assembly and "vpmovzxdq" not in assembly


def test_object_code_loads_without_compiling() -> None:
    n = Var("n", 1)
    program = centered_rows(n, 3)
    first = build([program], caps_of("host"))[0]
    record, data = json.loads(json.dumps(record_of(first))), first.object_bytes
    old = first.launches[0]
    del first
    again = restore(program, record, data)
    assert again.launches[0].local_bytes == old.local_bytes
    assert (again.launches[0].grain, again.launches[0].cost) == (old.grain, old.cost)
    got = np.zeros(30, np.float32)
    array = np.arange(30, dtype=np.float32)
    run(again, [array, got], {"n": 10})
    np.testing.assert_allclose(got.reshape(3, 10).sum(1), 0, atol=1e-4)
    with pytest.raises(ValueError, match="not arithmetic"):
        parse_size("__import__('os')", {"n": n})


def test_the_same_program_gives_the_same_object() -> None:
    caps = caps_of("host")
    texts = [str(lower(many_programs(), caps)[0]) for _ in range(2)]
    assert texts[0] == texts[1]
    target = split_target(caps.features)
    assert compile_text(texts[0], target) == compile_text(texts[1], target)


def resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() >> 10


# A program that stays loaded costs about 45 KiB here; the bounds are half of what all would cost.
@pytest.mark.parametrize(
    ("count", "warm", "most_kib"),
    [(300, 60, 5 << 10), pytest.param(1200, 400, 18 << 10, marks=pytest.mark.slow)],
)
def test_dropped_programs_are_unloaded(count: int, warm: int, most_kib: int) -> None:
    """Programs built, run and dropped: memory stays flat after the first ones."""
    caps = caps_of("host")
    axis = Axis("i", 40)
    x = Buffer("x", float32, 40)
    array, got = np.ones(40, np.float32), np.zeros(40, np.float32)
    before = 0
    for number in range(count):
        value = s.load(x, axis.var) + float(number)
        executable = build([program_of(value, (x,), 40, axis)], caps)[0]
        if number % 100 == 0:
            run(executable, [array, got])
            assert got[7] == number + 1
        del executable
        if number == warm:
            gc.collect()
            before = resident_kib()
    gc.collect()
    assert resident_kib() - before < most_kib


def test_a_backend_is_found_by_name() -> None:
    backend = find_backend("llvm")
    caps = backend.find()
    assert isinstance(caps, Caps) and not isinstance(caps, Missing)
    assert {d.name for d in (*ALL_DTYPES, *BYTE_FLOATS)} == caps.dtypes
    program = centered_rows(16, 3)
    assert "define void" in backend.lower_text(program, caps)
    assert backend.build([program], caps)[0].launches[0].address
    with pytest.raises(ValueError, match="nosuch.*llvm"):
        find_backend("nosuch")
