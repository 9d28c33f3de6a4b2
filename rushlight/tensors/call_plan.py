"""What `apply` wants to know of a record, looked up once, and what its rules say of a call.

In: a record; the arguments of a call. Out: operands, numbers and attributes apart; the shape and
dtype of the result, kept per (attributes, shapes, dtypes), so that a repeated call runs no rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from rushlight.autograd.record_fn import Form
from rushlight.ir.complex_operands import check_complex
from rushlight.ir.node import Meta, Node, meta_of
from rushlight.ir.opdef import FROM_DECOMPOSITION, NotDifferentiable, OpDef
from rushlight.tensors.numbers import value_of
from rushlight.tensors.operands import check_bytes

CACHE_LIMIT = 4096
REQUIRED = inspect.Parameter.empty
# Class targets are whole numbers beside a float input.
KEEP_DTYPES = frozenset(("cross_entropy", "nll_loss"))
# Operands that keep their own dtype beside the promoted ones.
NOT_PROMOTED = frozenset(("condition", "mask", "index", "indices"))


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


class CallPlan:
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


PLANS: dict[str, CallPlan] = {}


def plan_of(record: OpDef) -> CallPlan:
    plan = PLANS.get(record.name)
    if plan is None or plan.record is not record:  # a record that was declared again
        plan = PLANS[record.name] = CallPlan(record)
    return plan


def split(plan: CallPlan, args: tuple) -> tuple[list[Any], list[str], list[Node], tuple]:
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


def derive(
    plan: CallPlan, args: tuple, owners: Sequence[str], src: list[Node], attrs: tuple, likes: tuple
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
