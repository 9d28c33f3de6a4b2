"""build(programs, caps): Metal text, then pipelines of the device or functions of the emulation."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily.code import ThreadProgram
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.host import load_on_host
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.cfamily.native import Library
from rushlight.backends.cfamily.run import GroupExecutable, GroupPlan
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.metal.driver_impl import compile_pipelines, load_on_device
from rushlight.backends.metal.emulate import PREFIX, emulated_library
from rushlight.backends.metal.language import Metal
from rushlight.backends.metal.package import find_library
from rushlight.base.config import config
from rushlight.compiler.target import Caps, Plan
from rushlight.compiler.tile.ir import Program


def build(programs: Sequence[Program], caps: Caps) -> list[GroupExecutable]:
    lowered = lower_programs(programs, Machine.of(caps))
    source = print_programs(lowered, Metal())
    binary = emulated_library(source, lowered) if config.metal_emulation else source.encode()
    return attach(lowered, source, binary)


def lower_text(program: Program, caps: Caps) -> str:
    """The Metal text of a program."""
    return print_programs(lower_programs([program], Machine.of(caps)), Metal())


def attach(lowered: Sequence[ThreadProgram], source: str, binary: bytes) -> list[GroupExecutable]:
    """`binary`: a library of the emulation, or the text (the driver has a cache of its own)."""
    names = [kernel.name for one in lowered for kernel in one.kernels]
    if config.metal_emulation:
        library = Library(binary)
        functions = [library.function(PREFIX + name) for name in names]
    else:
        text = binary.decode()
        functions = compile_pipelines(text, names, find_library(text))
    found = []
    for one in lowered:
        mine, functions = functions[: len(one.kernels)], functions[len(one.kernels) :]
        found.append(GroupExecutable(one.program, one, tuple(mine), source, binary))
    return found


def load(plan: Plan, caps: Caps) -> GroupPlan:
    # The emulation runs one group at a time.
    return load_on_host(plan, 1) if config.metal_emulation else load_on_device(plan)


def dump(executable: GroupExecutable) -> bytes:
    return executable.binary


def restore(program: Program, data: bytes, caps: Caps) -> GroupExecutable:
    (found,) = attach(lower_programs([program], Machine.of(caps)), "", data)
    return found
