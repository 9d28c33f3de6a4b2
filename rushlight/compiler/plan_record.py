"""A plan as plain data for the disk cache, and back, without any pass of the compiler.

In: a `Plan` and the key of each of its executables. Out: JSON-able data; from it and executables
found by their keys, a plan that runs the same kernels on the same buffers. Sizes are texts of
ir/symint.py; a host function is named by its record. Nothing that is read runs.

What only people look at is not kept: a plan read back knows the names of its kernels, not their
tile programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.base.dtypes import DType, find_dtype
from rushlight.compiler.checks import read_checks
from rushlight.compiler.host_calls import host_function
from rushlight.compiler.kernel_info import KernelInfo
from rushlight.compiler.target import BufferSpec, Executable, HostCall, KernelCall, Plan
from rushlight.compiler.tile.ir import Buffer, Param, Program
from rushlight.ir.opdef import find_op
from rushlight.ir.size_text import parse_size
from rushlight.ir.symint import Expr, Var


class NotPlain(ValueError):
    """Something in a plan has no form as plain data."""


def record_of(plan: Plan, key_of: Callable[[Executable], str]) -> dict[str, Any]:
    """The plan as data. NotPlain when something in it has no such form."""
    numbers: dict[int, int] = {}
    kernels: list[dict[str, Any]] = []
    for region in plan.regions:
        for call in region:
            if isinstance(call, KernelCall) and id(call.executable) not in numbers:
                numbers[id(call.executable)] = len(kernels)
                kernels.append({"key": key_of(call.executable), **_head(call.executable.program)})
    return {
        "variables": list(plan.variables),
        "buffers": [[spec.dtype.name, str(spec.size), spec.kind] for spec in plan.buffers],
        "kernels": kernels,
        "regions": [[_call(call, numbers) for call in region] for region in plan.regions],
        "order": list(plan.order),
        "reuse": list(plan.reuse.items()),
        "lifetimes": [[buffer, *life] for buffer, life in plan.lifetimes.items()],
        "checked_at": list(plan.checked_at),
        "checks": None if plan.checks is None else plan.checks().record(),
        "infos": [
            [info.name, info.label, info.kind, [str(size) for size in info.shape], list(info.ops)]
            for info in plan.kernels
        ],
    }


def _head(program: Program) -> dict[str, Any]:
    return {
        "name": program.name,
        "buffers": [[b.name, b.dtype.name, str(b.size), b.role] for b in program.buffers],
        "params": [[param.name, param.dtype.name] for param in program.params],
        "sizes": [[var.name, var.kind] for var in program.sizes],
    }


def _call(call: KernelCall | HostCall, numbers: Mapping[int, int]) -> dict[str, Any]:
    if isinstance(call, KernelCall):
        return {
            "kernel": numbers[id(call.executable)],
            "buffers": list(call.buffers),
            "ints": [str(value) for value in call.ints],
            "scalars": list(call.scalars),
            "label": call.label,
        }
    return {
        "host": call.label,
        "attrs": [plain(value) for value in call.attrs],
        "inputs": list(call.inputs),
        "outputs": list(call.outputs),
        "shapes": [[str(size) for size in shape] for shape in call.shapes],
        "at": call.at,
    }


def plain(value: Any) -> Any:
    """An attribute as JSON-able data: equal data, equal attribute. NotPlain for other things."""
    if value is None or isinstance(value, bool | str):
        return value
    if type(value) is int:
        return {"i": str(value)}
    if type(value) is float:
        return {"f": value.hex()}
    if type(value) in (tuple, list):
        return [plain(item) for item in value]
    if isinstance(value, DType):
        return {"d": value.name}
    if isinstance(value, Expr):
        return {"e": str(value)}
    raise NotPlain(f"a {type(value).__name__} cannot be kept on disk")


def _unplain(value: Any, sizes: Mapping[str, Var]) -> Any:
    if isinstance(value, list):
        return tuple(_unplain(item, sizes) for item in value)
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "e":
        return parse_size(held, sizes)
    return {"i": int, "f": float.fromhex, "d": find_dtype}[kind](held)


def program_of(record: Mapping[str, Any]) -> Program:
    """A kernel's program without its grids: what calling it needs."""
    sizes = tuple(Var(name, 0, None, kind) for name, kind in record["sizes"])
    names = {var.name: var for var in sizes}
    return Program(
        record["name"],
        tuple(
            Buffer(name, find_dtype(dtype), parse_size(size, names), role)
            for name, dtype, size, role in record["buffers"]
        ),
        tuple(Param(name, find_dtype(dtype)) for name, dtype in record["params"]),
        sizes,
        (),
    )


class _Reader:
    """What a record says, over the plan's variables and the executables found for it."""

    def __init__(self, record: Mapping[str, Any], executables: Sequence[Executable]) -> None:
        self.executables = executables
        self.variables = {name: Var(name) for name in record["variables"]}
        self.count = len(record["buffers"])
        self.known: dict[str, int | Expr] = {}

    def size(self, source: str) -> int | Expr:
        if source not in self.known:
            self.known[source] = parse_size(source, self.variables)
        return self.known[source]

    def sizes(self, sources: Sequence[str]) -> tuple[int | Expr, ...]:
        return tuple(map(self.size, sources))

    def places(self, numbers: Sequence[int]) -> tuple[int, ...]:
        if not all(0 <= number < self.count for number in numbers):
            raise ValueError(f"a plan of {self.count} buffers uses the buffers {list(numbers)}")
        return tuple(numbers)

    def call(self, call: Mapping[str, Any]) -> KernelCall | HostCall:
        if "kernel" in call:
            executable, scalars = self.executables[call["kernel"]], tuple(call["scalars"])
            buffers, ints = self.places(call["buffers"]), self.sizes(call["ints"])
            return KernelCall(executable, buffers, ints, scalars, call["label"])
        attrs = _unplain(call["attrs"], self.variables)
        shapes = tuple(map(self.sizes, call["shapes"]))
        fn = host_function(find_op(call["host"]), attrs)
        inputs, outputs = self.places(call["inputs"]), self.places(call["outputs"])
        return HostCall(fn, inputs, outputs, shapes, call["host"], call["at"], attrs)


def plan_of(
    record: Mapping[str, Any], executables: Sequence[Executable], sites: Sequence[str]
) -> Plan:
    """The plan. `executables`: one per record["kernels"]; `sites`: as of Plan."""
    reader = _Reader(record, executables)
    checks = record["checks"]  # None: the error of a check then says no value
    return Plan(
        tuple(BufferSpec(find_dtype(d), reader.size(n), kind) for d, n, kind in record["buffers"]),
        tuple(tuple(map(reader.call, region)) for region in record["regions"]),
        tuple(record["variables"]),
        tuple(sites),
        order=tuple(record["order"]),
        reuse=dict(map(tuple, record["reuse"])),
        lifetimes={buffer: (a, b) for buffer, a, b in record["lifetimes"]},
        kernels=tuple(
            KernelInfo(name, label, kind, reader.sizes(shape), tuple(ops), ())
            for name, label, kind, shape, ops in record["infos"]
        ),
        checks=lambda: read_checks(checks, reader.variables),
        checked_at=tuple(record["checked_at"]),
    )
