"""A checkpoint's folder as one file of `torch.save`, and back."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.distributed.checkpoint.filesystem import FileSystemReader
from rushlight.distributed.checkpoint.flatten import set_element
from rushlight.distributed.checkpoint.metadata import TensorStorageMetadata
from rushlight.distributed.checkpoint.run import load, save
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: Any, torch_save_path: Any) -> None:
    """Read a checkpoint's folder, and write all of it as one nested dict."""
    found = FileSystemReader(dcp_checkpoint_dir).read_metadata()
    flat: dict[str, Any] = {}
    for name, record in found.state_dict_metadata.items():
        is_tensor = isinstance(record, TensorStorageMetadata)
        flat[name] = torch.empty(record.size, dtype=record.properties.dtype) if is_tensor else None
    load(flat, checkpoint_id=dcp_checkpoint_dir)
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        set_element(nested, (found.planner_data or {}).get(name, (name,)), value)
    torch.save(nested, torch_save_path)


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: Any) -> None:
    """Read a file, and write its dict into a checkpoint's folder.

    Nothing of the file is run; classes of your own are allowed by
    `torch.serialization.add_safe_globals` (PyTorch runs what the file says).
    """
    save(torch.load(torch_save_path, weights_only=True), checkpoint_id=dcp_checkpoint_dir)
