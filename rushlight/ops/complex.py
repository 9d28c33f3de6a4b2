"""Complex numbers and their parts: making one, taking it apart, seeing its memory as real numbers.

`interleave` is what the pass complex_to_real writes results with; nobody else makes it.
Gradients follow PyTorch: of a real loss L they are dL/d re + i dL/d im.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.ir import scalar as s
from rushlight.ir.interpret import arguments
from rushlight.ir.node import buffer_node
from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable, OpDef, find_op, op
from rushlight.ops import complex_pairs as pairs
from rushlight.ops import reference as ref
from rushlight.ops.build import conj_of, to_dtype
from rushlight.ops.composite import composite
from rushlight.ops.late import late
from rushlight.ops.meta import Meta
from rushlight.ops.rules import (
    Shape,
    common_dtype,
    elementwise_shape,
    inexact_dtype,
    is_static,
    operand_dtype,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, complex_array
from rushlight.ops.unary import scalar_sign, torch_names


def complex_dtype(call: Call) -> DType:
    """Of two real parts."""
    dtype = common_dtype(call)
    if dtype.kind != "float":
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{dtype.name} and {dtype.name}"
        )
    return dtype.to_complex()


def real_dtype(call: Call) -> DType:
    """Of the parts of the first operand."""
    return call.src[0].dtype.to_real()


def check_complex_operand(call: Call) -> None:
    dtype = call.src[0].dtype
    if dtype.kind != "complex":
        raise RuntimeError(f"{call.op.name} is only supported for complex tensors")


def complex_reference(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    re, im = np.broadcast_arrays(re, im)
    result = np.empty(re.shape, np.result_type(re.dtype, np.complex64))
    result.real, result.imag = re, im
    return result


def two_parts(rng: Rng) -> list[Sample]:
    return [Sample((array(rng, 3, 4), array(rng, 4))), Sample((array(rng), array(rng)))]


def some_complex(rng: Rng) -> list[Sample]:
    return [Sample((complex_array(rng, *shape),)) for shape in ((3, 4), (), (0, 2))]


def _parts(
    name: str, doc: str, inputs: tuple, reference: Callable, grad: Any, **fields: Any
) -> OpDef:
    fields.setdefault("shape", elementwise_shape)
    return op(
        name=name, doc=doc, inputs=inputs, kind="complex", reference=reference, grad=grad,
        cheap=True, **fields,
    )  # fmt: skip


complex_ = _parts(
    "complex",
    "re + i * im.",
    (Arg("re"), Arg("im")),
    complex_reference,
    lambda g: (real(g), imag(g)),
    dtype=complex_dtype,
    samples=two_parts,
    error_samples=(
        ErrorSample((np.ones(2, np.int64),) * 2, {}, RuntimeError, "Half, Float or Double"),
    ),
)
real = _parts(
    "real",
    "The real part of each element (a real operand is its own).",
    (Arg("x"),),
    np.real,
    lambda g, meta: (to_dtype(g, meta.dtype("x")),),
    dtype=real_dtype,
    samples=some_complex,
)
imag = _parts(
    "imag",
    "The imaginary part of each element.",
    (Arg("x"),),
    np.imag,
    lambda g: (complex_(g * 0.0, g),),
    dtype=real_dtype,
    check=check_complex_operand,
    samples=some_complex,
    error_samples=(ErrorSample((np.ones(2),), {}, RuntimeError, "only supported for complex"),),
)


def as_real_reference(x: np.ndarray) -> np.ndarray:
    found = np.ascontiguousarray(x).reshape(*x.shape, 1)
    return found.view(np.real(found).dtype)


view_as_real = _parts(
    "view_as_real",
    "The parts of each element along a last dim of 2.",
    (Arg("x"),),
    as_real_reference,
    lambda g: (view_as_complex(g),),
    shape=lambda call: (*call["x"].shape, 2),
    dtype=real_dtype,
    check=check_complex_operand,
    samples=some_complex,
    error_samples=(ErrorSample((np.ones(2),), {}, RuntimeError, "only supported for complex"),),
)


def check_pairs(call: Call) -> None:
    shape = call["x"].shape
    if not shape:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if is_static(shape[-1]) and shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")


view_as_complex = _parts(
    "view_as_complex",
    "Complex numbers from their parts along a last dim of 2.",
    (Arg("x"),),
    lambda x: complex_reference(x[..., 0], x[..., 1]),
    lambda g: (view_as_real(g),),
    shape=lambda call: call["x"].shape[:-1],
    dtype=complex_dtype,
    check=check_pairs,
    samples=lambda rng: [Sample((array(rng, 3, 2),)), Sample((array(rng, 2),))],
    error_samples=(
        ErrorSample((np.ones((2, 3)),), {}, RuntimeError, "last dimension of size 2"),
        ErrorSample((np.float64(1),), {}, RuntimeError, "one or more dimensions"),
    ),
)
conj = op(
    name="conj",
    doc="The same real part, minus the imaginary part.",
    inputs=(Arg("x"),),
    shape=elementwise_shape,
    dtype=operand_dtype,
    scalar=lambda x: x,
    pair=pairs.conj,
    reference=np.conj,
    grad=lambda g: (conj_of(g),),
    cheap=True,
    samples=some_complex,
)


def sgn_grad(g: Any, x: Any, out: Any, meta: Meta) -> tuple:
    """(g - re(g * conj(sgn)) * sgn) / |x|: what of g lies across x; 0 where x is 0."""
    if not meta.dtype("x").is_complex:
        return (g * 0.0,)
    along = to_dtype(real(g * conj(out)), meta.dtype("x"))
    size = late.abs(x)
    zero = late.eq(size, 0.0)
    size = to_dtype(late.where(zero, 1.0, size), meta.dtype("x"))
    return (late.where(zero, 0.0, (g - along * out) / size),)


def sgn_reference(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind != "c":
        return ref.sign(x)
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size)).astype(x.dtype)


sgn = op(
    name="sgn",
    doc="x / |x|, 0 where x is 0; the sign of a real number.",
    inputs=(Arg("x"),),
    shape=elementwise_shape,
    dtype=operand_dtype,
    scalar=scalar_sign,
    pair=pairs.sgn,
    reference=sgn_reference,
    grad=sgn_grad,
    torch=torch_names("sgn"),
    cheap=True,
    samples=some_complex,
)


def angle_grad(g: Any, x: Any, meta: Meta) -> tuple:
    """i * g * x / |x|**2; 0 at 0 and for real numbers."""
    dtype = meta.dtype("x")
    if not dtype.is_complex:
        return (g * 0.0,)
    re, im = real(x), imag(x)
    square = re * re + im * im
    share = late.where(late.eq(square, 0.0), 0.0, g / square)
    return (complex_(-im * share, re * share),)


def scalar_angle(x: s.E) -> s.E:
    turned = s.select(s.lt(x, s.const(0, x.dtype)), s.const(np.pi, x.dtype), s.const(0, x.dtype))
    return s.select(s.is_nan(x), x, turned)


def angle_reference(x: np.ndarray) -> np.ndarray:
    """Of a real number pi or 0; -0.0 counts as 0, as in PyTorch."""
    if x.dtype.kind == "c":
        return np.angle(x)
    return np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0)).astype(x.dtype)


def angle_dtype(call: Call) -> DType:
    return inexact_dtype(call).to_real()


angle = op(
    name="angle",
    doc="The angle of each number: atan2(im, re); 0 or pi for real ones.",
    inputs=(Arg("x"),),
    shape=elementwise_shape,
    dtype=angle_dtype,
    scalar=scalar_angle,
    pair=pairs.angle,
    reference=angle_reference,
    grad=angle_grad,
    promote="float",
    torch=("torch.angle", "Tensor.angle"),
    samples=some_complex,
)
polar = composite(
    "polar",
    "abs * (cos(angle) + i sin(angle)).",
    (Arg("abs"), Arg("angle")),
    lambda abs, angle: complex_(abs * late.cos(angle), abs * late.sin(angle)),  # noqa: A006
    lambda abs, angle: complex_reference(abs * np.cos(angle), abs * np.sin(angle)),  # noqa: A006
    dtype=complex_dtype,
    samples=two_parts,
)


def check_parts(call: Call) -> None:
    re, im = call.src
    if re.dtype is not im.dtype or re.dtype.kind != "float":
        raise RuntimeError(f"interleave: two floats, got {re.dtype.name} and {im.dtype.name}")


def interleaved_shape(call: Call) -> Shape:
    return (*elementwise_shape(call), 2)


interleave = op(
    name="interleave",
    doc="The memory of complex numbers from their parts: a last dim of 2.",
    inputs=(Arg("re"), Arg("im")),
    shape=interleaved_shape,
    dtype=operand_dtype,
    kind="interleave",
    reference=lambda re, im: np.stack(np.broadcast_arrays(re, im), -1),
    grad=NotDifferentiable("compiled graphs are not differentiated"),
    check=check_parts,
    samples=two_parts,
)


def stand_ins(call: Call) -> Call:
    """The call of the record that `complex_host` runs, on complex operands."""
    record = find_op(call["record"])
    sources = [
        buffer_node(None, node.shape[:-1], node.dtype.to_complex()) if flag else node
        for node, flag in zip(call["tensors"], call["complex"], strict=True)
    ]
    return record.call_of(SimpleNamespace(src=tuple(sources), attrs=call["attrs"]))  # type: ignore[arg-type]


def host_shape(call: Call) -> Shape:
    inner = stand_ins(call)
    shape = tuple(inner.op.shape(inner))
    return (*shape, 2) if inner.op.dtype(inner).is_complex else shape


def host_dtype(call: Call) -> DType:
    inner = stand_ins(call)
    return inner.op.dtype(inner).to_real()


def host_reference(
    tensors: list[np.ndarray],
    record: str,
    attrs: tuple,
    complex: tuple[bool, ...],  # noqa: A002
) -> np.ndarray:
    seen = [
        np.ascontiguousarray(x).view(np.result_type(x.dtype, np.complex64))[..., 0] if flag else x
        for x, flag in zip(tensors, complex, strict=True)
    ]
    op_ = find_op(record)
    at = dict(enumerate(seen))
    call = SimpleNamespace(src=tuple(at), attrs=attrs)
    positional, named = arguments(op_, call, at.__getitem__)
    with np.errstate(all="ignore"):
        result = np.asarray(op_.reference(*positional, **named))  # type: ignore
    return as_real_reference(result) if result.dtype.kind == "c" else result


complex_host = op(
    name="complex_host",
    doc="A host op (by name, with its attributes) on operands in interleaved memory.",
    inputs=(Arg("tensors", variadic=True), Attr("record"), Attr("attrs"), Attr("complex")),
    shape=host_shape,
    dtype=host_dtype,
    kind="host",
    reference=host_reference,
    grad=NotDifferentiable("compiled graphs are not differentiated"),
    samples=lambda rng: [
        Sample(
            ([array(rng, 2, 2, 2)],), {"record": "inverse", "attrs": (True,), "complex": (True,)}
        )
    ],
)
