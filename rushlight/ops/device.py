"""Moving a value to another device. What a kernel sees of it is nothing: the value is the same."""

from __future__ import annotations

import numpy as np

from rushlight.ir.opdef import Arg, Attr, op
from rushlight.ops.rules import operand_dtype, operand_shape
from rushlight.ops.samples import Sample, array

to_device = op(
    name="to_device",
    doc="The same value on a device; `source` is the one it comes from.",
    inputs=(Arg("x"), Attr("source"), Attr("device")),
    shape=operand_shape,
    dtype=operand_dtype,
    decompose=lambda x, source, device: x,
    reference=lambda x, source, device: np.array(x),
    grad=lambda g, source, device: (to_device(g, source=device, device=source),),
    samples=lambda rng: [
        Sample((array(rng, *shape),), {"source": "cpu", "device": "cpu"}) for shape in ((3, 4), ())
    ],
)
