"""Tiny hand-written kernels for tests of the executor, and plans made of them."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import llvmlite.binding as llvm
import numpy as np

from rushlight.backends.llvm.types import Launch, LlvmExecutable
from rushlight.base.dtypes import DType, int64
from rushlight.compiler.target import BufferSpec, Caps, KernelCall, Plan
from rushlight.compiler.tile.ir import Buffer, Param, Program
from rushlight.ir.symint import Var

HEAD = "(i64 %begin, i64 %end, ptr %bufs, ptr %ints, ptr %scalars, ptr %local, ptr %status)"


def loop(name: str, before: str, body: str) -> str:
    """A kernel that runs `body` for %id = begin, ..., end - 1."""
    return f"""
define void @{name}{HEAD} {{
entry:
  %p0 = load ptr, ptr %bufs
  {before}
  br label %head
head:
  %id = phi i64 [ %begin, %entry ], [ %id.next, %tail ]
  %go = icmp slt i64 %id, %end
  br i1 %go, label %body, label %out
body:
  %x = getelementptr i64, ptr %p0, i64 %id
  {body}
  br label %tail
tail:
  %id.next = add i64 %id, 1
  br label %head
out:
  ret void
}}
"""


ADD_ONE = """%old = load i64, ptr %x
  %new = add i64 %old, 1
  store i64 %new, ptr %x"""
# ints[0] is added; scalars[0] (an int32) too.
ADD_SIZES = """%old = load i64, ptr %x
  %size = load i64, ptr %ints
  %scalar = load i32, ptr %scalars
  %wide = sext i32 %scalar to i64
  %sum = add i64 %old, %size
  %new = add i64 %sum, %wide
  store i64 %new, ptr %x"""
# Writes id to the local scratch and reads it back: two threads on one scratch would be seen.
USE_LOCAL = """store volatile i64 %id, ptr %local
  %back = load volatile i64, ptr %local
  %last = getelementptr i64, ptr %local, i64 4095
  store volatile i64 %back, ptr %last
  %same = load volatile i64, ptr %last
  store i64 %same, ptr %x"""
SET_STATUS = """%is = icmp eq i64 %id, 37
  %code = select i1 %is, i64 5, i64 0
  br i1 %is, label %bad, label %tail
bad:
  store i64 %code, ptr %status"""
# About 1 us of work per instance.
SLOW = """br label %spin
spin:
  %turn = phi i64 [ 0, %body ], [ %turn.next, %spin ]
  %slot = load volatile i64, ptr %x
  %turn.next = add i64 %turn, 1
  %more = icmp slt i64 %turn.next, 600
  br i1 %more, label %spin, label %spun
spun:
  %new = add i64 %slot, 1
  store i64 %new, ptr %x"""
# The same, then says which thread ran it: its scratch.
WHO = SLOW.replace("%new = add i64 %slot, 1", "%new = ptrtoint ptr %local to i64")


@functools.cache
def library() -> SimpleNamespace:
    """Addresses of the kernels, by name."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = "".join(
        [
            loop("add_one", "", ADD_ONE),
            loop("add_sizes", "", ADD_SIZES),
            loop("use_local", "", USE_LOCAL),
            loop("who", "", WHO),
            loop("set_status", "", SET_STATUS),
            loop("slow", "", SLOW),
            f"define void @nothing{HEAD} {{ ret void }}\n",
        ]
    )
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, jit=True)
    engine = llvm.create_lljit_compiler(machine)
    builder = llvm.JITLibraryBuilder().add_ir(text)
    names = ("add_one", "add_sizes", "use_local", "who", "set_status", "slow", "nothing")
    for name in names:
        builder.export_symbol(name)
    tracker = builder.link(engine, "test_kernels")
    found = {name: tracker[name] for name in names}
    return SimpleNamespace(engine=engine, tracker=tracker, **found)


def executable(
    *names: str,
    instances=64,
    grain: int = 1,
    cost=1_000_000,
    local_bytes=0,
    sizes: tuple[Var, ...] = (),
    params: tuple[tuple[str, DType], ...] = (),
) -> LlvmExecutable:
    """One launch per name; one int64 buffer. The huge cost makes sure that workers take part."""
    launches = tuple(
        Launch(name, getattr(library(), name), instances, local_bytes, grain, cost)
        for name in names
    )
    program = Program(
        names[0],
        (Buffer("x", int64, instances, "inout"),),
        tuple(Param(name, dtype) for name, dtype in params),
        sizes,
        (),
    )
    return LlvmExecutable(program, launches)


def call(exe: LlvmExecutable, buffer: int, ints=(), scalars=()) -> KernelCall:
    return KernelCall(exe, (buffer,), tuple(ints), tuple(scalars), exe.program.name)


def plan_of(regions, buffers: int = 1, size=64, variables: tuple[str, ...] = ()) -> Plan:
    specs = tuple(BufferSpec(int64, size, "input") for _ in range(buffers))
    return Plan(specs, tuple(tuple(region) for region in regions), variables)


def addresses(*arrays: np.ndarray) -> list[int]:
    return [array.ctypes.data for array in arrays]


NO_INTS = np.empty(0, np.int64)
CAPS = Caps("llvm")
