"""What each thread computes alone: arithmetic, comparisons, conversions, loads and stores.

In: a machine, an instruction, the threads that are active. Out: registers, memory. Always true: an
instruction that is not in the table is an error, never skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from rushlight.testing.ptx.memory import Wrong

KINDS: dict[str, Any] = {
    "pred": np.bool_, "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16,
    "u16": np.uint16, "s16": np.int16, "b32": np.uint32, "u32": np.uint32, "s32": np.int32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f32": np.float32, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "f64": np.float64,
}  # fmt: skip
_LETTER = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def literal(text: str, kind: str) -> Any:
    """A number of PTX."""
    if text.startswith(("0f", "0F")):
        value = struct.unpack(">f", bytes.fromhex(text[2:]))[0]
        return value if kind == "f32" else int(text[2:], 16)
    value = int(text, 0)
    dtype = np.dtype(KINDS[kind])
    if dtype.kind in "ui":
        return np.array(value % (1 << 8 * dtype.itemsize), _LETTER[dtype.itemsize]).view(dtype)
    return value


def _two(work: Callable[..., Any]) -> Callable[..., None]:
    """An operation of values of one kind, or of two halves at once (bf16x2)."""

    def do(machine: Any, one: Any, active: np.ndarray) -> None:
        kind, (to, *sources) = one.op[-1], one.operands
        with np.errstate(all="ignore"):
            if not kind.endswith("x2"):
                machine.put(to, work(*(machine.value(x, kind) for x in sources)), active, kind)
                return
            half = KINDS[kind[:-2]]
            whole = {2: "b32", 4: "b64"}[np.dtype(half).itemsize]
            words = [np.ascontiguousarray(machine.value(x, whole)) for x in sources]
            found = np.ascontiguousarray(work(*(x[:, None].view(half) for x in words)))
            machine.put(to, found.astype(half).view(KINDS[whole])[:, 0], active, whole)

    return do


_product = _two(np.multiply)


def _mul(machine: Any, one: Any, active: np.ndarray) -> None:
    kind, (to, *sources) = one.op[-1], one.operands
    if "wide" not in one.op and "hi" not in one.op:
        _product(machine, one, active)
        return
    values = [machine.value(x, kind) for x in sources]
    if "wide" in one.op:
        wide = {"s32": "s64", "u32": "u64", "s16": "s32", "u16": "u32"}[kind]
        a, b = (x.astype(KINDS[wide]) for x in values)
        machine.put(to, a * b, active, wide)
        return
    whole = values[0].astype(object) * values[1].astype(object)  # Python's, of any length
    machine.put(to, whole >> (8 * values[0].itemsize), active, kind)


def _mad(machine: Any, one: Any, active: np.ndarray) -> None:
    kind, (to, *sources) = one.op[-1], one.operands
    a, b = (machine.value(x, kind) for x in sources[:2])
    with np.errstate(all="ignore"):
        if "wide" in one.op:
            kind = {"s32": "s64", "u32": "u64"}[kind]
            a, b = a.astype(KINDS[kind]), b.astype(KINDS[kind])
        machine.put(to, a * b + machine.value(sources[2], kind), active, kind)


def _fused(a: Any, b: Any, c: Any) -> Any:
    """Exact product and sum in float64, rounded: as good as always what one rounding gives."""
    wide = [x.astype(np.float64) for x in (a, b, c)]
    return (wide[0] * wide[1] + wide[2]).astype(a.dtype)


def _shift(machine: Any, one: Any, active: np.ndarray) -> None:
    kind, (to, x, by) = one.op[-1], one.operands
    value, count = machine.value(x, kind), machine.value(by, "u32")
    bits = 8 * value.dtype.itemsize
    most = np.minimum(count, bits - 1).astype(value.dtype)
    if one.op[0] == "shl":
        found = np.where(count < bits, value << most, 0)
    elif kind.startswith("s"):
        found = value >> most
    else:
        found = np.where(count < bits, value >> most, 0)
    machine.put(to, found, active, kind)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "hi": np.greater,
}  # fmt: skip


def _setp(machine: Any, one: Any, active: np.ndarray) -> None:
    kind, name, (to, x, y, *more) = one.op[-1], one.op[1], one.operands
    a, b = machine.value(x, kind), machine.value(y, kind)
    if kind == "f32":
        nan = np.isnan(a) | np.isnan(b)
        if name in ("nan", "num"):
            found = nan if name == "nan" else ~nan
        elif name.endswith("u") and name[:-1] in _COMPARE:
            found = _COMPARE[name[:-1]](a, b) | nan
        else:
            found = _COMPARE[name](a, b) & ~nan
    else:
        found = _COMPARE[name](a, b)
    if more:
        third = machine.value(more[0].lstrip("!"), "pred") ^ more[0].startswith("!")
        found = {"and": np.logical_and, "or": np.logical_or}[one.op[2]](found, third)
    machine.put(to, found, active, "pred")


def _selp(machine: Any, one: Any, active: np.ndarray) -> None:
    kind, (to, x, y, which) = one.op[-1], one.operands
    found = np.where(
        machine.value(which, "pred"), machine.value(x, kind), machine.value(y, kind)
    )  # fmt: skip
    machine.put(to, found, active, kind)


def _mov(machine: Any, one: Any, active: np.ndarray) -> None:
    kind, (to, source) = one.op[-1], one.operands
    if source.startswith("{"):
        pieces = [x.strip() for x in source[1:-1].split(",")]
        part = {("b64", 2): "b32", ("b32", 2): "b16", ("b64", 4): "b16"}[kind, len(pieces)]
        parts = np.stack([machine.value(x, part) for x in pieces], 1)
        machine.put(to, np.ascontiguousarray(parts).view(KINDS[kind])[:, 0], active, kind)
    elif to.startswith("{"):
        pieces = [x.strip() for x in to[1:-1].split(",")]
        part = {("b64", 2): "b32", ("b32", 2): "b16", ("b64", 4): "b16"}[kind, len(pieces)]
        parts = np.ascontiguousarray(machine.value(source, kind))[:, None].view(KINDS[part])
        for number, name in enumerate(pieces):
            machine.put(name, parts[:, number], active, part)
    else:
        machine.put(to, machine.value(source, kind), active, kind)


def _cvt(machine: Any, one: Any, active: np.ndarray) -> None:
    goal, source = one.op[-2], one.op[-1]
    to, *given = one.operands
    if goal in ("bf16x2", "f16x2"):  # the first operand is the upper half
        half = KINDS[goal[:-2]]
        high, low = (machine.value(x, source).astype(half).view(np.uint16) for x in given)
        word = high.astype(np.uint32) << 16 | low
        machine.put(to, word, active, "b32")
        return
    value = machine.value(given[0], source)
    with np.errstate(all="ignore"):
        if "f" in source and "f" not in goal:
            way = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
            value = way[next(x for x in one.op if x in way)](value.astype(np.float64))
            limits = np.iinfo(KINDS[goal])
            value = np.clip(np.nan_to_num(value), limits.min, limits.max)
        elif "f" in source and goal == source:
            way = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
            value = way[next(x for x in one.op if x in way)](value)
        found = value.astype(KINDS[goal])
    if to in machine.registers and machine.registers[to].itemsize != found.itemsize:
        raise Wrong(f"a register of another width: {one.text}")
    machine.put(to, found, active, goal)


def _count_of(one: Any) -> int:
    return next((int(x[1:]) for x in one.op if x in ("v2", "v4", "v8")), 1)


def _space_of(one: Any) -> str:
    return "global" if "global" in one.op else "shared"


def _ld(machine: Any, one: Any, active: np.ndarray) -> None:
    kind, (to, place), count = one.op[-1], one.operands, _count_of(one)
    names = [x.strip() for x in to.strip("{}").split(",")]
    size = np.dtype(KINDS[kind]).itemsize
    wide = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}[size]  # a byte is in a register of 16 bits
    if "param" in one.op:
        name = place.strip("[]").partition("+")[0]
        value = machine.parameter(list(machine.kernel.params).index(name))
        for own in names:
            machine.put(own, np.full(machine.threads, value, np.uint64), active, wide)
        return
    addresses = machine.address(place)[active]
    for number in range(count):
        values = np.zeros(machine.threads, KINDS[wide])
        values[active] = machine.memory.load(_space_of(one), addresses + size * number, size)
        machine.put(names[number], values, active, wide)


def _st(machine: Any, one: Any, active: np.ndarray) -> None:
    kind, (place, source) = one.op[-1], one.operands
    names = [x.strip() for x in source.strip("{}").split(",")]
    size = np.dtype(KINDS[kind]).itemsize
    wide = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}[size]
    addresses = machine.address(place)[active]
    for number, name in enumerate(names):
        values = machine.value(name, wide)[active]
        machine.memory.store(_space_of(one), addresses + size * number, values, size)


def _not(machine: Any, one: Any, active: np.ndarray) -> None:
    kind, (to, source) = one.op[-1], one.operands
    machine.put(to, ~machine.value(source, kind), active, kind)


def _max(machine: Any, one: Any, active: np.ndarray) -> None:
    """Of floats: the other one where one is NaN."""
    kind, (to, *sources) = one.op[-1], one.operands
    values = [machine.value(x, kind) for x in sources]
    which = {"max": (np.fmax, np.maximum), "min": (np.fmin, np.minimum)}[one.op[0]]
    joined = values[0]
    for more in values[1:]:
        joined = which["f" not in kind](joined, more)
    machine.put(to, joined, active, kind)


def _divided(a: Any, b: Any) -> Any:
    """Toward zero; of floats the quotient."""
    if a.dtype.kind == "f":
        return a / b
    found = np.abs(a.astype(object)) // np.maximum(np.abs(b.astype(object)), 1)
    return (found * np.where((a < 0) == (b < 0), 1, -1)).astype(a.dtype)


def _nothing(machine: Any, one: Any, active: np.ndarray) -> None:
    """A fence: memory is in order here; what is late waits for more than a fence."""


SCALARS: dict[str, Callable[[Any, Any, np.ndarray], None]] = {
    "add": _two(np.add), "sub": _two(np.subtract), "and": _two(np.bitwise_and),
    "or": _two(np.bitwise_or), "xor": _two(np.bitwise_xor), "mul": _mul, "mad": _mad,
    "fma": _two(_fused),
    "shl": _shift, "shr": _shift, "setp": _setp, "selp": _selp, "mov": _mov, "cvt": _cvt,
    "ld": _ld, "st": _st, "not": _not, "neg": _two(np.negative), "abs": _two(np.abs),
    "div": _two(_divided), "rem": _two(lambda a, b: a - _divided(a, b) * b), "max": _max,
    "min": _max, "sqrt": _two(np.sqrt), "rcp": _two(lambda a: 1 / a), "fence": _nothing,
}  # fmt: skip
