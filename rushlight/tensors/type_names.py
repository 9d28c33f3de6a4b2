"""The names of dtypes that PyTorch shows besides torch.float32 and the like."""

from __future__ import annotations

from rushlight.base.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

# The old classes of tensors, torch.FloatTensor and so on.
TYPE_NAMES = {
    "FloatTensor": float32, "DoubleTensor": float64, "HalfTensor": float16, "LongTensor": int64,
    "BFloat16Tensor": bfloat16, "IntTensor": int32, "ShortTensor": int16, "CharTensor": int8,
    "ByteTensor": uint8, "BoolTensor": bool_,
}  # fmt: skip
COMPLEX_TYPE_NAMES = {
    "ComplexFloatTensor": complex64, "ComplexDoubleTensor": complex128,
    "ComplexHalfTensor": complex32,
}  # fmt: skip
_CPP_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "complex32": "c10::complex<c10::Half>", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>", "int8": "signed char", "uint8": "unsigned char",
    "int16": "short int", "int32": "int", "int64": "long int", "uint16": "short unsigned int",
    "uint32": "unsigned int", "uint64": "long unsigned int",
}  # fmt: skip
# Where a number is converted, whole numbers have names of their own.
_NUMBER_NAMES = {
    name: f"{name}_t" for name in "int8 int16 int64 uint8 uint16 uint32 uint64".split()
}


def cpp_name(dtype: DType) -> str:
    """The C++ type that PyTorch's error texts name."""
    return _CPP_NAMES.get(dtype.name, dtype.name)


def number_name(dtype: DType) -> str:
    """The same where the text is about a number that does not fit."""
    return _NUMBER_NAMES.get(dtype.name) or cpp_name(dtype)


def expand_name(dtype: DType) -> str:
    """The class of tensors as the error text of expand names it."""
    if dtype in (float32, float64, float16, int64, int32, int16, int8, uint8):
        return f"torch.{dtype.scalar_name}Tensor"
    return f"CPU{dtype.scalar_name}Type"
