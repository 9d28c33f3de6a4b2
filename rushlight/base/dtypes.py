"""Data types: one object per dtype, and PyTorch's promotion lattice.

Everything that depends on a dtype reads its record here: size, kind, numpy twin, the dtype in
which composites compute. Objects are singletons; compare them with `is`.

>>> promote_types(int64, float16).name
'float16'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

KINDS = ("bool", "uint", "int", "float", "complex")


@dataclass(frozen=True, eq=False, slots=True)
class DType:
    """One element type. `kind` is one of KINDS; `np` is the numpy dtype with the same layout."""

    name: str
    kind: str
    itemsize: int
    np: np.dtype
    priority: int
    # The dtype arithmetic happens in: float32 for bfloat16 and float16 (complex64 for complex32),
    # itself otherwise.
    compute_name: str = ""

    @property
    def compute(self) -> DType:
        return _BY_NAME[self.compute_name or self.name]

    @property
    def is_floating_point(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_inexact(self) -> bool:
        """True for floating point and complex dtypes: those that have gradients."""
        return self.kind in ("float", "complex")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float", "complex")

    @property
    def is_integral(self) -> bool:
        """True for integers and bool."""
        return self.kind in ("bool", "uint", "int")

    def to_real(self) -> DType:
        """The dtype of the parts of a complex one; a real dtype itself (torch.dtype.to_real)."""
        return _BY_NAME[_PARTS[self.name]] if self.kind == "complex" else self

    def to_complex(self) -> DType:
        """The complex dtype whose parts hold this one (torch.dtype.to_complex)."""
        found = _COMPLEX.get(self.name)
        if self.kind == "complex":
            return self
        if found is None:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return _BY_NAME[found]

    @property
    def scalar_name(self) -> str:
        """What PyTorch's error texts call it."""
        return _SCALAR_NAMES.get(self.name, self.name.capitalize())

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple:
        return (find_dtype, (self.name,))


# A dtype is one value, not a container of fields: programs take dataclasses apart.
del DType.__dataclass_fields__


_BY_NAME: dict[str, DType] = {}
_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_COMPLEX = {"bfloat16": "complex64"} | {part: name for name, part in _PARTS.items()}


_SCALAR_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "complex32": "ComplexHalf",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def _declare(name: str, kind: str, np_type: object, priority: int, compute: str = "") -> DType:
    np_dtype = np.dtype(np_type)  # type: ignore[call-overload]
    record = DType(name, kind, np_dtype.itemsize, np_dtype, priority, compute)
    _BY_NAME[name] = record
    return record


bool_ = _declare("bool", "bool", np.bool_, 0)
uint8 = _declare("uint8", "uint", np.uint8, 1)
uint16 = _declare("uint16", "uint", np.uint16, 2)
uint32 = _declare("uint32", "uint", np.uint32, 3)
uint64 = _declare("uint64", "uint", np.uint64, 4)
int8 = _declare("int8", "int", np.int8, 1)
int16 = _declare("int16", "int", np.int16, 2)
int32 = _declare("int32", "int", np.int32, 3)
int64 = _declare("int64", "int", np.int64, 4)
float16 = _declare("float16", "float", np.float16, 5, "float32")
bfloat16 = _declare("bfloat16", "float", ml_dtypes.bfloat16, 5, "float32")
float32 = _declare("float32", "float", np.float32, 6)
float64 = _declare("float64", "float", np.float64, 7)
# All that kernels compute with.
ALL_DTYPES = tuple(_BY_NAME.values())
# Two floats each, which kernels see. numpy has none of two halves: it sees them as pairs.
HALVES = [("real", np.float16), ("imag", np.float16)]
complex32 = _declare("complex32", "complex", HALVES, 8, "complex64")
complex64 = _declare("complex64", "complex", np.complex64, 9)
complex128 = _declare("complex128", "complex", np.complex128, 10)
COMPLEX = (complex32, complex64, complex128)
# Kept and converted, no more.
float8_e4m3fn = _declare("float8_e4m3fn", "float", ml_dtypes.float8_e4m3fn, 4, "float32")
float8_e5m2 = _declare("float8_e5m2", "float", ml_dtypes.float8_e5m2, 4, "float32")
float8_e4m3fnuz = _declare("float8_e4m3fnuz", "float", ml_dtypes.float8_e4m3fnuz, 4, "float32")
float8_e5m2fnuz = _declare("float8_e5m2fnuz", "float", ml_dtypes.float8_e5m2fnuz, 4, "float32")
float8_e8m0fnu = _declare("float8_e8m0fnu", "float", ml_dtypes.float8_e8m0fnu, 4, "float32")
BYTE_FLOATS = tuple(d for d in _BY_NAME.values() if d not in (*ALL_DTYPES, *COMPLEX))

# They meet themselves and floats, no other dtype.
BARE_UNSIGNED = (uint16, uint32, uint64)

_BY_NP = {d.np: d for d in _BY_NAME.values()}


# Python's types as dtypes: torch.zeros(2, dtype=float).
PYTHON_TYPES: dict[Any, DType] = {
    float: float64, int: int64, bool: bool_, complex: complex128,
}  # fmt: skip


def dtype_argument(value: Any, function: str, name: str, position: int) -> DType:
    """The dtype that an argument names, one of Python's types too; TypeError for anything else."""
    found = PYTHON_TYPES.get(value) if value.__class__ is type else value
    if not isinstance(found, DType):
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be torch.dtype, not "
            f"{type(value).__name__}"
        )
    return found


def convert_array(array: np.ndarray, dtype: DType) -> np.ndarray:
    """`astype` that also knows pairs of halves; complex to real keeps the real part."""
    if array.dtype == complex32.np:
        wide = np.empty(array.shape, np.complex64)
        wide.real, wide.imag = array["real"], array["imag"]
        array = wide
    if array.dtype.kind == "c" and dtype.kind != "complex":
        array = (array != 0) if dtype is bool_ else np.real(array)
    if dtype is not complex32:
        return array.astype(dtype.np, copy=False)
    pairs = np.empty(array.shape, dtype.np)
    with np.errstate(all="ignore"):
        pairs["real"], pairs["imag"] = np.real(array), np.imag(array)
    return pairs


def find_dtype(name: str) -> DType:
    """The dtype called `name` ("float32"); KeyError if there is none."""
    return _BY_NAME[name]


def dtype_of_numpy(np_dtype: object) -> DType:
    """The dtype with the layout of a numpy dtype; TypeError (PyTorch's text) if there is none."""
    given = np.dtype(np_dtype)  # type: ignore[call-overload]
    found = _BY_NP.get(given)
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {given}. The only supported types are: "
            "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, "
            "uint32, uint16, uint8, and bool."
        )
    return found


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype that both convert to (torch.promote_types)."""
    if a is b:
        return a
    if a in BYTE_FLOATS or b in BYTE_FLOATS:
        raise RuntimeError(
            "Promotion for Float8 Types is not supported, attempted to promote "
            f"{a.scalar_name} and {b.scalar_name}"
        )
    if a in BARE_UNSIGNED or b in BARE_UNSIGNED:
        if a.is_floating_point or b.is_floating_point:
            return a if a.is_floating_point else b
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.scalar_name} and {b.scalar_name}"
        )
    if a.kind == "bool":
        return b
    if b.kind == "bool":
        return a
    if a.is_complex or b.is_complex:
        parts = [d.to_real() for d in (a, b) if d.is_inexact]
        return promote_types(parts[0], parts[-1]).to_complex()
    if a.is_floating_point or b.is_floating_point:
        if not (a.is_floating_point and b.is_floating_point):
            return a if a.is_floating_point else b
        if a.priority == b.priority:  # bfloat16 with float16
            return float32
        return a if a.priority > b.priority else b
    if a.kind == b.kind:
        return a if a.itemsize >= b.itemsize else b
    unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
    return signed if unsigned.itemsize < signed.itemsize else int16
