"""Runs of a program kernel by kernel, each told to who listens (watch.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.backends import find_backend
from rushlight.base.deferred import deferred
from rushlight.compiler.target import Caps
from rushlight.engine import watch
from rushlight.engine.program import Program
from rushlight.engine.timing import CallTimer

# Most programs have no listener, so what they are told is loaded with the first one.
KernelRun = deferred("rushlight.engine.listen", "KernelRun")


def run_watched(
    program: Program, pointers: Sequence[int], values: np.ndarray, numbers: Sequence[Any]
) -> int:
    """Run a program kernel by kernel and tell the listeners; the status word."""
    backend = find_backend(program.backend)
    if program.timer is None:
        caps = backend.find()
        assert isinstance(caps, Caps)
        program.timer = CallTimer(program.plan, backend, caps)
    listeners = watch.run_listeners()
    env = dict(zip(program.template.names, values.tolist(), strict=True))
    plan = program.plan
    kernels, how, order = plan.kernels, plan.how, plan.order
    plan.how = ["cached"] * len(how)

    def done(number: int, seconds: float) -> None:
        step = order[number]
        info = kernels[step]
        shape, cost = info.shape_text(env), info.cost(env)
        heard = KernelRun(info, f"cpu:{program.backend}", shape, seconds, cost, how[step])
        for listener in listeners:
            listener.run(heard)

    return program.timer.run(pointers, values, numbers, done, repeat=watch.is_explained())
