"""Host calls of a plan: numpy views of its buffers, and the call.

In: a HostCall, addresses of the plan's buffers, the values of its variables. Always true: the views
are over the buffers' own memory, and inputs come before outputs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.compiler.target import HostCall, Plan
from rushlight.ir.symint_walk import evaluate


def run_host_call(
    call: HostCall, plan: Plan, addresses: Sequence[int], env: Mapping[str, int]
) -> None:
    shaped = []
    for number, shape in zip((*call.inputs, *call.outputs), call.shapes, strict=True):
        sizes = tuple(evaluate(size, env) for size in shape)
        flat = view(int(addresses[number]), plan.buffers[number].dtype, prod(sizes))
        shaped.append(flat.reshape(sizes))
    count = len(call.inputs)
    call.fn(shaped[:count], shaped[count:])


def view(address: int, dtype: DType, count: int) -> np.ndarray:
    """A flat array over memory that somebody else keeps alive."""
    nbytes = count * dtype.itemsize
    if nbytes == 0:
        return np.empty(0, dtype.np)
    raw = (ctypes.c_char * nbytes).from_address(address)
    return np.frombuffer(raw, dtype=np.uint8).view(dtype.np)  # type: ignore
