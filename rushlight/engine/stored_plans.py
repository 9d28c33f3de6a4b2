"""Plans on disk: a recorded graph that some process compiled before needs no pass of the compiler.

In: a recording, its template, what may be overwritten. Out: the plan of an equal recording, or
None. The key holds the recorded structure, which sizes are variables and all that are constants,
the target and a hash of the whole package; an entry holds the plan as data (plan_record.py) and
names its kernels, which are entries of their own (kernels.py). Whatever is wrong with an entry, or
missing of its kernels, the answer is None and the program is compiled.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rushlight.base.dtypes import DType
from rushlight.base.sources import package_hash
from rushlight.compiler.plan_record import NotPlain, plan_of, program_of, record_of
from rushlight.compiler.target import Backend, Caps, Executable, LoadedPlan, Plan
from rushlight.engine.index_errors import site_text
from rushlight.engine.kernels import disk_cache, find_kernel
from rushlight.engine.signature import Recording
from rushlight.engine.template import Template
from rushlight.ir.node import Node
from rushlight.ir.opdef import OpDef

PACKAGE = Path(__file__).parent.parent.name
BROKEN = (ValueError, KeyError, TypeError, IndexError, AttributeError, RuntimeError, StopIteration)


def key_of(
    recording: Recording, template: Template, donated: frozenset[int], backend: Backend, caps: Caps
) -> str | None:
    """The key of the recording's plan; None when there is no disk cache for it."""
    if disk_cache() is None or not backend.keeps_plans:
        return None
    if not all(map(_is_ours, {node.op for node in recording.order if node.op is not None})):
        return None
    if not all(map(_is_plain, (value for node in recording.order for value in node.attrs))):
        return None
    arrays = (template.fixed_at, template.fixed, template.variable_at, template.variable)
    arrays += (template.first, template.product_at, template.product)
    parts = (
        recording.key, sorted(donated), template.names, [array.tolist() for array in arrays],
        backend.name, caps.features, caps.threads, package_hash(),
    )  # fmt: skip
    return "plan " + hashlib.sha256(repr(parts).encode()).hexdigest()


@functools.cache
def _is_ours(op: OpDef) -> bool:
    """A record of this package: the hash of its sources says what it means."""
    functions = (op.scalar, op.decompose, op.reference)
    return all(
        not callable(fn) or str(getattr(fn, "__module__", "")).split(".")[0] in (PACKAGE, "numpy")
        for fn in functions
    )


def _is_plain(value: Any) -> bool:
    """Its `repr` says all."""
    if type(value) in (tuple, list):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str) or isinstance(value, DType)


def find_plan(
    key: str, order: tuple[Node, ...], backend: Backend, caps: Caps
) -> tuple[Plan, LoadedPlan] | None:
    """The plan under this key, for a recording of these nodes, ready to run."""
    disk = disk_cache()
    data = None if disk is None else disk.get(key)
    if data is None:
        return None
    try:
        record = json.loads(data)
        executables = list(_executables(record["kernels"], backend, caps))
        sites = [_site(order, at) for at in record["checked_at"]]
        plan = plan_of(record, executables, ("", *sites))
        plan.how = ["stored"] * len(plan.kernels)
        return plan, backend.load(plan, caps)
    except BROKEN:
        return None


def _executables(kernels: Iterable[dict], backend: Backend, caps: Caps) -> Iterable[Executable]:
    for kernel in kernels:
        found = find_kernel(kernel["key"], program_of(kernel), backend, caps)
        if found is None:
            raise KeyError(kernel["key"])
        yield found


def _site(order: tuple[Node, ...], at: int | None) -> str:
    return "index out of range" if at is None else site_text(order[at])


def keep_plan(key: str, plan: Plan, kernel_key: Callable[[Executable], str]) -> None:
    """Write a plan to disk, if it has a form as data."""
    disk = disk_cache()
    if disk is None:
        return
    try:
        data = json.dumps(record_of(plan, kernel_key), separators=(",", ":"))
    except NotPlain:
        return
    disk.put(key, data.encode())
