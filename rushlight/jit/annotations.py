"""torch.jit.annotations: type hints of TorchScript."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401, UP035  (PyTorch has them)

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "BroadcastingList4",
    "BroadcastingList5", "BroadcastingList6",
]  # fmt: skip


class _BroadcastingList:
    """A hint: one value, or a list of as many as the name says."""

    def __getitem__(self, types: Any) -> Any:
        return types


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1
