"""Turns of a loop that looks at no value: each is computed when the next begins.

In: `call_begins(model)` for each call of a model of which no gradient is wanted. Out: a flush, when
the model that was called first since the last flush is called again and enough was recorded.

A loop over batches may count hits, one over tokens may add each to a row, and nothing is looked at
before the end. Without this all turns would be one program: of a new size for each number of
turns, and all inputs would stay in memory until then.
"""

from __future__ import annotations

import weakref

from rushlight.autograd.mode import STATE
from rushlight.engine.realize import PENDING, flush
from rushlight.ir.node import next_serial

LEAST_NODES = 16  # fewer are not worth a program of their own


def call_begins(model: object) -> None:
    """A model is called; what an earlier call of it and its user recorded is computed."""
    if STATE.grad:
        return  # a backward or an optimizer's step ends the turns of such a loop
    first = PENDING.first_call
    if first is None or (called := first()) is None:
        PENDING.first_call, PENDING.first_serial = weakref.ref(model), next_serial()
    elif called is model and next_serial() - PENDING.first_serial >= LEAST_NODES:
        flush()
        PENDING.first_call, PENDING.first_serial = weakref.ref(model), next_serial()
