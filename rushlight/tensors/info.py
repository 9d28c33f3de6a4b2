"""torch.finfo and torch.iinfo."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from rushlight.base.dtypes import DType, bool_, dtype_argument
from rushlight.tensors.numbers import Defaults


class finfo:
    """Limits of a floating point dtype."""

    def __init__(self, type: DType | None = None) -> None:
        dtype = Defaults.dtype if type is None else dtype_argument(type, "finfo", "type", 1)
        dtype = dtype.to_real()
        if dtype.kind != "float":
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                "'torch.finfo'"
            )
        found = ml_dtypes.finfo(dtype.np)
        self.bits, self.dtype = 8 * dtype.itemsize, dtype.name
        self.max, self.min, self.eps = float(found.max), float(found.min), float(found.eps)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.resolution = 10.0 ** -int(found.precision)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype."""

    def __init__(self, type: DType) -> None:
        dtype = dtype_argument(type, "iinfo", "type", 1)
        if dtype is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if dtype.kind not in ("int", "uint"):
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                "'torch.iinfo'"
            )
        found = np.iinfo(dtype.np)
        self.bits, self.dtype = 8 * dtype.itemsize, dtype.name
        self.max, self.min = int(found.max), int(found.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
