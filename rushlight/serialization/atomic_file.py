"""Replace a file so that a reader, or a crash, sees the old or the new one and never a mix."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Any, BinaryIO


def replace_file(path: str | os.PathLike[str], write: Callable[[BinaryIO], Any]) -> None:
    """Let `write` fill a new file beside `path`, put it on the disk, then rename it.

    The order matters: the bytes reach the disk before the name does, and the directory, which
    holds the name, is synced last. A process that dies earlier leaves the old file as it was.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "note")
        ...     replace_file(path, lambda file: file.write(b"hello"))
        ...     open(path, "rb").read()
        b'hello'
    """
    target = os.path.realpath(os.fspath(path))
    folder, name = os.path.split(target)
    draft = os.path.join(folder, f".{name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(draft, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            os.chmod(draft, os.stat(target).st_mode & 0o7777)
        os.replace(draft, target)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise
    sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Put the names of a folder on the disk, where the system lets one open folders."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
