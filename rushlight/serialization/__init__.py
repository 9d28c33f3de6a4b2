"""Saving and loading without pickle: `torch.save`, `torch.load` and safetensors files."""

from rushlight import names as _names
from rushlight.serialization import safetensors
from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.serialization.save_load import load, save

__getattr__ = _names.getattr_of(__name__)

__all__ = ["CorruptFileError", "UnsupportedObjectError", "load", "safetensors", "save"]
