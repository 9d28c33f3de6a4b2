"""Exponentials and logarithms. float32 bodies are short: they are inlined in every kernel.

exp: x = n ln2 + r. Adding a magic number rounds x/ln2 to the integer n and leaves n, already
biased, in the low bits of the sum; shifting those into the exponent field gives 2**n without a
float-to-int conversion. n is scaled in two halves, so that results in the denormal range are
rounded once and overflow comes by itself.
log: x = 2**k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, and a polynomial for log(1 + f).
"""

from __future__ import annotations

from rushlight.compiler.lower.math import coefficients as C
from rushlight.compiler.lower.math.toolkit import (
    F32,
    F64,
    INF,
    NAN,
    Format,
    at_least,
    at_most,
    exact_at_zero,
    format_of,
    horner,
    through_float64,
)
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E


def _reduce(x: E, fmt: Format, low_bits: int) -> tuple[E, E]:
    """(shifted, r): x = n ln2 + r, and the low mantissa bits of `shifted` hold n + low_bits."""
    log2e, (hi, lo) = (C.LOG2E_32, C.LN2_32) if fmt is F32 else (C.LOG2E_64, C.LN2_64)
    shifted = s.fma(x, log2e[0], fmt.magic + low_bits)
    n = shifted - (fmt.magic + low_bits)
    return shifted, s.fma(n, -lo, s.fma(n, -hi, x))


def _scale(p: E, shifted: E, fmt: Format) -> E:
    """p * 2**n in two factors; `shifted` holds n + 2 * bias."""
    bits = s.bitcast(shifted, fmt.int_dtype)
    half = bits >> 1
    first = s.bitcast(half << fmt.mantissa, fmt.dtype)
    second = s.bitcast((bits - half) << fmt.mantissa, fmt.dtype)
    return (p * first) * second


def exp_unclamped(x: E, low: E | None = None) -> E:
    """exp(x + low) for x between the format's exp_low and exp_high; NaN stays NaN."""
    fmt = format_of(x)
    shifted, r = _reduce(x, fmt, 2 * fmt.bias)
    if low is not None:
        r = r + low
    return _scale(_near_zero(r, fmt), shifted, fmt)


def _near_zero(r: E, fmt: Format) -> E:
    """exp(r) for what _reduce leaves."""
    q = horner(r, C.EXP_32 if fmt is F32 else C.EXP_64)
    return s.fma(r, s.fma(r, q, 1.0), 1.0)


def exp(x: E) -> E:
    fmt = format_of(x)
    return exp_unclamped(at_most(at_least(x, fmt.exp_low), fmt.exp_high))


def exp_not_positive(x: E) -> E:
    """exp(x) for x <= 0 or NaN. Results below the normal range are 0: one factor 2**n is enough."""
    fmt = format_of(x)
    # At the bound n is -bias, whose exponent field is that of 0.
    x = at_least(x, -fmt.bias * C.LN2_64[0])
    shifted, r = _reduce(x, fmt, fmt.bias)
    power = s.bitcast(s.bitcast(shifted, fmt.int_dtype) << fmt.mantissa, fmt.dtype)
    return _near_zero(r, fmt) * power


def exp2(x: E) -> E:
    fmt = format_of(x)
    x = at_most(at_least(x, -fmt.bias - fmt.mantissa - 2.0), fmt.bias + 2.0)
    shifted = x + (fmt.magic + 2 * fmt.bias)
    r = x - (shifted - (fmt.magic + 2 * fmt.bias))
    p = s.fma(r, horner(r, C.EXP2_32 if fmt is F32 else C.EXP2_64), 1.0)
    return _scale(p, shifted, fmt)


def _expm1_parts(x: E, low_bits: int) -> tuple[E, E]:
    """(u, power): exp(x) - 1 = 2**n u + (2**n - 1), power = 2**(n + low_bits - bias)."""
    fmt = format_of(x)
    shifted, r = _reduce(x, fmt, low_bits)
    u = s.fma(r * r, horner(r, C.EXPM1_32 if fmt is F32 else C.EXPM1_64), r)
    return u, s.bitcast(s.bitcast(shifted, fmt.int_dtype) << fmt.mantissa, fmt.dtype)


def expm1_bounded(x: E) -> E:
    """exp(x) - 1 for |x| <= 40 (no overflow of 2**n)."""
    u, power = _expm1_parts(x, format_of(x).bias)
    return s.fma(power, u, power - 1.0)


def expm1(x: E) -> E:
    fmt = format_of(x)
    # Half of 2**n, doubled at the end, because 2**n itself overflows before the result does.
    bounded = at_most(at_least(x, -40.0), fmt.exp_high)
    u, half = _expm1_parts(bounded, fmt.bias - 1)
    result = s.fma(half, u, half - 0.5) * 2.0
    tiny = s.lt(s.abs_(x), 2.0 ** -(fmt.mantissa + 2))
    return s.select(tiny, x, result)


def sigmoid(x: E) -> E:
    """exp(-|x|) never overflows, and keeps the denormal results of very negative x."""
    e = exp_unclamped(at_least(-s.abs_(x), format_of(x).exp_low))
    return s.select(s.lt(x, 0.0), e, 1.0) / (e + 1.0)


def _split(x: E, denormals: bool = True) -> tuple[E, E]:
    """(k, f): x = 2**k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); k is a float."""
    fmt = format_of(x)
    shift = fmt.mantissa + 1
    tiny = s.lt(x, fmt.min_normal) if denormals else None
    if tiny is not None:
        x = s.select(tiny, x * 2.0**shift, x)
    root_half = 0x3F3504F3 if fmt is F32 else 0x3FE6A09E667F3BCD
    bits = s.bitcast(x, fmt.int_dtype)
    exponent = (bits - root_half) >> fmt.mantissa
    f = s.bitcast(bits - (exponent << fmt.mantissa), fmt.dtype) - 1.0
    k = s.cast(exponent, fmt.dtype)
    if tiny is not None:
        k = k - s.select(tiny, s.const(float(shift), fmt.dtype), 0.0)
    return k, f


def _log_tail(f: E) -> E:
    """log(1 + f) - f."""
    if format_of(f) is F32:
        return (f * f) * horner(f, C.LOG_32)
    # With q = f / (2 + f): log(1+f) = q (2 + R(q*q)) and 2q = f - q f, so f itself stays exact.
    q = f / (f + 2.0)
    z = q * q
    return -(q * (f - z * horner(z, C.LOG_64)))


def log_special(x: E, result: E) -> E:
    """The result for x > 0; -inf at 0, NaN below, inf and NaN stay."""
    at_edge = s.select(s.eq(x, 0.0), s.const(-INF, x.dtype), s.const(NAN, x.dtype))
    return s.select(s.gt(x, 0.0), s.select(s.lt(x, INF), result, x), at_edge)


def log_positive(x: E) -> E:
    """log(x) for finite x > 0."""
    k, f = _split(x)
    if format_of(x) is F32:
        hi, lo = C.LN2_32
        y = s.fma(f * f, horner(f, C.LOG_32), f)
        return s.fma(k, hi, s.fma(k, lo, y))
    hi, lo = C.LN2_SHORT_64
    return s.fma(k, hi, f + s.fma(k, lo, _log_tail(f)))


def log(x: E) -> E:
    return log_special(x, log_positive(x))


def log1p(x: E) -> E:
    """log of the rounded 1 + x, plus what the rounding lost over 1 + x."""
    fmt = format_of(x)
    u = x + 1.0
    lost = s.select(s.lt(x, 1.0), x - (u - 1.0), 1.0 - (u - x)) / u
    k, f = _split(u, denormals=False)
    hi, lo = C.LN2_32 if fmt is F32 else C.LN2_SHORT_64
    if fmt is F32:
        rest = s.fma(f * f, horner(f, C.LOG_32), s.fma(k, lo, lost))
    else:
        rest = s.fma(k, lo, _log_tail(f) + lost)
    return exact_at_zero(x, log_special(u, s.fma(k, hi, f + rest)))


def log2(x: E) -> E:
    k, f = _split(x)
    hi, lo = C.LOG2E_32 if format_of(x) is F32 else C.LOG2E_64
    part = s.fma(f, hi, s.fma(f, lo, _log_tail(f) * hi))
    return log_special(x, k + part)


@through_float64
def log10(x: E) -> E:
    k, f = _split(x)
    hi, lo = C.LOG10E_64
    k_hi, k_lo = C.LOG10_2_SHORT_64
    part = s.fma(f, hi, s.fma(f, lo, s.fma(k, k_lo, _log_tail(f) * hi)))
    return log_special(x, s.fma(k, k_hi, part))


def _log_pair(x: E) -> tuple[E, E]:
    """log(x) of a finite x > 0 in float64 as an unevaluated sum of about 65 bits."""
    k, f = _split(x)
    den = f + 2.0
    den_low = f - (den - 2.0)
    q = f / den
    q_low = s.fma(-q, den_low, s.fma(-q, den, f)) / den
    z = q * q
    z_low = s.fma(q, q, -z) + (q * q_low) * 2.0
    # R = z (2/3 + z P(z)) as a pair, then q R as a pair.
    two_thirds, rest = C.TWO_THIRDS_64
    tail = s.fma(z, horner(z, C.POWLOG_64), rest)
    head = tail + two_thirds
    head_low = (two_thirds - head) + tail
    r = z * head
    r_low = s.fma(z, head, -r) + s.fma(z, head_low, z_low * head)
    qr = q * r
    qr_low = s.fma(q, r, -qr) + s.fma(q, r_low, q_low * r)
    # k ln2 + 2q + q R, largest first.
    hi, lo = C.LN2_SHORT_64
    top, twice = k * hi, q * 2.0
    a = top + twice
    a_low = _sum_error(top, twice, a)
    b = a + qr
    b_low = _sum_error(a, qr, b)
    return b, (a_low + b_low) + s.fma(k, lo, s.fma(q_low, 2.0, qr_low))


def _sum_error(a: E, b: E, total: E) -> E:
    part = total - a
    return (a - (total - part)) + (b - part)


def pow_positive(x: E, y: E) -> E:
    """x**y in float64 for finite x > 0 and any y; log(x) is carried in two parts."""
    high, low = _log_pair(x)
    p = y * high
    p_low = s.fma(y, low, s.fma(y, high, -p))
    bounded = at_most(at_least(p, F64.exp_low), F64.exp_high)
    # Where p was clamped, or is not finite, the low part means nothing.
    return exp_unclamped(bounded, s.select(s.eq(bounded, p), p_low, 0.0))


def pow_magnitude(x: E, y: E, precise: bool) -> E:
    """|x|**y where that is a number; the cases of pow() come on top. x >= 0, float64."""
    edge = s.eq(x, 0.0) | s.eq(x, INF)
    inside = s.select(edge, 1.0, x)
    value = pow_positive(inside, y) if precise else exp(y * log_positive(inside))
    # 0**y and inf**y: the sign of y decides.
    grows = s.eq(s.eq(x, 0.0), s.lt(y, 0.0))
    return s.select(edge, s.select(grows, s.const(INF, x.dtype), 0.0), value)


def pow_(x: E, y: E) -> E:
    """C99's pow. float32 is computed in float64 without the extra bits."""
    fmt = format_of(x)
    wide_x, wide_y = s.cast(x, F64.dtype), s.cast(y, F64.dtype)
    magnitude = pow_magnitude(s.abs_(wide_x), wide_y, precise=fmt is F64)
    whole = s.eq(s.trunc(wide_y), wide_y)
    half = wide_y * 0.5
    # Infinite and huge exponents are even: their half is whole again.
    odd = whole & s.ne(s.trunc(half), half)
    negative = s.lt(s.bitcast(wide_x, F64.int_dtype), 0)
    result = s.select(odd & negative, -magnitude, magnitude)
    undefined = s.lt(wide_x, 0.0) & s.gt(wide_x, -INF) & ~whole
    result = s.select(undefined, s.const(NAN, F64.dtype), result)
    result = s.select(s.ne(wide_x, wide_x), wide_x, s.select(s.ne(wide_y, wide_y), wide_y, result))
    minus_one = s.eq(wide_x, -1.0) & s.eq(s.abs_(wide_y), INF)
    one = s.eq(wide_x, 1.0) | s.eq(wide_y, 0.0) | minus_one
    return s.cast(s.select(one, 1.0, result), fmt.dtype)
