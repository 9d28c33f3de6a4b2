"""Host calls of a plan: the function of a record, numpy views of the plan's buffers, and the call.

In: a HostCall, addresses of the plan's buffers, the values of its variables. Always true: the views
are over the buffers' own memory, those of inputs can only be read, and what the function raises
comes out as a HostError.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import SimpleNamespace

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.compiler.target import HostCall, Plan
from rushlight.ir.interpret import arguments
from rushlight.ir.opdef import OpDef
from rushlight.ir.symint_walk import evaluate


def host_function(record: OpDef, attrs: tuple) -> Callable[..., None]:
    """fn(inputs, outputs) over arrays, from the record."""
    function = record.host or record.reference
    assert function is not None

    def run(arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        call = SimpleNamespace(src=tuple(arrays), attrs=attrs)
        positional, named = arguments(record, call, lambda array: array)
        outputs[0][...] = function(*positional, **named)

    return run


def run_host_call(
    call: HostCall, plan: Plan, addresses: Sequence[int], env: Mapping[str, int]
) -> None:
    shapes = [tuple(evaluate(size, env) for size in shape) for shape in call.shapes]
    run_with_shapes(call, plan, addresses, shapes)


def run_with_shapes(
    call: HostCall,
    plan: Plan,
    addresses: Sequence[int] | np.ndarray,
    shapes: Sequence[tuple[int, ...]],
) -> None:
    """`shapes`: of the inputs, then of the outputs, as numbers."""
    arrays = [
        view(int(addresses[number]), plan.buffers[number].dtype, prod(shape)).reshape(shape)
        for number, shape in zip((*call.inputs, *call.outputs), shapes, strict=True)
    ]
    count = len(call.inputs)
    for array in arrays[:count]:
        array.flags.writeable = False
    call.run(arrays[:count], arrays[count:])


def view(address: int, dtype: DType, count: int) -> np.ndarray:
    """A flat array over memory that somebody else keeps alive."""
    nbytes = count * dtype.itemsize
    if nbytes == 0:
        return np.empty(0, dtype.np)
    raw = (ctypes.c_char * nbytes).from_address(address)
    return np.frombuffer(raw, dtype=np.uint8).view(dtype.np)  # type: ignore
