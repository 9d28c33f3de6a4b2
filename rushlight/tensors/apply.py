"""From a public call to a recorded node: promotion, numbers as inputs, the node, the tape.

In: a record and its arguments (Tensors, Python numbers, attributes). Out: a Tensor whose value is
pending. Python numbers become `scalar` leaves: inputs of a program, never constants of its kernels.
What the record's rules say about (attributes, shapes, dtypes) is kept per record, so a repeated
call runs no rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import ops
from rushlight.autograd.mode import STATE
from rushlight.base.devices import DEVICES
from rushlight.base.dtypes import DType
from rushlight.engine.bound import limit_pending
from rushlight.engine.capture import open_session
from rushlight.engine.origin import STATE as ORIGIN
from rushlight.engine.origin import may_fail, note
from rushlight.engine.realize import PENDING, flush
from rushlight.ir.device import device_of
from rushlight.ir.node import Node, node_of
from rushlight.ir.opdef import OpDef
from rushlight.tensors.autocast import STATE as AUTOCAST
from rushlight.tensors.autocast import autocast_args
from rushlight.tensors.call_plan import NOT_PROMOTED, PLANS, CallPlan, derive, plan_of, split
from rushlight.tensors.numbers import INEXACT, NUMBERS, common_dtype, number_of
from rushlight.tensors.on_tape import put_on_tape
from rushlight.tensors.storage import EAGER
from rushlight.tensors.tensor import Tensor, new_tensor
from rushlight.tensors.tracked import Tracked

FLOATS = frozenset((float, Tracked))
EXACT_INTS = 256  # up to here integers are what they are in all 16-bit floats


def apply(  # noqa: C901  (the path of every op: one call less is a microsecond)
    record: OpDef, args: tuple, kwargs: dict[str, Any] | None = None, label: str = ""
) -> Any:
    """Record one call."""
    plan = PLANS.get(record.name)
    if plan is None or plan.record is not record:
        plan = plan_of(record)
    if AUTOCAST.dtype is not None:
        args = autocast_args(record.name, args, cast)
    if kwargs or len(args) != plan.count:
        args = plan.fill(args, kwargs or {})
    if plan.lead and not plan.simple:
        operands: Sequence[Any] = args[: plan.lead]
        owners: Sequence[str] = plan.leaders
        values: Sequence[Node] = ()
        attrs: tuple = args[plan.lead :]
        for attr in attrs:  # a comprehension is a call of its own
            if attr.__class__ is list:
                attrs = tuple([tuple(a) if a.__class__ is list else a for a in attrs])
                break
    elif plan.simple or (plan.only_tensors and all([arg is not None for arg in args])):
        operands, owners, values, attrs = args, plan.names, (), plan.all_there
    else:
        operands, owners, values, attrs = split(plan, args)
    if DEVICES.used:
        check_devices(operands)
    if plan.apart:
        src = _nodes_apart(record, plan, operands, owners)
    else:
        dtype = common_dtype(record, operands) if plan.promotes else None
        if (
            plan.widens
            and dtype is not dtype.compute  # type: ignore[union-attr]
            and (
                not FLOATS.isdisjoint(map(type, operands))
                or any([arg.__class__ is int and abs(arg) > EXACT_INTS for arg in operands])
            )
        ):
            return _in_float32(record, operands, dtype, label or plan.label)
        src = []
        for arg in operands:
            if arg.__class__ in NUMBERS or not isinstance(arg, Tensor):
                src.append(number_of(arg, dtype, operands))
            else:
                plain = arg._view is None and arg._storage.foreign is None
                value = arg._storage.node if plain else arg._value()
                src.append(
                    value if dtype is None or arg._dtype is dtype else ops.cast.node(value, dtype)
                )
    src.extend(values)
    seen = []
    for source in src:
        seen.append((source.shape, source.dtype))
    likes = tuple(seen)
    found = None
    if not plan.has_offsets:
        try:
            found = plan.cache.get((attrs, likes))
        except TypeError:  # an unhashable attribute (a list): bound and normalised below
            pass
    if found is None:
        found = derive(plan, args, owners, src, attrs, likes)
    node = node_of(found.meta, tuple(src))
    if ORIGIN.on or plan.may_fail:
        if found.may_fail is None:
            found.may_fail = may_fail(node)
        if ORIGIN.on or found.may_fail:
            note(node)
    out = new_tensor(node)
    if STATE.grad and plan.tracks and node.dtype.kind in INEXACT:
        for arg in operands:
            # A tensor without `_grad` may still have a history as a view of what has one.
            if isinstance(arg, Tensor) and (arg._grad is not None or arg._view is not None):
                put_on_tape(plan, found, out, operands, owners, src, likes, label)
                break
    if EAGER.wanted or (plan.may_refuse and open_session() is None):
        EAGER.wanted = False
        flush((node,))
    elif node.serial >= PENDING.due:
        limit_pending(node)
    return out


def check_devices(operands: Sequence[Any]) -> None:
    """PyTorch's rule: all on one device, but numbers of the CPU go with any."""
    found: dict[str, None] = {}
    for arg in operands:
        if isinstance(arg, Tensor):
            place = device_of(arg._value())
            if place is not None and (arg._shape or place != "cpu"):
                found[place] = None
    if len(found) > 1:
        first, second = list(found)[:2]
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{first} and {second}!"
        )


def cast(tensor: Tensor, dtype: DType) -> Tensor:
    """The tensor in this dtype; itself where it has it."""
    return tensor if tensor._dtype is dtype else apply(ops.cast, (tensor, dtype))


def product_operands(*operands: Any) -> tuple:
    """The operands of a product or convolution as autocast wants them, before they are checked."""
    return operands if AUTOCAST.dtype is None else autocast_args("matmul", operands, cast)


def _in_float32(record: OpDef, operands: Sequence[Any], dtype: Any, label: str) -> Any:
    """bfloat16 or float16 with a Python number: it is not rounded first (PyTorch's rule)."""
    wide = [apply(ops.cast, (a, dtype.compute)) if isinstance(a, Tensor) else a for a in operands]
    return apply(ops.cast, (apply(record, tuple(wide)), dtype), label=label)


def _nodes_apart(
    record: OpDef, plan: CallPlan, operands: Sequence[Any], owners: Sequence[str]
) -> list[Node]:
    """Nodes of the operands when masks or indices are among them."""
    joined = [a for a, name in zip(operands, owners, strict=False) if name not in NOT_PROMOTED]
    dtype = common_dtype(record, joined) if plan.promotes else None
    src = []
    for arg, name in zip(operands, owners, strict=False):
        if not isinstance(arg, Tensor):
            src.append(number_of(arg, dtype, operands))
        elif name in NOT_PROMOTED or dtype is None or arg._dtype is dtype:
            src.append(arg._value())
        else:
            src.append(ops.cast.node(arg._value(), dtype))
    return src
