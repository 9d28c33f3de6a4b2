"""`torch.save` and `torch.load`: which format a file gets, and which it has.

Written is PyTorch's zip format, or safetensors where the name ends in ".safetensors". Read is what
the first bytes say: either of these, or PyTorch's format before 1.6.
"""

from __future__ import annotations

import os
import pickle
import warnings
from typing import Any, BinaryIO

from rushlight.serialization.atomic_file import replace_file
from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.serialization.legacy_file import LegacyReader
from rushlight.serialization.safetensors import LENGTH_BYTES
from rushlight.serialization.source import Source
from rushlight.serialization.torch_file import TorchReader, write_torch
from rushlight.serialization.tree_file import read_tree_file, write_tree
from rushlight.serialization.unpickle import UNSAFE_MESSAGE

SAFETENSORS = ".safetensors"
DEFAULT_PROTOCOL = 2
File = str | os.PathLike[str] | BinaryIO
TAR_MARK_AT = 257


def save(
    obj: Any,
    f: File,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object with tensors; a file by name is replaced whole or not at all.

    PyTorch reads the file, and this package reads PyTorch's. A name that ends in ".safetensors"
    gets a safetensors file: then only trees of tensors and plain values are saved.

    Example:
        >>> import io
        >>> import rushlight as torch
        >>> file = io.BytesIO()
        >>> save({"step": 3, "weight": torch.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> load(file)
        {'step': 3, 'weight': tensor([1., 1.])}
    """
    if pickle_module is not pickle:
        raise ValueError("save: pickle_module must be pickle; others cannot write PyTorch's names")
    if not _use_new_zipfile_serialization:
        raise ValueError(
            "save: the format before PyTorch 1.6 is read but not written; leave "
            "_use_new_zipfile_serialization out"
        )
    if not isinstance(f, (str, os.PathLike)):
        if not hasattr(f, "write"):
            raise AttributeError(
                "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
            )
        write_torch(obj, f, "archive", pickle_protocol)
        return
    name = os.path.basename(os.fspath(f))
    if name.endswith(SAFETENSORS):
        replace_file(f, lambda file: write_tree(obj, file))
        return
    stem = os.path.splitext(name)[0] if name.isascii() else "archive"
    replace_file(f, lambda file: write_torch(obj, file, stem or "archive", pickle_protocol))


def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read a file of `torch.save`, of this package or of PyTorch, or a safetensors file.

    `map_location`: a device for all tensors, a dict from saved to wanted devices, or a function of
    a torch.UntypedStorage and the device it was saved from, called once for each storage.
    `weights_only` (the default): only tensors, plain values, and what the user allowed with
    `torch.serialization.add_safe_globals`; False runs what the file says. `mmap`: map a file given
    by name; its pages are read when they are used, and no checksum of tensors is made.

    CorruptFileError: the file is damaged. pickle.UnpicklingError: it has more than `weights_only`
    allows.

    Example:
        >>> import tempfile
        >>> import rushlight as torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save({"weight": torch.ones(2)}, folder + "/model.pt")
        ...     load(folder + "/model.pt", map_location="cpu")
        {'weight': tensor([1., 1.])}
    """
    weights_only = pickle_module is None if weights_only is None else weights_only
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if weights_only and pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    options = (map_location, weights_only, pickle_module, pickle_load_args)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            try:
                return read(Source(file, bool(mmap)), *options)
            except CorruptFileError as error:
                raise CorruptFileError(f"{os.fspath(f)}: {error}") from error
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not hasattr(f, "read"):
        raise AttributeError(
            "load: f must be a path or a file-like object with a 'read' attribute, not "
            f"{type(f).__name__}"
        )
    return read(Source(f), *options)


def read(
    source: Source, map_location: Any, weights_only: bool, pickle_module: Any, options: dict
) -> Any:
    """Read a source by what its first bytes say."""
    head = source.peek(TAR_MARK_AT + 5)
    if head[:4] == b"GGUF":
        raise UnsupportedObjectError("a GGUF file: read it with rushlight.serialization.gguf")
    if head[:4] == b"PK\x03\x04":
        return TorchReader(source, map_location).load(weights_only, pickle_module, options)
    if head[TAR_MARK_AT:] == b"ustar":
        raise RuntimeError(
            "Cannot use ``weights_only=True`` with files saved in the legacy .tar format. "
            + UNSAFE_MESSAGE
        )
    if head[:1] == b"\x80" and head[LENGTH_BYTES : LENGTH_BYTES + 1] != b"{":
        if source.map is not None:
            raise RuntimeError(
                "mmap can only be used with files saved with `torch.save("
                "_use_new_zipfile_serialization=True), please torch.save your checkpoint with this "
                "option in order to use mmap."
            )
        return LegacyReader(source, map_location).load(weights_only, pickle_module, options)
    is_longer = int.from_bytes(head[:LENGTH_BYTES], "little") > source.size_bytes
    if is_longer and head[LENGTH_BYTES : LENGTH_BYTES + 1] not in (b"{", b""):
        raise CorruptFileError(
            "neither a file of torch.save nor of safetensors (a web page in its place?): it begins "
            f"with {head[:16]!r}"
        )
    return read_tree_file(source, map_location)
