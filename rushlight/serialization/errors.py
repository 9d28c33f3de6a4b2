"""What goes wrong when a file is read or written."""

from __future__ import annotations

from rushlight.tensors.namespace import OutOfMemoryError


class CorruptFileError(RuntimeError):
    """The file is damaged, cut, or not in the format; the message names the place."""


class UnsupportedObjectError(TypeError):
    """Something that this format does not hold, or a dtype that Rushlight does not have."""


# What says itself what is wrong; a file that fits into no memory is not damaged.
CLEAR = (CorruptFileError, UnsupportedObjectError, OutOfMemoryError)
