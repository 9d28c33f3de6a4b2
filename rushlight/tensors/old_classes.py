"""torch.FloatTensor and the other old classes: constructors of one dtype, and `isinstance`.

>>> import rushlight as torch
>>> torch.LongTensor([1, 2]).dtype, isinstance(torch.zeros(1), torch.FloatTensor)
(torch.int64, True)
"""

from __future__ import annotations

from typing import Any

from rushlight.base.dtypes import DType
from rushlight.tensors.creation import zeros
from rushlight.tensors.from_data import tensor
from rushlight.tensors.size import Size
from rushlight.tensors.tensor import Tensor
from rushlight.tensors.type_names import TYPE_NAMES


class OldClass(type):
    """The class of these classes: every tensor of the dtype is an instance."""

    dtype: DType
    is_cuda = False
    is_sparse = False

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance._dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if len(args) == 1 and not isinstance(args[0], int | Size):
            return tensor(args[0], dtype=cls.dtype, device=device)
        return zeros(*args, dtype=cls.dtype, device=device)


OLD_CLASSES = {
    name: OldClass(name, (), {"dtype": dtype, "__module__": "torch"})
    for name, dtype in TYPE_NAMES.items()
}
