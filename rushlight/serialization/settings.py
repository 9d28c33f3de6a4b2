"""What saving and loading can be told for the whole process: byte order, checksums, bare files.

>>> with skip_data():
...     torch.save(weights, "layout.pt")    # doctest: +SKIP
"""

from __future__ import annotations

import enum
import mmap
import sys
import threading
import warnings
from typing import Any


class LoadEndianness(enum.Enum):
    """The byte order of a file that does not say its own."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """A loaded module's source was another when it was saved (files of old releases say so)."""


class _Settings(threading.local):
    """endianness and compute_crc32 are the process's, `skips` a thread's."""

    skips = False


class _Process:
    endianness: LoadEndianness | None = None
    compute_crc32 = True


_HERE = _Settings()


def get_default_load_endianness() -> LoadEndianness | None:
    """What `set_default_load_endianness` was given."""
    return _Process.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Read files without a mark of their byte order in this one; None: little."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _Process.endianness = endianness


def unmarked_byteorder() -> str:
    """ "little" or "big", of a file without a mark."""
    if _Process.endianness is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if _Process.endianness is LoadEndianness.BIG else "little"


def get_crc32_options() -> bool:
    """Does `torch.save` sum up its records?"""
    return _Process.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Let `torch.save` leave the checksums out: faster, and damage is not seen."""
    _Process.compute_crc32 = compute_crc32


def get_default_mmap_options() -> int:
    """How `torch.load(mmap=True)` maps files: with private pages."""
    return mmap.MAP_PRIVATE


class set_default_mmap_options:  # noqa: N801
    """Takes `mmap.MAP_PRIVATE`, which is how files are mapped; a context manager too."""

    def __init__(self, flags: int) -> None:
        if flags == mmap.MAP_SHARED:
            raise NotImplementedError(
                "set_default_mmap_options(mmap.MAP_SHARED) is not supported: mapped files are not "
                "written to; use mmap.MAP_PRIVATE"
            )
        if flags != mmap.MAP_PRIVATE:
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *_: object) -> None:
        """Nothing changes."""


class skip_data:  # noqa: N801
    """Within the block `torch.save` writes zeros for the values, and `torch.load` reads none.

    The file has its full size: the values can be put in later.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before, _HERE.skips = _HERE.skips, True

    def __exit__(self, *_: object) -> None:
        _HERE.skips = self._before


def skips_data() -> bool:
    """Inside `skip_data`?"""
    return _HERE.skips


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Is `module.__version__` at least this? A version of another form raises, or warns.

    >>> import types
    >>> check_module_version_greater_or_equal(types.SimpleNamespace(__version__="1.2.3"), (1, 2))
    True
    """
    try:
        parts = module.__version__.split(".")
        found = tuple(type(want)(parts[i]) for i, want in enumerate(req_version_tuple))
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and "
            f"cannot be compared with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(message + ", but continuing assuming that requirement is met", stacklevel=2)
        return True
    return found >= req_version_tuple
