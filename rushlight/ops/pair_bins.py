"""Sums of pair values (ops/pairs.py) into bins: the gradient of a table that is read at places that
depend on both the query and the key, as a bias for each distance.

The compiler makes them of scatters (compiler/graph/pairs.py). Shape letters: L queries, S keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import int64
from rushlight.ir.opdef import Arg, Call, Sizes, op
from rushlight.ops.binary import ge, logical_and, lt
from rushlight.ops.build import expand_to, iota_along
from rushlight.ops.indexed import gather_nd
from rushlight.ops.meta import Meta
from rushlight.ops.rules import Shape, is_static, operand_dtype
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, whole
from rushlight.ops.select import where


def _check(call: Call) -> None:
    weight, place = call["weight"], call["place"]
    if place.dtype is not int64:
        raise RuntimeError(f"pair_bins: place must be int64, got {place.dtype.name}")
    same = place.shape == weight.shape
    if not same and all(map(is_static, (*place.shape, *weight.shape))):
        raise RuntimeError(
            f"pair_bins: place must have the shape of weight, {list(weight.shape)}, "
            f"got {list(place.shape)}"
        )


def _shape(call: Call) -> Shape:
    return (*call["weight"].shape[:-2], *call["bins"])


def _reference(weight: np.ndarray, place: np.ndarray, bins: tuple[int]) -> np.ndarray:
    lead, total = weight.shape[:-2], np.zeros((*weight.shape[:-2], *bins), weight.dtype)
    for at in np.ndindex(lead):
        here = (place[at] >= 0) & (place[at] < bins[0])
        np.add.at(total[at], place[at][here], weight[at][here])
    return total


def pair_bins_grad(g: Any, place: Any, bins: Any, meta: Meta) -> tuple:
    shape = meta.shape("weight")
    along = (iota_along(len(shape), dim, size) for dim, size in enumerate(shape[:-2]))
    inside = logical_and(ge(place, 0), lt(place, bins[0]))
    lead = [expand_to(x, x.shape, shape) for x in along]
    return (where(inside, gather_nd(g, [*lead, where(inside, place, 0)]), 0.0),)


def _samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 2, 3, 5), whole(rng, 2, 3, 5, high=4)), {"bins": (4,)}),
        Sample((array(rng, 7, 3), whole(rng, 7, 3, high=2)), {"bins": (2,)}),
    ]


pair_bins = op(
    name="pair_bins",
    doc="result n is the sum of all weights whose place is n; a place out of range adds nothing.",
    inputs=(Arg("weight"), Arg("place"), Sizes("bins")),
    shape=_shape,
    dtype=operand_dtype,
    kind="attention",
    reference=_reference,
    grad=pair_bins_grad,
    promote="none",
    check=_check,
    samples=_samples,
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((2, 3))), {"bins": (4,)}, RuntimeError, "be int64"),
        ErrorSample(
            (np.ones((2, 3)), np.ones((3, 2), np.int64)), {"bins": (4,)}, RuntimeError, "the shape"
        ),
    ),
)
