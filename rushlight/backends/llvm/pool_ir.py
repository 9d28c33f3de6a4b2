"""The native side of the thread pool, as LLVM IR: no C compiler is needed for it.

Out: `native()`, the compiled functions as ctypes callables (each call gives up Python's lock):

  pool_init(pool)                 make the mutex and the condition
  pool_stop(pool)                 send every worker home
  worker_main(pool, index)        what a worker thread runs; returns after pool_stop
  run_plan(pool, regions, launches, first, n_regions, status, local, budget_ns, share_ps, slice_ps)
                                  -> next region
  run_words(words)                run_plan with the ten arguments that lie there
  pause_many(n)                   n turns of the idle loop (to measure how long one is)

The code itself, and how it works, is in pool_text.py, pool_place.py and pool_caller.py.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
from types import SimpleNamespace

import llvmlite.binding as llvm

from rushlight.backends.llvm.caps import Target, initialize
from rushlight.backends.llvm.jit import compile_text, kept_object, load_object
from rushlight.backends.llvm.pool_caller import CALLER
from rushlight.backends.llvm.pool_place import PLACE, PLACE_NOWHERE
from rushlight.backends.llvm.pool_text import WORKERS

# Bytes into the pool's struct. What one side writes often has a cache line pair of its own.
COUNTER, DONE, WORK, SLEEPERS, EXIT, MUTEX, COND, CONFIG = range(0, 1024, 128)
POOL_BYTES = 1024
# WORK: launches, number of launches, units, status; CONFIG: spins, locals, threads,
# ids (the system's numbers of the threads), caller_cpu.
OFFSETS = {
    "counter": COUNTER,
    "done": DONE,
    "work_launches": WORK,
    "work_count": WORK + 8,
    "work_units": WORK + 16,
    "work_status": WORK + 24,
    "sleepers": SLEEPERS,
    "exit": EXIT,
    "mutex": MUTEX,
    "cond": COND,
    "spins": CONFIG,
    "locals": CONFIG + 8,
    "threads": CONFIG + 16,
    "ids": CONFIG + 24,
    "caller_cpu": CONFIG + 32,
}
BIAS = 1 << 40

# Fields of a launch record, eight bytes each, in order.
LAUNCH_FIELDS = (
    "function", "buffers", "ints", "scalars", "count", "grain", "cost_ps", "first_unit",
)  # fmt: skip
_PAUSE = {
    "x86": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}

# How a kernel is called: the one place that knows the signature of compiled tile programs.
KERNEL_CALL = (
    "call void %function(i64 %begin, i64 %end, ptr %buffers, ptr %ints, ptr %scalars, "
    "ptr %local, ptr %status)"
)


_DECLARED = re.compile(r"^declare i32 (@(?:pthread|sched|clock)_\w+\([^)]*\))$", re.MULTILINE)


def without_threads(text: str) -> str:
    """For a system without pthreads: nothing sleeps or wakes, and no time passes.

    Only programs on the calling thread are run then.
    """
    text = _DECLARED.sub(r"define internal i32 \1 { ret i32 0 }", text)
    # A clock that was not written would give any number.
    return text.replace(
        "%clock = alloca [2 x i64], align 8",
        ("%clock = alloca [2 x i64], align 8\n  store [2 x i64] zeroinitializer, ptr %clock"),
    )


def pool_ir(triple: str, threads: bool = os.name != "nt") -> str:
    """The module's text for a target triple."""
    arch = triple.split("-")[0]
    family = "x86" if arch in ("x86_64", "i686", "i386") else "aarch64"
    known = family == "x86" or arch in ("aarch64", "arm64")
    declare, pause = _PAUSE[family] if known else ("", "")
    place = PLACE if sys.platform == "linux" else PLACE_NOWHERE
    text = WORKERS + place + CALLER + _words_ir()
    text = text.replace("<pause_declare>", declare).replace("<pause>", pause)
    text = text.replace("<BIAS>", str(BIAS)).replace("<call>", KERNEL_CALL)
    text = text.replace("<CLOCK>", "6" if sys.platform == "darwin" else "1")  # CLOCK_MONOTONIC
    for name, offset in OFFSETS.items():
        text = text.replace(f"<at {name}>", f"%{name} = getelementptr i8, ptr %pool, i64 {offset}")
    return text if threads else without_threads(text)


_SIGNATURES = {
    "pool_init": (None, 1),
    "pool_stop": (None, 1),
    "worker_main": (None, 2),
    "pause_many": (None, 2),
    "run_plan": (ctypes.c_int64, 10),
    "run_words": (ctypes.c_int64, 1),
}
RUN_WORDS = _SIGNATURES["run_plan"][1]
# Of the arguments of run_plan, numbers: all others are addresses.
_NUMBER_WORDS = (3, 4, 7, 8, 9)


def _words_ir() -> str:
    """`run_words`: one argument is converted faster than ten."""
    kinds = ["i64" if i in _NUMBER_WORDS else "ptr" for i in range(RUN_WORDS)]
    lines = ["define i64 @run_words(ptr %words) {"]
    for i, kind in enumerate(kinds):
        lines.append(f"  %at.{i} = getelementptr i64, ptr %words, i64 {i}")
        lines.append(f"  %word.{i} = load {kind}, ptr %at.{i}")
    given = ", ".join(f"{kind} %word.{i}" for i, kind in enumerate(kinds))
    return "\n".join([*lines, f"  %next = call i64 @run_plan({given})", "  ret i64 %next", "}", ""])


@functools.cache
def native() -> SimpleNamespace:
    """The compiled functions. Loaded once per process and never unloaded."""
    initialize()
    triple = llvm.get_process_triple()
    text = pool_ir(triple)
    # For any CPU of this kind: nothing here is worth its special instructions.
    target = Target("", "", 16, avx512=False, fma=False, f16c=False, bfloat16_words=False)
    data = kept_object(f"pool {triple} {text}", lambda: compile_text(text, target))
    library = load_object(data, list(_SIGNATURES))
    functions = {
        name: ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * arity)(library.addresses[name])
        for name, (result, arity) in _SIGNATURES.items()
    }
    return SimpleNamespace(library=library, **functions)
