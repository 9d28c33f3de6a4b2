"""Complex numbers: made from parts, taken apart, conjugated.

`real`, `imag`, `conj`, `view_as_real` and `view_as_complex` give views: writing to them writes the
memory they see. A conjugate is not computed until its value is read (`is_conj` says so).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import bool_, float16, float32, float64
from rushlight.tensors.apply import apply
from rushlight.tensors.convert import clone
from rushlight.tensors.functions_slices import select
from rushlight.tensors.functions_view import alias, transpose
from rushlight.tensors.out import finish
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor, make_view
from rushlight.tensors.view import CONJ, NEG

PARTS = (float16, float32, float64)


def _bit(tensor: Tensor, name: str) -> bool:
    return tensor._view is not None and tensor._view.has_bit(name)


def is_conj(input: Tensor) -> bool:
    """True when the tensor sees conjugated memory."""
    return _bit(input, CONJ)


def is_neg(input: Tensor) -> bool:
    """True when the tensor sees negated memory (the imaginary part of a conjugate)."""
    return _bit(input, NEG)


def conj(input: Tensor) -> Tensor:
    """The conjugate, as a view; a real tensor itself.

    >>> import rushlight as torch
    >>> torch.tensor([1 + 2j]).conj()
    tensor([1.-2.j])
    """
    if not input._dtype.is_complex:
        return input
    steps = ((ops.conj, (), input._shape, None),)
    return make_view(
        input, steps, input._shape, input.stride(), input.storage_offset(), "ConjBackward0"
    )


def _negated(input: Tensor) -> Tensor:
    """-input, as a view."""
    steps = ((ops.neg, (), input._shape, None),)
    return make_view(
        input, steps, input._shape, input.stride(), input.storage_offset(), "NegViewBackward0"
    )


def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The conjugate, computed: a copy. A real tensor itself."""
    if not input._dtype.is_complex:
        return input if out is None else finish(clone(input), out)
    return finish(apply(ops.conj, (input,), label="ConjPhysicalBackward0"), out)


def resolve_conj(input: Tensor) -> Tensor:
    """A copy without the conjugate bit; the tensor itself when it has none."""
    return clone(input) if is_conj(input) else input


def resolve_neg(input: Tensor) -> Tensor:
    """A copy without the negative bit; the tensor itself when it has none."""
    return clone(input) if is_neg(input) else input


def view_as_real(input: Tensor) -> Tensor:
    """The same memory as real numbers, the parts along a last dim of 2."""
    if not input._dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if is_conj(input):
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate "
            "tensor so you can view it as real, use self.resolve_conj(); however, be warned that "
            "the resulting tensor will NOT alias the original."
        )
    return _as_real(input)


def _as_real(input: Tensor) -> Tensor:
    shape, part = (*input._shape, 2), input._dtype.to_real()
    strides = (*(2 * s for s in input.stride()), 1)
    steps = ((ops.view_as_real, (), shape, part),)
    return make_view(
        input, steps, shape, strides, 2 * input.storage_offset(), "ViewAsRealBackward0"
    )


def view_as_complex(input: Tensor) -> Tensor:
    """The same memory as complex numbers; the last dim holds their two parts."""
    if input._dtype not in PARTS:
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {input._dtype.scalar_name}"
        )
    if not input.dim():
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input._shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    strides = input.stride()
    if strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if input.storage_offset() % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    shape = input._shape[:-1]
    steps = ((ops.view_as_complex, (), shape, input._dtype.to_complex()),)
    return make_view(
        input, steps, shape, tuple(s // 2 for s in strides[:-1]), input.storage_offset() // 2,
        "ViewAsComplexBackward0",
    )  # fmt: skip


def real(input: Tensor) -> Tensor:
    """The real part, as a view; a real tensor itself."""
    return select(_as_real(input), -1, 0) if input._dtype.is_complex else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part, as a view."""
    if not input._dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if is_conj(input):
        return _negated(select(_as_real(conj(input)), -1, 1))
    return select(_as_real(input), -1, 1)


def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """real + i * imag, of two tensors of one floating point dtype."""
    return finish(apply(ops.complex_, _two_parts("complex", real, imag)), out, exact=True)


def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """abs * (cos(angle) + i * sin(angle))."""
    return finish(apply(ops.polar, _two_parts("polar", abs, angle)), out, exact=True)


def _two_parts(name: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    for value in (a, b):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): argument must be Tensor, not {type(value).__name__}")
    if a._dtype not in PARTS or b._dtype not in PARTS:
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{a._dtype.scalar_name} and {b._dtype.scalar_name}"
        )
    if a._dtype is not b._dtype:
        raise RuntimeError(
            f"Expected object of scalar type {a._dtype.scalar_name} but got scalar type "
            f"{b._dtype.scalar_name} for second argument"
        )
    return a, b


def isreal(input: Tensor) -> Tensor:
    """True where the imaginary part is 0."""
    if input._dtype.is_complex:
        return apply(ops.eq, (imag(input), 0))
    return apply(ops.logical_or, (apply(ops.eq, (input, input)), True))


def adjoint(input: Tensor) -> Tensor:
    """Transposed and conjugated matrices (Tensor.mH)."""
    if input.dim() == 1 or input.dim() == 0:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. "
            f"Got {input.dim()}-D tensor."
        )
    return conj(transpose(input, -2, -1))


def hermitian(input: Tensor) -> Tensor:
    """Tensor.H: of a matrix."""
    if input.dim() not in (0, 2):
        raise RuntimeError(
            "tensor.H is only supported on matrices (2-D tensors). Got "
            f"{input.dim()}-D tensor.{_for_batches(input)}"
        )
    return conj(transpose(input, 0, 1)) if input.dim() else conj(input)


def _for_batches(input: Tensor) -> str:
    return " For batches of matrices, consider using tensor.mH" if input.dim() > 2 else ""


def positive(input: Tensor) -> Tensor:
    """+input."""
    if input._dtype is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def _set_part(part: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Any], None]:
    def assign(self: Tensor, value: Any) -> None:
        part(self).copy_(value)  # type: ignore[attr-defined]

    return assign


set_real, set_imag = _set_part(lambda x: real(alias(x))), _set_part(imag)
METHODS: dict[str, Callable] = by_name(
    conj, conj_physical, resolve_conj, resolve_neg, isreal, is_conj, is_neg, adjoint, positive
)
FUNCTIONS: dict[str, Callable] = METHODS | by_name(
    view_as_real, view_as_complex, real, imag, complex, polar
)
