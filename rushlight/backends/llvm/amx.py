"""May this process use the tile registers (AMX)? Linux gives them on request, once per process.

Their 8 KiB would make every thread's signal frames larger, so the kernel asks that a program says
that it wants them (arch_prctl). The permission holds for all threads, those that run already and
those that start later, so it is asked for when the CPU is looked at: before any code is made.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys

SYS_ARCH_PRCTL = 158  # x86-64
ARCH_REQ_XCOMP_PERM = 0x1023
XFEATURE_XTILEDATA = 18


@functools.cache
def why_not() -> str:
    """ "" where the kernel lets this process use tile registers, else what it said."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"{sys.platform} on {platform.machine()} is not asked for tile registers, Linux is"
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    args = (SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
    if call(*map(ctypes.c_long, args)) == 0:
        return ""
    number = ctypes.get_errno()
    return f"the kernel does not permit tile registers: {os.strerror(number)} (errno {number})"
