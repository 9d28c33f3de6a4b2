"""build(programs, caps): tile programs to loaded native code, an LLVM module for each.

Python lowers one program while a second thread has LLVM compile the one before: LLVM runs without
Python's lock. More threads would wait for each other, since llvmlite lets one call in at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType

import llvmlite.ir as ir

from rushlight.backends.llvm.attention import lower_attention_grid
from rushlight.backends.llvm.body import lower_grid
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.context import KernelContext
from rushlight.backends.llvm.dot import lower_dot_grid
from rushlight.backends.llvm.jit import Library, compile_text, load_object
from rushlight.backends.llvm.scatter import lower_scatter_grid
from rushlight.backends.llvm.space import AnySchedule
from rushlight.backends.llvm.types import Launch, LlvmExecutable, Scratch
from rushlight.compiler.decisions import Decision
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import AttentionGrid, DotGrid, Grid, Program, ScatterGrid

# Grids with an algorithm of their own.
_LOWER: dict[type, Callable[..., tuple[list[Launch], list[Scratch]]]] = {
    DotGrid: lower_dot_grid,
    AttentionGrid: lower_attention_grid,
    ScatterGrid: lower_scatter_grid,
}

NONE_GIVEN: Mapping[Program, AnySchedule] = MappingProxyType({})


def build(programs: Sequence[Program], caps: Caps) -> list[LlvmExecutable]:
    """One executable per program, in order."""
    target = split_target(caps.features)
    if len(programs) == 1:
        module, lowered = lower(programs, caps)
        return attach(lowered, compile_text(str(module), target))
    compiling: list[tuple[list[LlvmExecutable], Future[bytes]]] = []
    helper = ThreadPoolExecutor(1, "rushlight-compiler")
    try:
        for program in programs:
            module, lowered = lower([program], caps)
            compiling.append((lowered, helper.submit(compile_text, str(module), target)))
        return [e for lowered, data in compiling for e in attach(lowered, data.result())]
    finally:
        helper.shutdown(cancel_futures=True)


def lower(
    programs: Sequence[Program],
    caps: Caps,
    schedules: Mapping[Program, AnySchedule] = NONE_GIVEN,
    decisions: tuple[Decision, ...] = (),
) -> tuple[ir.Module, list[LlvmExecutable]]:
    """The LLVM module, and executables whose launches have no addresses yet. schedules: of their
    contractions, where another one is wanted than is chosen; `decisions` says why."""
    module = ir.Module("rushlight", context=ir.Context())
    lowered = []
    for number, program in enumerate(programs):
        stem = re.sub(r"\W", "_", program.name)
        made = _lower_program(module, program, caps, f"{stem}_{number}", schedules.get(program))
        lowered.append(replace(made, decisions=decisions))
    return module, lowered


def build_object(programs: Sequence[Program], caps: Caps) -> tuple[bytes, list[LlvmExecutable]]:
    """An object file for a machine that need not be this one, and executables without addresses:
    their launches name the symbols."""
    module, lowered = lower(programs, caps)
    return compile_text(str(module), split_target(caps.features)), lowered


def lower_text(program: Program, caps: Caps) -> str:
    """The LLVM IR of a program, for people and tests."""
    return str(lower([program], caps)[0])


def attach(lowered: Sequence[LlvmExecutable], data: bytes) -> list[LlvmExecutable]:
    """Load object code and give the launches their addresses (also used by the disk cache)."""
    symbols = [launch.symbol for executable in lowered for launch in executable.launches]
    library = load_object(data, symbols)
    return [_located(executable, data, library) for executable in lowered]


def _located(executable: LlvmExecutable, data: bytes, library: Library) -> LlvmExecutable:
    launches = tuple(
        replace(launch, address=library.addresses[launch.symbol]) for launch in executable.launches
    )
    return replace(executable, launches=launches, object_bytes=data, library=library)


def _lower_program(
    module: ir.Module, program: Program, caps: Caps, stem: str, schedule: AnySchedule | None
) -> LlvmExecutable:
    launches: list[Launch] = []
    scratch: list[Scratch] = []
    for number, grid in enumerate(program.grids):

        def context(suffix: str = "", number: int = number) -> KernelContext:
            return KernelContext(module, program, caps, f"{stem}_g{number}{suffix}")

        if isinstance(grid, Grid):
            launches.append(lower_grid(context(), grid))
        else:
            given = (schedule,) if schedule is not None and isinstance(grid, DotGrid) else ()
            more, extra = _LOWER[type(grid)](context, program, grid, caps, *given)
            launches += more
            scratch += extra
    return LlvmExecutable(program, tuple(launches), tuple(scratch))
