"""build(programs, caps): OpenCL C, the driver's program, kernels. One source for all programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.backends.cfamily.code import ThreadProgram
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.cfamily.run import GroupExecutable
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.opencl.driver_impl import has_doubles, require_driver
from rushlight.backends.opencl.language import OpenCL
from rushlight.base.errors import BackendError
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Program


def build(programs: Sequence[Program], caps: Caps) -> list[GroupExecutable]:
    lowered = lower_programs(programs, Machine.of(caps))
    source = print_programs(lowered, language())
    driver = require_driver()
    program = compiled(driver.cl.Program(driver.context, source))
    (binary,) = program.get_info(driver.cl.program_info.BINARIES)
    return attach(lowered, source, binary, program)


def compiled(program: Any) -> Any:
    driver = require_driver()
    try:
        return program.build(options=driver.options)
    except driver.cl.Error as error:
        raise BackendError(f"backend opencl: the driver's compiler failed: {error}") from error


def language() -> OpenCL:
    driver = require_driver()
    return OpenCL(has_doubles(driver.device), driver.progress, driver.subgroup)


def lower_text(program: Program, caps: Caps) -> str:
    """The OpenCL C of a program."""
    return print_programs(lower_programs([program], Machine.of(caps)), language())


def attach(
    lowered: Sequence[ThreadProgram], source: str, binary: bytes, program: Any
) -> list[GroupExecutable]:
    kernel = require_driver().cl.Kernel
    return [
        GroupExecutable(
            one.program, one, tuple(kernel(program, k.name) for k in one.kernels), source, binary
        )
        for one in lowered
    ]


def dump(executable: GroupExecutable) -> bytes:
    return executable.binary


def restore(program: Program, data: bytes, caps: Caps) -> GroupExecutable:
    """From what `dump` wrote; the program is lowered again, which is quick."""
    driver = require_driver()
    lowered = lower_programs([program], Machine.of(caps))
    try:
        loaded = driver.cl.Program(driver.context, [driver.device], [data])
        (found,) = attach(lowered, "", data, loaded.build(options=driver.options))
    except driver.cl.Error as error:
        raise ValueError(f"not a program of this driver: {error}") from error
    return found
