"""The text of a module: all kernels of some programs, and the functions that they call.

In: tile programs. Out: thread programs and their text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rushlight.backends.cfamily.code import Kernel, ThreadProgram
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.helpers import Helper
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.triton.flash import FlashKernel, FlashPrinter, lower_flash
from rushlight.backends.triton.lanes import LanePrinter, print_function
from rushlight.backends.triton.language import Triton
from rushlight.backends.triton.space import AnySchedule, FlashSchedule, Schedule
from rushlight.backends.triton.tiles import TileKernel, TilePrinter, lower_tiles
from rushlight.compiler.target import Caps
from rushlight.compiler.tile import ir


def lowered(
    programs: Sequence[ir.Program], caps: Caps, wanted: AnySchedule | None = None
) -> list[ThreadProgram]:
    """`wanted`: how products, or attention, are cut."""
    dot = wanted if isinstance(wanted, Schedule) else None
    flash = wanted if isinstance(wanted, FlashSchedule) else None
    own = {
        ir.DotGrid: partial(lower_tiles, wanted=dot),
        ir.AttentionGrid: partial(lower_flash, wanted=flash),
    }
    return lower_programs(programs, Machine.of(caps), own)


def schedule_of(program: ThreadProgram) -> AnySchedule | None:
    """How its product or attention is cut; None: it has none."""
    for kernel in program.kernels:
        if isinstance(kernel, (TileKernel, FlashKernel)):
            return kernel.schedule
    return None


def print_module(programs: Sequence[ThreadProgram], narrow: bool = False) -> str:
    """`narrow`: products of 16-bit floats take them as they are (the interpreter cannot)."""
    language = Triton()
    helpers: dict[str, Helper] = {}
    kernels = []
    for program in programs:
        for kernel in program.kernels:
            printer = _printer(program, kernel, language, narrow)
            kernels.append("\n".join(printer.run()))
            helpers.update(printer.exprs.used)
    functions = ["\n".join(print_function(helper, language)) for helper in helpers.values()]
    return "\n\n\n".join([language.prologue, *functions, *kernels]) + "\n"


def _printer(program: ThreadProgram, kernel: Kernel, language: Triton, narrow: bool) -> LanePrinter:
    if isinstance(kernel, TileKernel):
        return TilePrinter(program, kernel, language, narrow)
    if isinstance(kernel, FlashKernel):
        return FlashPrinter(program, kernel, language, narrow)  # type: ignore[arg-type]
    return LanePrinter(program, kernel, language)
