"""The scalar bodies of elementwise records give the reference's values, special ones too."""

from __future__ import annotations

import numpy as np
import pytest
from _scalar import evaluate, run

from rushlight.base.dtypes import bool_, int32, int64, uint32
from rushlight.ir import scalar as s
from rushlight.ir.opdef import all_ops
from rushlight.ops.random import philox_words, random_bits_scalar

ELEMENTWISE = [r for r in all_ops().values() if r.kind == "elementwise"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 7.25, np.inf, -np.inf, np.nan, 1e10, -1e-10]
WHOLE = [0, 1, -1, 2, -2, 3, 5, -7, 100, -128]


def values(dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.array([False, True])
    if dtype == "uint8":
        return np.array([0, 1, 2, 7, 128, 255], np.uint8)
    return np.array(WHOLE if dtype.startswith("int") else SPECIAL, dtype)


FLOAT_ONLY = set(
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh "
    "cosh tanh asinh acosh atanh erf erfc erfinv digamma lgamma sigmoid div atan2 copysign "
    "nextafter angle".split()
)
WHOLE_ONLY = set(
    "bitwise_not bitwise_and bitwise_or bitwise_xor shift_left shift_right gcd".split()
)
NOT_BOOL = set("neg sub floor_divide fmod remainder pow shift_left shift_right gcd".split())
CASES = [
    (r, d)
    for r in ELEMENTWISE
    for d in ("float32", "float64", "int64", "int8", "uint8", "bool")
    if r.name not in ("where", "cast", "bitcast")
    and not (r.name in FLOAT_ONLY and not d.startswith("float"))
    and not (r.name in WHOLE_ONLY and d.startswith("float"))
    and not (r.name in NOT_BOOL and d == "bool")
]


@pytest.mark.parametrize(("record", "dtype"), CASES, ids=[f"{r.name}-{d}" for r, d in CASES])
def test_scalar_body_agrees_with_reference(record, dtype):
    x = values(dtype)
    arrays = [x]
    if len(record.params) == 2:
        arrays = [a.reshape(-1).copy() for a in np.meshgrid(x, x)]
        if record.name in ("floor_divide", "fmod", "remainder") and not dtype.startswith("float"):
            keep = arrays[1] != 0
            arrays = [a[keep] for a in arrays]
    have = run(record, arrays)
    with np.errstate(all="ignore"):
        want = np.asarray(record.reference(*arrays))
    if have.dtype.kind == "f":
        np.testing.assert_allclose(have, want.astype(have.dtype), rtol=1e-6)
        if record.name in ("copysign", "nextafter", "fmod", "trunc", "neg", "abs"):
            real = ~np.isnan(have)
            np.testing.assert_array_equal(np.signbit(have[real]), np.signbit(want[real]))
    else:
        np.testing.assert_array_equal(have, want.astype(have.dtype))


def test_remainders_are_exact_for_large_quotients():
    rng = np.random.default_rng(0)
    for dtype, low in (("float32", -6), ("float64", -12)):
        x = (rng.uniform(-1, 1, 200) * 10.0 ** rng.uniform(0, 8, 200)).astype(dtype)
        y = (rng.uniform(-1, 1, 200) * 10.0 ** rng.uniform(low, 3, 200)).astype(dtype)
        for name in ("fmod", "remainder", "floor_divide"):
            record = all_ops()[name]
            np.testing.assert_array_equal(run(record, [x, y]), record.reference(x, y))


def test_where_and_casts():
    take = np.array([True, False])
    where, cast, bitcast = (all_ops()[n] for n in ("where", "cast", "bitcast"))
    two = np.array([1.5, np.nan], np.float32)
    np.testing.assert_array_equal(run(where, [take, two, two + 1])[0], 1.5)
    np.testing.assert_array_equal(run(cast, [two], dtype=bool_), [True, True])
    np.testing.assert_array_equal(run(cast, [np.array([0.0])], dtype=bool_), [False])
    np.testing.assert_array_equal(run(cast, [two[:1]], dtype=int64), [1])
    assert run(bitcast, [np.array([1.0], np.float32)], dtype=int32)[0] == 0x3F800000


# Published with the method: counter and key words -> output words (Philox4x32, 10 rounds).
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "want"), KNOWN)
def test_philox_gives_the_published_words(counter, key, want):
    counter, key = (tuple(s.const(word, uint32) for word in words) for words in (counter, key))
    words = philox_words(counter, key)
    assert tuple(int(evaluate(w, {})) for w in words) == want


@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (5, 3), (-1, 2**40), (2**62, -7)])
def test_random_bits_scalar_agrees_with_reference(seed, offset):
    names = [s.param(n, int64) for n in ("seed", "offset", "index")]
    index = np.arange(50)
    env = {"seed": np.full(50, seed), "offset": np.full(50, offset), "index": index}
    have = evaluate(random_bits_scalar(*names), env)
    want = all_ops()["random_bits"].reference(seed, offset, (5, 10)).reshape(-1)
    np.testing.assert_array_equal(have, want)
