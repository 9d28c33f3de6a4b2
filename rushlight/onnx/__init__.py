"""`torch.onnx`: models are not exported to ONNX. What packages register for it is accepted."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, NoReturn

from rushlight import names as _names
from rushlight.base.errors import NotSupportedError
from rushlight.onnx import symbolic_helper

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType", "TrainingMode",
    "dynamo_export", "export", "is_in_onnx_export", "is_onnxrt_backend_supported",
    "register_custom_op_symbolic", "symbolic_helper", "unregister_custom_op_symbolic",
]  # fmt: skip


class OperatorExportTypes(Enum):
    """How an exporter treats operators that ONNX does not have."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(Enum):
    """Whether a model is exported for training."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class TensorProtoDataType(IntEnum):
    """ONNX's numbers of element types."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16


class OnnxExporterError(RuntimeError):
    """An error of the exporter; programs catch it."""


def export(*_: Any, **__: Any) -> NoReturn:
    """Not supported."""
    raise NotSupportedError("torch.onnx.export is not supported: models are not exported to ONNX")


dynamo_export = export


def is_in_onnx_export() -> bool:
    """False: nothing is exported."""
    return False


def is_onnxrt_backend_supported() -> bool:
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Accepted: only an exporter would call the function."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Accepted."""
