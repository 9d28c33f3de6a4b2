"""From a public call to a recorded node: promotion, numbers as inputs, the node, the tape.

In: a record and its arguments (Tensors, Python numbers, attributes). Out: a Tensor whose value is
pending. Python numbers become `scalar` leaves: inputs of a program, never constants of its kernels.
What the record's rules say about (attributes, shapes, dtypes) is kept per record, so a repeated
call runs no rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from rushlight import ops
from rushlight.autograd.graph import values_read
from rushlight.autograd.mode import STATE
from rushlight.autograd.node import Form, RecordFn, Saved, form_of, weak
from rushlight.base.devices import DEVICES
from rushlight.base.dtypes import DType
from rushlight.engine.bound import limit_pending
from rushlight.engine.capture import open_session
from rushlight.engine.origin import STATE as ORIGIN
from rushlight.engine.origin import may_fail, note
from rushlight.engine.realize import PENDING, flush
from rushlight.ir.complex_operands import check_complex
from rushlight.ir.device import device_of
from rushlight.ir.node import Meta, Node, meta_of, node_of
from rushlight.ir.opdef import FROM_DECOMPOSITION, NotDifferentiable, OpDef
from rushlight.tensors.autocast import STATE as AUTOCAST
from rushlight.tensors.autocast import autocast_args
from rushlight.tensors.numbers import INEXACT, NUMBERS, common_dtype, number_of, value_of
from rushlight.tensors.operands import check_bytes
from rushlight.tensors.storage import EAGER
from rushlight.tensors.tensor import Grad, Tensor, edge_of, new_tensor
from rushlight.tensors.tracked import Tracked

CACHE_LIMIT = 4096
REQUIRED = inspect.Parameter.empty


class Derived:
    """What the rules say of a call with these attributes, shapes and dtypes.

    may_fail  a run may end at its node (engine/origin.py)
    form      of its gradient where no operand is cast; made when it is wanted
    saves     what the gradient reads, for each set of operands that need one: positions of
              operands, and is the output read?
    """

    __slots__ = ("meta", "may_fail", "form", "saves")

    def __init__(self, meta: Meta) -> None:
        self.meta = meta
        self.may_fail: bool | None = None
        self.form: Form | None = None
        self.saves: dict[tuple[bool, ...], tuple[tuple[int, ...], bool]] = {}


class Plan:
    """What `apply` wants to know of a record, looked up once."""

    def __init__(self, record: OpDef) -> None:
        self.record = record
        self.params = record.params
        self.count = len(record.params)
        self.kinds = tuple(
            "variadic" if p.variadic else p.kind if p.kind in ("tensor", "value") else "attr"
            for p in record.params
        )
        self.simple = all(kind == "tensor" and not p.optional
                          for kind, p in zip(self.kinds, record.params, strict=True))  # fmt: skip
        self.names = tuple(p.name for p in record.params)
        # So many tensors, each one needed, then only attributes.
        self.lead = 0
        while self.kinds[self.lead : self.lead + 1] == ("tensor",):
            self.lead += 1
        if set(self.kinds[self.lead :]) - {"attr"} or any(p.optional for p in record.params):
            self.lead = 0
        self.leaders = self.names[: self.lead]
        self.has_offsets = any(p.kind in ("offset", "offsets") for p in record.params)
        self.has_optional = any(p.optional for p in record.params)
        # Tensors only, some of which may be left out: simple when all are there.
        self.all_there = (self.names,) if self.has_optional else ()
        self.only_tensors = all(kind == "tensor" for kind in self.kinds)
        self.cache: dict[Any, Derived] = {}
        all_saved = record.grad is FROM_DECOMPOSITION
        self.reads = frozenset(self.names if all_saved else record.reads)
        self.reads_out = "out" in record.reads
        self.label = label_of(record.name)
        self.promotes = record.promote != "none" and record.kind in ("elementwise", "composite")
        self.widens = record.name in ("add", "sub", "mul", "div")
        if record.name in KEEP_DTYPES:
            self.promotes = False
        self.apart = bool(NOT_PROMOTED.intersection(self.names))
        self.tracks = not isinstance(record.grad, NotDifferentiable)
        self.may_refuse = record.may_refuse
        # An error of the run names the user's line (see engine/origin.py).
        self.may_fail = record.kind in ("composite", "gather", "scatter", "host")

    def fill(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """Positional and keyword arguments in the order of params."""
        if len(args) > self.count:
            raise TypeError(f"{self.record.name}() takes {self.count} arguments, {len(args)} given")
        filled = list(args)
        used = 0
        for param in self.params[len(args) :]:
            if param.name in kwargs:
                filled.append(kwargs[param.name])
                used += 1
            elif param.default is not REQUIRED:
                filled.append(param.default)
            else:
                raise TypeError(f"{self.record.name}() missing argument '{param.name}'")
        if used != len(kwargs):
            wrong = next(name for name in kwargs if name not in self.names[len(args) :])
            raise TypeError(f"{self.record.name}() got an unexpected keyword argument '{wrong}'")
        return tuple(filled)


def label_of(name: str) -> str:
    """mul -> MulBackward0."""
    return "".join(part.capitalize() for part in name.strip("_").split("_")) + "Backward0"


PLANS: dict[str, Plan] = {}
FLOATS = frozenset((float, Tracked))
EXACT_INTS = 256  # up to here integers are what they are in all 16-bit floats
INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
    "inference mode in computation tracked by autograd. To work around this, you can make a clone "
    "to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
    "`torch.inference_mode()`."
)
# Class targets are whole numbers beside a float input.
KEEP_DTYPES = frozenset(("cross_entropy", "nll_loss"))
# Operands that keep their own dtype beside the promoted ones.
NOT_PROMOTED = frozenset(("condition", "mask", "index", "indices"))


def plan_of(record: OpDef) -> Plan:
    plan = PLANS.get(record.name)
    if plan is None or plan.record is not record:  # a record that was declared again
        plan = PLANS[record.name] = Plan(record)
    return plan


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
        attrs: tuple = tuple([tuple(a) if a.__class__ is list else a for a in args[plan.lead :]])
    elif plan.simple or (plan.only_tensors and all([arg is not None for arg in args])):
        operands, owners, values, attrs = args, plan.names, (), plan.all_there
    else:
        operands, owners, values, attrs = _split(plan, args)
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
    likes = tuple([(n.shape, n.dtype) for n in src])
    found = None
    if not plan.has_offsets:
        try:
            found = plan.cache.get((attrs, likes))
        except TypeError:  # an unhashable attribute (a list): bound and normalised below
            pass
    if found is None:
        found = _derive(plan, args, owners, src, attrs, likes)
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
                _track(plan, found, out, operands, owners, src, likes, label)
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
    record: OpDef, plan: Plan, operands: Sequence[Any], owners: Sequence[str]
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


def _split(plan: Plan, args: tuple) -> tuple[list[Any], list[str], list[Node], tuple]:
    operands: list[Any] = []
    owners: list[str] = []
    values: list[Node] = []
    attrs: list[Any] = []
    for kind, name, arg in zip(plan.kinds, plan.names, args, strict=True):
        if kind == "tensor":
            if arg is not None:
                operands.append(arg)
                owners.append(name)
        elif kind == "attr":
            attrs.append(arg if arg.__class__ is not list else tuple(arg))
        elif kind == "value":
            values.append(value_of(arg))
            owners.append(name)
        else:
            operands.extend(arg)
            owners.extend([name] * len(arg))
    if plan.has_optional:
        attrs.append(tuple(owners))
    return operands, owners, values, tuple(attrs)


def _derive(
    plan: Plan, args: tuple, owners: Sequence[str], src: list[Node], attrs: tuple, likes: tuple
) -> Derived:
    """Run the record's rules once for these shapes, dtypes and attributes: they see no more."""
    record = plan.record
    bound: list[Any] = []
    position = 0
    tensors = sum(1 for name in owners) - sum(kind == "value" for kind in plan.kinds)
    at_value = tensors
    for kind, arg in zip(plan.kinds, args, strict=True):
        if kind == "attr" or (kind == "tensor" and arg is None):
            bound.append(arg)
        elif kind == "value":
            bound.append(src[at_value])
            at_value += 1
        elif kind == "variadic":
            bound.append(src[position : position + len(arg)])
            position += len(arg)
        else:
            bound.append(src[position])
            position += 1
    call = record.bind(*bound)
    if record.check is not None:
        record.check(call)
    check_complex(call)
    check_bytes(record, src)
    found = Derived(meta_of(record, call.attrs, tuple(record.shape(call)), record.dtype(call)))
    if not plan.has_offsets:
        if len(plan.cache) > CACHE_LIMIT:
            plan.cache.clear()
        try:
            plan.cache[(attrs, likes)] = found
        except TypeError:
            pass
    return found


def _track(
    plan: Plan, found: Derived, out: Tensor, operands: Sequence[Any], owners: Sequence[str],
    src: list[Node], likes: tuple, label: str,
) -> None:  # fmt: skip
    """Put the call on the tape when an operand needs a gradient."""
    edges = [
        edge_of(arg) if isinstance(arg, Tensor) and arg._dtype.kind in INEXACT else None
        for arg in operands
    ]
    if not any(edges):
        return
    form = found.form
    if form is None:
        meta = found.meta
        form = form_of(plan.record, meta.attrs, likes, likes, (meta.shape, meta.dtype))
        found.form = form
    needs = tuple([edge is not None for edge in edges])
    saves, saves_out = found.saves.get(needs) or _plan_saves(plan, found, owners, likes, needs)
    for arg, like in zip(operands, likes, strict=False):
        if isinstance(arg, Tensor) and arg._dtype is not like[1]:
            form = _with_casts(form, operands)
            break
    fn = RecordFn(form, edges, label or plan.label)
    for i in saves:
        arg = operands[i] if i < len(operands) else None
        if isinstance(arg, Tensor):
            if arg._storage.inference and not STATE.inference:
                raise RuntimeError(INFERENCE_SAVED)
            fn.saved[i] = Saved(src[i], arg._counter, arg._output_of())
        else:
            fn.saved[i] = Saved(src[i], None, None)
    out._grad = Grad(fn)
    if saves_out:
        fn.saved_out = Saved(out._storage.node, out._counter, weak(fn))


def _plan_saves(
    plan: Plan, found: Derived, owners: Sequence[str], likes: tuple, needs: tuple[bool, ...]
) -> tuple[tuple[int, ...], bool]:
    """What the gradient of such a call reads, for operands that need one."""
    meta = found.meta
    reads, saves_out = plan.reads, plan.reads_out
    if plan.record.saves is not None:
        reads = plan.record.saves(dict(zip(plan.record.attr_index, meta.attrs, strict=False)))
        saves_out = "out" in reads
    saves = tuple([i for i, name in enumerate(owners) if name in reads])
    if saves or saves_out:  # by name; some of it may serve an operand that needs no gradient
        wanted = (*needs, *[False] * (len(likes) - len(needs)))
        like = (meta.shape, meta.dtype)
        used, out_used = values_read(plan.record, meta.attrs, likes, like, wanted)
        saves = tuple([i for i in saves if i in used or i >= len(needs)])
        saves_out = saves_out and out_used
    found.saves[needs] = saves, saves_out
    return saves, saves_out


def _with_casts(form: Form, operands: Sequence[Any]) -> Form:
    """The same for operands of other dtypes: their gradients are cast back."""
    targets = tuple(
        [
            (arg._shape, arg._dtype) if isinstance(arg, Tensor) else like
            for arg, like in zip(operands, form.source_likes, strict=False)
        ]
    )
    return form_of(form.record, form.attrs, form.source_likes, targets, form.likes[0])
