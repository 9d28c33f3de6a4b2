"""build(programs, caps): C source, a shared library, functions. One source for all programs."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.c.caps import FLAGS, find_compiler
from rushlight.backends.c.language import C
from rushlight.backends.cfamily.code import ThreadProgram
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.host import load_on_host
from rushlight.backends.cfamily.lower import lower_program, lower_programs
from rushlight.backends.cfamily.native import Library, compile_library
from rushlight.backends.cfamily.run import GroupExecutable, GroupPlan
from rushlight.backends.cfamily.text import print_programs
from rushlight.base.config import config
from rushlight.compiler.target import Caps, Plan
from rushlight.compiler.tile.ir import Program


def build(programs: Sequence[Program], caps: Caps) -> list[GroupExecutable]:
    lowered = lower_programs(programs, Machine.of(caps))
    source = print_programs(lowered, C())
    return attach(lowered, source, compile_source(source))


def lower_text(program: Program, caps: Caps) -> str:
    """The C source of a program."""
    return print_programs(lower_programs([program], Machine.of(caps)), C())


def compile_source(source: str, flags: Sequence[str] = FLAGS) -> bytes:
    """A shared library from C text."""
    return compile_library(source, ".c", (*find_compiler(config.c_compiler), *flags), "c")


def attach(lowered: Sequence[ThreadProgram], source: str, binary: bytes) -> list[GroupExecutable]:
    library = Library(binary)
    return [
        GroupExecutable(
            one.program, one, tuple(library.function(k.name) for k in one.kernels), source, binary
        )
        for one in lowered
    ]


def load(plan: Plan, caps: Caps) -> GroupPlan:
    return load_on_host(plan, caps.threads)


def dump(executable: GroupExecutable) -> bytes:
    return executable.binary


def restore(program: Program, data: bytes, caps: Caps) -> GroupExecutable:
    """From what `dump` wrote; the program is lowered again, which is quick."""
    (found,) = attach([lower_program(program, Machine.of(caps))], "", data)
    return found
