"""Metal text to native functions of the host (see emulation/).

In: the text and its kernels. Out: a shared library with `void run_NAME(first, stop, buffers,
numbers, status)` per kernel, as cfamily/host.py calls them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.native import compile_library
from rushlight.backends.metal.caps import find_compiler
from rushlight.backends.metal.language import Metal

FOLDER = Path(__file__).parent / "emulation"
FLAGS = (
    "-std=c++17", "-O1", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fPIC",
    "-shared", "-Wno-attributes", "-Wno-unknown-pragmas", f"-I{FOLDER}",
)  # fmt: skip
PREFIX = "run_"
DIVERGED = -1  # the status of a kernel whose threads waited for one another in vain


def emulated_library(source: str, programs: Sequence[c.ThreadProgram]) -> bytes:
    callers = [_caller(program, kernel) for program in programs for kernel in program.kernels]
    command = (str(find_compiler()), *FLAGS)
    return compile_library("\n".join([source, *callers]), ".cpp", command, "metal")


def _caller(program: c.ThreadProgram, kernel: c.Kernel) -> str:
    """C++ that runs groups of one kernel."""
    language = Metal()
    memories = (*program.program.buffers, *program.scratch)
    given = [f"({language.memory_type(m.dtype)} *)buffers[{i}]" for i, m in enumerate(memories)]
    call = f"{kernel.name}({', '.join([*given, 'numbers', 'status', 'uint(group)', 'position'])});"
    # Threads that never wait for one another need no fibers.
    barriers = any(isinstance(one, c.Barrier) for one in c.walk(kernel.body))
    waits = barriers or c.uses_subgroup(kernel.body)
    if waits:
        run = (
            f"if (!emulated::run_group({kernel.threads}, [&](uint position) {{ {call} }})) "
            f"{{ *status = {DIVERGED}; return; }}"
        )
    else:
        run = f"for (uint position = 0; position < {kernel.threads}; position++) {call}"
    return (
        f'extern "C" void {PREFIX}{kernel.name}(long first, long stop, void *const *buffers,\n'
        "    const long *numbers, long *status)\n"
        "{\n    std::vector<long> order;\n"
        "    for (long turn : emulated::order_of(stop - first, order)) {\n"
        f"        const long group = first + turn;\n        {run}\n    }}\n}}\n"
    )
